// Under which boot of the machine the state was last in order.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/durable_file.h"

namespace alignd::allocation {

inline constexpr std::string_view kBootFileName = "boot_id";

// The kernel's id of this boot, below `root`; empty where it has none, as most trees that are not a
// machine's.
std::string RunningBoot(const std::filesystem::path& root);

// After a reboot devices may not be there before their plugins have prepared them, so whoever held
// some has to wait for these. Our own restart is none: what runs then has its devices.
// One thread at a time.
class BootRecord {
 public:
  // `running`: the kernel's id of the boot; empty: not known, and no boot is an earlier one. A file
  // that is not there is of no earlier boot either: the state has come from a kubelet, or is new.
  // `calls` outlives the record.
  // Errors: kIo, of the file.
  static Result<std::unique_ptr<BootRecord>> Load(
      std::filesystem::path file, std::string running,
      host::FileCalls& calls = host::FileCalls::System());
  BootRecord(const BootRecord&) = delete;
  BootRecord& operator=(const BootRecord&) = delete;

  // The state is from an earlier boot, and some of it has not settled since.
  bool IsEarlier() const { return is_earlier_; }

  // All has settled in this boot. Errors: kIo; then our next life waits once more.
  Result<Done> Settle();

 private:
  BootRecord(std::filesystem::path file, std::string running, host::FileCalls& calls)
      : file_(std::move(file)), running_(std::move(running)), calls_(calls) {}

  const std::filesystem::path file_;
  const std::string running_;
  host::FileCalls& calls_;
  bool is_earlier_ = false;
};

}  // namespace alignd::allocation
