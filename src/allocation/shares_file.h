// alignd's own file cpu_shares, beside the CPU file of the kubelet's form.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/cpumanager/cpu_state.h"
#include "host/durable_file.h"

namespace alignd::allocation {

// The texts of the CPU file beside which the shares are saved.
struct CpuTexts {
  std::optional<std::string> now;  // before the save; nullopt: no file, or a write has failed
  std::string next;
};

// What containers of the shared pool request that stay on one NUMA node. The file is there if and
// only if pods of the node can ask for that, from the first save on: no file means that it is not
// known. It says beside which CPU file it was saved, so that one is recognised that an alignd which
// does not know it has left behind. One thread at a time.
class SharesFile {
 public:
  // `calls` outlives this object.
  SharesFile(std::filesystem::path file, host::FileCalls& calls)
      : file_(std::move(file)), calls_(calls) {}

  const std::filesystem::path& path() const { return file_; }

  // Reads the file into `state`, which comes from the CPU file with the text `cpu_text`. A file of
  // another CPU file is out of date: none of it is taken (is_outdated). If the CPU file does not
  // leave what the entries of a NUMA node request there, as after a crash between the two writes,
  // or with other reserved CPUs, none of that NUMA node is taken, with a warning: the marks of
  // running containers say what these have. If no pods can ask for it, the text does not matter and
  // nothing is taken. Writes nothing. Errors: kCorrupt, naming the file and the remedy; kIo. The
  // file is unchanged then.
  Result<Done> Load(const admission::Node& node, std::string_view cpu_text,
                    cpumanager::CpuState& state);

  // Whether the file that Load read is of another CPU file.
  bool is_outdated() const { return is_outdated_; }

  // Whether Load found a file, or one was saved.
  bool IsThere() const { return is_there_; }

  // There is no file any more: it was renamed after Load had failed.
  void Forget();

  // The file has exactly these entries, and is of the next CPU file, which is written after this,
  // or of the one of now, or if that is unknown, of each one that may be there; without pods that
  // can ask for it, there is no file. Writes nothing if that is so already. Errors: kIo; as
  // RequireReadBack.
  Result<Done> Save(const admission::Node& node, const checkpoint::Shares& shares,
                    const CpuTexts& cpu);

  // Removes a file that is left from when pods could ask for it: what it says is out of date when
  // they can again. Errors: kIo.
  Result<Done> RemoveUnused(const admission::Node& node);

  // Whether the text that Save writes can be read back. Errors: kInvalidArgument if the file would
  // be too long, kInternal if it would be read back as something else.
  Result<Done> RequireReadBack(const admission::Node& node, const checkpoint::Shares& shares,
                               const CpuTexts& cpu) const;

  // Whether the content of the file is unknown, because the last write failed, or there is no file
  // yet where pods can ask for it: the next save writes one, so that planning knows of no such
  // containers that there are none.
  bool IsUncertain() const { return is_uncertain_ || is_missing_; }

 private:
  // The checksums of the CPU files that may be on the disk before the CPU file is written, and
  // after that.
  std::vector<uint64_t> CpuFiles(const CpuTexts& cpu) const;
  // Whether the file says this already.
  bool Has(const checkpoint::Shares& shares, const std::vector<uint64_t>& cpu_files) const;
  Result<Done> Remove();

  const std::filesystem::path file_;
  host::FileCalls& calls_;
  std::optional<checkpoint::SharesCheckpoint> saved_;  // the file; nullopt: no file, or unknown
  // Those of the last save. Any of them may be on the disk if the CPU file was not written then.
  std::vector<uint64_t> cpu_files_;
  bool is_there_ = false;
  bool is_uncertain_ = false;
  bool is_outdated_ = false;
  bool is_missing_ = false;
};

}  // namespace alignd::allocation
