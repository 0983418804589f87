#include "allocation/shares_file.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "alignd/config/kubelet_config.h"
#include "alignd/cpumanager/node_shares.h"
#include "allocation/bad_state.h"
#include "allocation/state_limits.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using checkpoint::Shares;

// Whether there is to be a file.
bool IsKept(const admission::Node& node) {
  return node.cpu && PodPoliciesAnywhere(node.config).contains(PodPolicy::kSharedNumaNode);
}

// The text of the file; nullopt: there is to be none.
std::optional<std::string> TextOf(const admission::Node& node, const Shares& shares) {
  if (!IsKept(node)) return std::nullopt;
  return checkpoint::FormatSharesCheckpoint(shares);
}

}  // namespace

Result<Done> SharesFile::Load(const admission::Node& node, cpumanager::CpuState& state) {
  if (Result<Done> clean = host::RemoveTemporary(file_, calls_); !clean.ok()) return clean;
  Forget();
  Result<std::string> text = host::ReadFile(file_);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return Done{};
  if (!IsKept(node)) {  // it is left of another configuration
    text_ = text.ok() ? *std::move(text) : std::string();
    return Done{};
  }
  const bool is_too_long = !text.ok() && text.error().code == ErrorCode::kInvalidArgument;
  if (!text.ok() && !is_too_long) return text.error();
  const Result<Shares> loaded =
      text.ok() ? checkpoint::ParseSharesCheckpoint(*text) : Result<Shares>(text.error());
  if (!loaded.ok()) {
    Error error = loaded.error().In("load " + file_.string());
    error.code = ErrorCode::kCorrupt;
    error.remedy = RebuildRemedy(file_);
    return error;
  }
  text_ = *std::move(text);
  for (const int numa_id : cpumanager::TakeShares(node.machine, *node.cpu, *loaded, state)) {
    spdlog::warn(
        "{}: {} does not leave what containers of the shared pool request that stay on NUMA node "
        "{}: the marks of those that run say what they have, and the others are decided anew",
        file_.string(), "cpu_manager_state", numa_id);
  }
  return Done{};
}

void SharesFile::Forget() {
  text_.reset();
  is_uncertain_ = false;
}

Result<Done> SharesFile::RequireReadBack(const admission::Node& node, const Shares& shares) const {
  const std::optional<std::string> text = TextOf(node, shares);
  if (!text || text == text_) return Done{};
  if (text->size() > kMaxStateBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "write " + file_.string() + ": the file would be " + std::to_string(text->size()) +
                     " bytes, more than the " + std::to_string(kMaxStateBytes) +
                     " that alignd reads after a restart",
                 "run fewer containers that stay on one NUMA node"};
  }
  const Result<Shares> read = checkpoint::ParseSharesCheckpoint(*text);
  if (read.ok() && *read == shares) return Done{};
  return NotReadBack(read.ok() ? Result<Done>(Done{}) : read.error()).In("write " + file_.string());
}

Result<Done> SharesFile::RemoveUnused(const admission::Node& node) {
  return IsKept(node) ? Result<Done>(Done{}) : Save(node, {});
}

Result<Done> SharesFile::Save(const admission::Node& node, const Shares& shares) {
  if (Result<Done> sound = RequireReadBack(node, shares); !sound.ok()) return sound;
  std::optional<std::string> text = TextOf(node, shares);
  if (text == text_ && !is_uncertain_) return Done{};
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  text_.reset();
  is_uncertain_ = true;
  Result<Done> written =
      text ? host::ReplaceFile(file_, *text, calls_) : host::RemoveFile(file_, calls_);
  if (!written.ok()) return written;
  text_ = std::move(text);
  is_uncertain_ = false;
  return Done{};
}

}  // namespace alignd::allocation
