#include "alignd/placement/node_files.h"

#include <map>
#include <set>
#include <string>

#include "alignd/admission/assignment.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/cpumanager/node_shares.h"

namespace alignd::placement {
namespace {

template <typename Parsed>
Result<Done> CheckStateFile(const char* name, const Result<Parsed>& parsed) {
  if (parsed.ok()) return Done{};
  Error error = parsed.error().In(name);
  // The parser's remedy is for the node itself.
  error.remedy = "give the file as the node has it";
  return error;
}

// Of a cpu_shares that can be read. Without cpu_manager_state, the CPUs are those of a node without
// pods, and it does not matter beside which file it was saved.
bool IsOutdated(const NodeFiles& files) {
  const auto shares = checkpoint::ParseSharesCheckpoint(files.cpu_shares);
  return shares.ok() && !files.cpu_manager_state.empty() &&
         shares->IsOfAnotherCpuFile(files.cpu_manager_state);
}

}  // namespace

std::string WhyLackShares(const NodeFiles& files, const admission::Node& node) {
  const bool has_files = !files.cpu_manager_state.empty() || !files.memory_manager_state.empty();
  if (!has_files || !admission::MayShareNodes(node)) return {};
  if (files.cpu_shares.empty()) {
    return "no state file says which containers of the shared pool stay on one NUMA node; add "
           "alignd's file cpu_shares, ask";
  }
  if (!IsOutdated(files)) return {};
  return "cpu_shares, which says which containers of the shared pool stay on one NUMA node, is of "
         "another cpu_manager_state: of another time, or from before a return to an earlier "
         "version of alignd; give the files of one time, ask";
}

std::string WhyLackShareOf(const Pod& pod, const admission::Node& node,
                           const admission::NodeState& state) {
  for (const Container& container : pod.containers) {
    // An init container can have ended.
    if (container.kind == ContainerKind::kInit) continue;
    if (!admission::AsksForOneNode(node, pod, container)) continue;
    if (state.cpu.shares.contains({pod.uid, container.name})) continue;
    return "cpu_shares does not have container " + container.name + " of pod " + pod.name_space +
           "/" + pod.name +
           ", which runs and asks to stay on one NUMA node: it runs since before it could, or the "
           "file is of another time; give the files of one time, ask";
  }
  return {};
}

Result<Done> TakeShares(const NodeFiles& files, const admission::Node& node,
                        cpumanager::CpuState& state) {
  if (files.cpu_shares.empty() || !admission::MayShareNodes(node)) return Done{};
  const auto shares = checkpoint::ParseSharesCheckpoint(files.cpu_shares);
  if (!shares.ok()) return shares.error().In("cpu_shares");
  if (IsOutdated(files)) return Done{};
  const std::set<int> left = cpumanager::TakeShares(node.machine, *node.cpu, shares->shares, state);
  if (left.empty()) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "cpu_shares: what containers request that stay on NUMA node " +
                   std::to_string(*left.begin()) + " is not left there by cpu_manager_state",
               "give the files of the same node and time, and its configuration"};
}

std::map<std::string, std::set<std::string>> UnlistedOwned(
    const NodeFiles& files, const admission::Node& node,
    std::map<std::string, std::set<std::string>> owned) {
  for (auto& [pod, resources] : owned) {
    if (resources.empty()) continue;
    if (!files.device_checkpoint.empty()) {
      std::erase_if(resources, [](const std::string& resource) { return resource != "cpu"; });
    }
    if (!files.cpu_manager_state.empty() || !node.cpu) resources.erase("cpu");
    if (node.memory && files.memory_manager_state.empty()) resources.insert("memory");
  }
  std::erase_if(owned, [](const auto& one) { return one.second.empty(); });
  return owned;
}

Result<Done> CheckStateFiles(const NodeFiles& files) {
  Result<Done> checked = Done{};
  if (!files.cpu_manager_state.empty()) {
    checked = CheckStateFile("cpu_manager_state",
                             checkpoint::ParseCpuCheckpoint(files.cpu_manager_state));
  }
  if (checked.ok() && !files.memory_manager_state.empty()) {
    checked = CheckStateFile("memory_manager_state",
                             checkpoint::ParseMemoryCheckpoint(files.memory_manager_state));
  }
  if (checked.ok() && !files.cpu_shares.empty()) {
    checked = CheckStateFile("cpu_shares", checkpoint::ParseSharesCheckpoint(files.cpu_shares));
  }
  return checked;
}

}  // namespace alignd::placement
