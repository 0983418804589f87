// The boot of the machine under which all plugins of assigned devices had registered last.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/durable_file.h"

namespace alignd::allocation {

inline constexpr std::string_view kBootFileName = "boot_id";

// The kernel's id of this boot, read below `root`; empty if there is none. Errors: those of
// ReadFile, except kNotFound.
Result<std::string> RunningBoot(const std::filesystem::path& root);

// Distinguishes a reboot of the machine from a restart of alignd (RebootWait). One thread at a
// time.
class BootRecord {
 public:
  // `running`: the kernel's id of the boot; empty: not known, then IsEarlier is false. It is also
  // false if the file is missing: the state was copied from a kubelet, or is new.
  // `calls` outlives the record. A missing file is written; if that fails, Unsaved says so.
  // Errors: kIo, of a file that is there.
  static Result<std::unique_ptr<BootRecord>> Load(
      std::filesystem::path file, std::string running,
      host::FileCalls& calls = host::FileCalls::System());
  BootRecord(const BootRecord&) = delete;
  BootRecord& operator=(const BootRecord&) = delete;

  // The file has an earlier boot, and Settle has not succeeded since.
  bool IsEarlier() const { return is_earlier_; }

  // Records this boot. Errors: kIo; containers then wait again after the next restart.
  Result<Done> Settle();

  // Why the missing file could not be written; nullopt: it was there, or is written now. Settle
  // tries again. A boot that begins before that is not noticed.
  const std::optional<Error>& Unsaved() const { return unsaved_; }

 private:
  BootRecord(std::filesystem::path file, std::string running, host::FileCalls& calls)
      : file_(std::move(file)), running_(std::move(running)), calls_(calls) {}

  const std::filesystem::path file_;
  const std::string running_;
  host::FileCalls& calls_;
  bool is_earlier_ = false;
  std::optional<Error> unsaved_;
};

}  // namespace alignd::allocation
