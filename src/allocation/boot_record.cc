#include "allocation/boot_record.h"

#include <utility>

#include "host/file.h"

namespace alignd::allocation {

Result<std::string> RunningBoot(const std::filesystem::path& root) {
  Result<std::string> id = host::ReadFile(root / "proc/sys/kernel/random/boot_id");
  if (!id.ok() && id.error().code == ErrorCode::kNotFound) return std::string();
  return id;
}

Result<std::unique_ptr<BootRecord>> BootRecord::Load(std::filesystem::path file,
                                                     std::string running, host::FileCalls& calls) {
  if (Result<Done> clean = host::RemoveTemporary(file, calls); !clean.ok()) return clean.error();
  std::unique_ptr<BootRecord> record(new BootRecord(std::move(file), std::move(running), calls));
  const Result<std::string> noted = host::ReadFile(record->file_);
  if (noted.ok()) {
    record->is_earlier_ = !record->running_.empty() && *noted != record->running_;
    return record;
  }
  if (noted.error().code != ErrorCode::kNotFound) return noted.error();
  // A full disk must not prevent a start because of it.
  if (Result<Done> settled = record->Settle(); !settled.ok()) record->unsaved_ = settled.error();
  return record;
}

Result<Done> BootRecord::Settle() {
  if (!running_.empty()) {
    if (Result<Done> noted = host::ReplaceFile(file_, running_, calls_); !noted.ok()) return noted;
  }
  is_earlier_ = false;
  unsaved_.reset();
  return Done{};
}

}  // namespace alignd::allocation
