// The record with which a change of several files is undone, also after a crash in the middle.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::daemon {

// While the record is in the state directory, the files may be old or new; each start restores the
// old ones. So it is removed before anything else is written to one of them. One thread at a time.
class ChangeUndo {
 public:
  static constexpr char kFileName[] = "config_change_undo";

  // Records the files as they are; a file that is not there is removed at the undo. The caller has
  // locked the directory. `config`: the text of the configuration before the change. A former
  // record is replaced, in one step.
  // Errors: kIo; the former record, if any, or this one is there.
  static Result<ChangeUndo> Begin(const std::filesystem::path& state_dir,
                                  const std::vector<std::filesystem::path>& files,
                                  std::string config);

  // A record with other texts than the files have now. Errors: as Begin.
  using Texts = std::vector<std::pair<std::filesystem::path, std::optional<std::string>>>;
  static Result<ChangeUndo> BeginWith(const std::filesystem::path& state_dir, Texts texts,
                                      std::string config);

  // The record of a change that was not ended; nullopt: there is none. Errors: kCorrupt, kIo.
  static Result<std::optional<ChangeUndo>> Find(const std::filesystem::path& state_dir);

  // The new files apply: removes the record. Errors: kIo; the record may still be there.
  Result<Done> Commit() const;

  // This record is there, also if it was removed, or replaced by another one. Errors: kIo; the
  // former one may still be there.
  Result<Done> Keep() const;

  // Restores the old files; the record stays. Errors: kIo; it stays, too.
  Result<Done> Restore() const;

  // Restores the old files, also after Commit, and removes the record. Errors: kIo; the record may
  // still be there.
  Result<Done> Undo() const;

  // The same, but a record without files stays: the next start still begins with the configuration
  // of before. Errors: likewise.
  Result<Done> UndoFiles() const;

  const std::string& config() const { return config_; }

 private:
  struct File {
    std::filesystem::path path;
    std::optional<std::string> text;  // nullopt: not there
  };

  explicit ChangeUndo(std::filesystem::path record) : record_(std::move(record)) {}
  std::string Text() const;
  Result<Done> RestoreAgain() const;

  std::filesystem::path record_;
  std::string config_;
  std::vector<File> files_;
};

// Replaces the file, which keeps its mode and owner. Errors: as host::ReplaceFile with an owner.
Result<Done> ReplaceKeepingOwner(const std::filesystem::path& path, const std::string& text);

// The same, with mode and owner of `model`.
Result<Done> ReplaceWithOwnerOf(const std::filesystem::path& model,
                                const std::filesystem::path& path, const std::string& text);

}  // namespace alignd::daemon
