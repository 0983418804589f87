// Replaces several files, of which either all are new or all are old, and keeps what they replace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "host/durable_file.h"

namespace alignd::moving {

// A file that is replaced, made or removed. A value.
struct FileChange {
  std::filesystem::path path;
  std::optional<std::string> before;  // nullopt: there is no such file
  std::optional<std::string> after;   // nullopt: it is removed
  host::FileOwner owner = {};         // of `before`; of a new file: this process, mode 0600
};

// The file as it is, with `after`. Errors: as host::ReadFile.
Result<FileChange> ChangeTo(const std::filesystem::path& path, std::optional<std::string> after);

// Copies what is replaced into `backup`, a directory that it makes. Then it writes a record with
// the old texts into alignd's state directory, writes the files in their order, reads them back,
// and removes the record. While the record is there, the next start of alignd, and Recover, restore
// the old files: the moment in which it is removed, durably, is the moment of the change. Each file
// is replaced atomically, with the mode and owner that it had. The caller has locked `state_dir`.
// `config`: the text of alignd's configuration, which the start compares.
// Errors: kIo, kInvalidArgument: a file is not as `before` says. The old files are restored then;
// if that fails too, the error says so, and the record stays.
Result<Done> SwitchFiles(const std::filesystem::path& state_dir,
                         const std::filesystem::path& backup, const std::string& config,
                         const std::vector<FileChange>& changes,
                         host::FileCalls& calls = host::FileCalls::System());

// Writes `before` of all files again; files that have it already are left alone. Errors: kIo.
Result<Done> SwitchBack(const std::filesystem::path& state_dir, const std::string& config,
                        const std::vector<FileChange>& changes);

// Whether no container is being moved for a change of the configuration: until alignd has moved it
// back, the state files give it more CPUs than it has asked for. Errors: kUnavailable, as
// MovesFile::Read.
Result<Done> RequireNoMoves(const std::filesystem::path& state_dir);

// Restores the files of a switch that was interrupted; false: there was none. The caller has locked
// `state_dir`. Errors: kIo, kCorrupt; kInvalidArgument: a change of the configuration was
// interrupted, which a start of alignd ends; as RequireNoMoves: nothing is touched then.
Result<bool> Recover(const std::filesystem::path& state_dir, const std::string& config);

}  // namespace alignd::moving
