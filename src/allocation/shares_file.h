// alignd's own file cpu_shares, beside the CPU file of the kubelet's form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/cpumanager/cpu_state.h"
#include "host/durable_file.h"

namespace alignd::allocation {

// What containers of the shared pool request that stay on one NUMA node. The file is there if and
// only if pods of the node can ask for that, from the first save on: no file means that it is not
// known. One thread at a time.
class SharesFile {
 public:
  // `calls` outlives this object.
  SharesFile(std::filesystem::path file, host::FileCalls& calls)
      : file_(std::move(file)), calls_(calls) {}

  const std::filesystem::path& path() const { return file_; }

  // Reads the file into `state`, which comes from the CPU file. If the CPU file does not leave what
  // the entries of a NUMA node request there, as after a crash between the two writes, or with
  // other reserved CPUs, none of that NUMA node is taken, with a warning: the marks of running
  // containers say what these have. If no pods can ask for it, the text does not matter and nothing
  // is taken. Writes nothing. Errors: kCorrupt, naming the file and the remedy; kIo. The file is
  // unchanged then.
  Result<Done> Load(const admission::Node& node, cpumanager::CpuState& state);

  // There is no file any more: it was renamed after Load had failed.
  void Forget();

  // The file has exactly these entries; without pods that can ask for it, there is no file. Writes
  // nothing if that is so already.
  // Errors: kIo; as RequireReadBack.
  Result<Done> Save(const admission::Node& node, const checkpoint::Shares& shares);

  // Removes a file that is left from when pods could ask for it: what it says is out of date when
  // they can again. Errors: kIo.
  Result<Done> RemoveUnused(const admission::Node& node);

  // Whether the text that Save writes can be read back. Errors: kInvalidArgument if the file would
  // be too long, kInternal if it would be read back as something else.
  Result<Done> RequireReadBack(const admission::Node& node, const checkpoint::Shares& shares) const;

  // Whether the content of the file is unknown, because the last write failed.
  bool IsUncertain() const { return is_uncertain_; }

 private:
  const std::filesystem::path file_;
  host::FileCalls& calls_;
  std::optional<std::string> text_;  // of the file; nullopt: no file, or unknown
  bool is_uncertain_ = false;
};

}  // namespace alignd::allocation
