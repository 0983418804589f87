#include "alignd/checkpoint/cpu_checkpoint.h"

#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/checkpoint/go_json.h"

namespace alignd::checkpoint {
namespace {

Error CorruptCpus(const std::string& message) {
  return {ErrorCode::kCorrupt, message, std::string(RemedyOf(CheckpointKind::kCpu))};
}

Result<CpuCheckpoint> FromDocument(const CpuDocument& document) {
  CpuCheckpoint checkpoint;
  checkpoint.policy_name = document.policy_name;
  if (document.pod_entries) {
    for (const auto& [pod, entry] : *document.pod_entries) {
      if (!entry.cpus.empty()) checkpoint.state.pods[pod] = entry.cpus;
    }
  }
  if (!document.entries) return checkpoint;
  for (const auto& [pod, containers] : *document.entries) {
    if (!containers) continue;
    for (const auto& [container, list] : *containers) {
      Result<CpuSet> cpus = CpuSet::Parse(list);
      if (!cpus.ok()) {
        return CorruptCpus("could not parse cpuset " + GoQuoted(list) + " for container " +
                           GoQuoted(container) + " in pod " + GoQuoted(pod) + ": " +
                           cpus.error().message);
      }
      if (!cpus->empty()) checkpoint.state.assignments[pod][container] = *std::move(cpus);
    }
  }
  return checkpoint;
}

}  // namespace

std::string FormatCpuCheckpoint(std::string_view policy_name, const cpumanager::CpuState& state,
                                StateForm form) {
  CpuDocument document;
  document.policy_name = policy_name;
  document.default_cpu_set = state.SavedDefaultSet().ToString();
  for (const auto& [pod, containers] : state.assignments) {
    auto& entry = (*document.entries)[pod].emplace();
    for (const auto& [container, cpus] : containers) entry[container] = cpus.ToString();
  }
  for (const auto& [pod, cpus] : state.pods) (*document.pod_entries)[pod].cpus = cpus;
  return ToText(document, form);
}

Result<CpuCheckpoint> ParseCpuCheckpoint(std::string_view text) {
  const Result<Verified<CpuDocument>> read = ReadCpuDocument(text);
  if (!read.ok()) return read.error();
  const std::string& list = read->document.default_cpu_set;
  Result<CpuSet> default_set = CpuSet::Parse(list);
  if (!default_set.ok()) {
    return CorruptCpus("could not parse default cpu set " + GoQuoted(list) + ": " +
                       default_set.error().message);
  }
  Result<CpuCheckpoint> checkpoint = FromDocument(read->document);
  if (checkpoint.ok()) checkpoint->state.default_set = *std::move(default_set);
  return checkpoint;
}

Result<Done> RequirePolicy(const CpuCheckpoint& checkpoint, std::string_view configured) {
  if (checkpoint.policy_name == configured) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "configured policy " + GoQuoted(configured) +
                   " differs from state checkpoint policy " + GoQuoted(checkpoint.policy_name),
               "set the policy as before, or " + std::string(RemedyOf(CheckpointKind::kCpu))};
}

}  // namespace alignd::checkpoint
