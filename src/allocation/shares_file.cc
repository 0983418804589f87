#include "allocation/shares_file.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/cpumanager/node_shares.h"
#include "allocation/bad_state.h"
#include "allocation/state_limits.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using checkpoint::Shares;

// Each failed write of the CPU file adds one that may be on the disk.
constexpr size_t kMaxCpuFiles = 64;

}  // namespace

Result<Done> SharesFile::Load(const admission::Node& node, std::string_view cpu_text,
                              cpumanager::CpuState& state) {
  if (Result<Done> clean = host::RemoveTemporary(file_, calls_); !clean.ok()) return clean;
  Forget();
  Result<std::string> text = host::ReadFile(file_);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    is_missing_ = admission::MayShareNodes(node);
    return Done{};
  }
  is_there_ = true;
  if (!admission::MayShareNodes(node)) return Done{};  // it is left of another configuration
  const bool is_too_long = !text.ok() && text.error().code == ErrorCode::kInvalidArgument;
  if (!text.ok() && !is_too_long) return text.error();
  Result<checkpoint::SharesCheckpoint> loaded =
      text.ok() ? checkpoint::ParseSharesCheckpoint(*text)
                : Result<checkpoint::SharesCheckpoint>(text.error());
  if (!loaded.ok()) {
    Error error = loaded.error().In("load " + file_.string());
    error.code = ErrorCode::kCorrupt;
    error.remedy = RebuildRemedy(file_);
    return error;
  }
  saved_ = *std::move(loaded);
  is_outdated_ = saved_->IsOfAnotherCpuFile(cpu_text);
  if (!cpu_text.empty()) cpu_files_ = {checkpoint::CpuFileChecksum(cpu_text)};
  if (is_outdated_) {
    spdlog::warn(
        "{}: {}: the marks of running containers say what they have, and the others are decided "
        "anew",
        file_.string(),
        cpu_text.empty() ? "the cpu_manager_state beside which it was saved is missing"
                         : "it was saved beside another cpu_manager_state, as before a return to "
                           "an earlier version of alignd");
    return Done{};
  }
  for (const int numa_id : cpumanager::TakeShares(node.machine, *node.cpu, saved_->shares, state)) {
    spdlog::warn(
        "{}: {} does not leave what containers of the shared pool request that stay on NUMA node "
        "{}: the marks of those that run say what they have, and the others are decided anew",
        file_.string(), "cpu_manager_state", numa_id);
  }
  return Done{};
}

void SharesFile::Forget() {
  saved_.reset();
  cpu_files_.clear();
  is_there_ = is_uncertain_ = is_outdated_ = is_missing_ = false;
}

std::vector<uint64_t> SharesFile::CpuFiles(const CpuTexts& cpu) const {
  std::vector<uint64_t> files = cpu_files_;
  if (cpu.now) files = {checkpoint::CpuFileChecksum(*cpu.now)};
  const uint64_t next = checkpoint::CpuFileChecksum(cpu.next);
  if (std::ranges::find(files, next) == files.end()) files.push_back(next);
  // The first one was written, and the last ones are the likeliest to have come after it.
  if (files.size() > kMaxCpuFiles) files.erase(files.begin() + 1);
  return files;
}

bool SharesFile::Has(const Shares& shares, const std::vector<uint64_t>& cpu_files) const {
  if (!saved_ || is_uncertain_ || saved_->shares != shares) return false;
  return std::ranges::all_of(cpu_files, [this](uint64_t file) {
    return std::ranges::find(saved_->cpu_files, file) != saved_->cpu_files.end();
  });
}

Result<Done> SharesFile::RequireReadBack(const admission::Node& node, const Shares& shares,
                                         const CpuTexts& cpu) const {
  const std::vector<uint64_t> cpu_files = CpuFiles(cpu);
  if (!admission::MayShareNodes(node) || Has(shares, cpu_files)) return Done{};
  const std::string text = checkpoint::FormatSharesCheckpoint(shares, cpu_files);
  if (text.size() > kMaxStateBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "write " + file_.string() + ": the file would be " + std::to_string(text.size()) +
                     " bytes, more than the " + std::to_string(kMaxStateBytes) +
                     " that alignd reads after a restart",
                 "run fewer containers that stay on one NUMA node"};
  }
  const Result<checkpoint::SharesCheckpoint> read = checkpoint::ParseSharesCheckpoint(text);
  if (read.ok() && read->shares == shares) return Done{};
  return NotReadBack(read.ok() ? Result<Done>(Done{}) : read.error()).In("write " + file_.string());
}

Result<Done> SharesFile::RemoveUnused(const admission::Node& node) {
  return admission::MayShareNodes(node) ? Result<Done>(Done{}) : Remove();
}

Result<Done> SharesFile::Remove() {
  if (!is_there_ && !is_uncertain_) return Done{};
  saved_.reset();
  is_uncertain_ = true;
  if (Result<Done> removed = host::RemoveFile(file_, calls_); !removed.ok()) return removed;
  is_there_ = is_uncertain_ = false;
  return Done{};
}

Result<Done> SharesFile::Save(const admission::Node& node, const Shares& shares,
                              const CpuTexts& cpu) {
  is_missing_ = false;
  if (!admission::MayShareNodes(node)) return Remove();
  if (Result<Done> sound = RequireReadBack(node, shares, cpu); !sound.ok()) return sound;
  cpu_files_ = CpuFiles(cpu);
  if (Has(shares, cpu_files_)) return Done{};
  const std::string text = checkpoint::FormatSharesCheckpoint(shares, cpu_files_);
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  saved_.reset();
  is_there_ = is_uncertain_ = true;
  if (Result<Done> written = host::ReplaceFile(file_, text, calls_); !written.ok()) return written;
  saved_ = *checkpoint::ParseSharesCheckpoint(text);
  is_uncertain_ = false;
  return Done{};
}

}  // namespace alignd::allocation
