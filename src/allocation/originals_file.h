// alignd's own file cpu_originals, beside the CPU file of the kubelet's form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/cpumanager/cpu_state.h"
#include "host/durable_file.h"

namespace alignd::allocation {

// At every moment, the file has the original CPUs of every container that the CPU file shows with
// more: new entries are written before the CPU file, and entries without a container are dropped
// after it. One thread at a time.
class OriginalsFile {
 public:
  // `calls` outlives this object.
  OriginalsFile(std::filesystem::path file, host::FileCalls& calls)
      : file_(std::move(file)), calls_(calls) {}

  const std::filesystem::path& path() const { return file_; }

  // Reads the file into `state`, which comes from the CPU file. No file means no entries. Entries
  // of containers without exclusive CPUs, or with CPUs that the container does not have, are
  // dropped with a warning: the CPU file is newer, or from elsewhere. Then the file is written
  // without them.
  // Errors: kCorrupt or kInvalidArgument, naming the file and the remedy; kIo. The file is
  // unchanged then.
  Result<Done> Load(cpumanager::CpuState& state);

  // There is no file any more: it was renamed after Load had failed.
  void Forget();

  // Before the CPU file is written: the file has these entries, beside those to which the CPU file
  // may still refer. Writes nothing if it has them already, or if there was never an entry.
  // Errors: kIo; kInvalidArgument if the file would be too long to be read back, kInternal if it
  // would be read back as something else; nothing is written then.
  Result<Done> SaveNew(const checkpoint::Originals& now);
  // After the CPU file is written: the file has exactly these. Errors: as SaveNew.
  Result<Done> Save(const checkpoint::Originals& now);

  // Whether both texts that a save of these writes can be read back. Errors: as SaveNew.
  Result<Done> RequireReadBack(const checkpoint::Originals& now) const;

  // Whether the content of the file is unknown, because the last write failed.
  bool IsUncertain() const { return is_uncertain_; }

 private:
  checkpoint::Originals WithKept(const checkpoint::Originals& now) const;
  Result<Done> Write(const checkpoint::Originals& originals);

  const std::filesystem::path file_;
  host::FileCalls& calls_;
  std::optional<std::string> text_;  // of the file; nullopt: no file, or unknown
  checkpoint::Originals kept_;       // the file has them all, whatever it has beside them
  bool is_uncertain_ = false;
};

}  // namespace alignd::allocation
