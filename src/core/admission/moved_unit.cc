#include "core/admission/moved_unit.h"

#include <map>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/cpumanager/resize.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {
namespace {

// The CPUs of the unit's containers, by container.
std::map<std::string, CpuSet> CpusIn(const NodeState& state, const HoldingUnit& unit) {
  std::map<std::string, CpuSet> cpus;
  for (const std::string& name : unit.containers) {
    if (const CpuSet* const own = state.cpu.Find({unit.pod_uid, name})) cpus[name] = *own;
  }
  return cpus;
}

CpuSet All(const std::map<std::string, CpuSet>& cpus) {
  CpuSet all;
  for (const auto& [name, of_container] : cpus) all |= of_container;
  return all;
}

bool HasExchange(const std::map<std::string, CpuSet>& before,
                 const std::map<std::string, CpuSet>& now) {
  const CpuSet all = All(before);
  for (const auto& [name, cpus] : now) {
    const auto own = before.find(name);
    if (cpus.Intersects(own == before.end() ? all : all - own->second)) return true;
  }
  return false;
}

// Whether there is such a division, with regard to the options of the CPU manager.
bool Divide(const Machine& machine, const cpumanager::PolicyOptions& options,
            const std::map<std::string, CpuSet>& before, std::map<std::string, CpuSet>& now) {
  CpuSet offered = All(now) - All(before);
  const CpuSet together = All(now);
  for (auto& [name, cpus] : now) {
    const auto own = before.find(name);
    const CpuSet kept = own == before.end() ? CpuSet() : own->second & together;
    Result<CpuSet> chosen = cpumanager::ChooseForResize(
        machine, options, {.kept = kept, .offered = offered, .count = cpus.Count()});
    if (!chosen.ok()) return false;
    cpus = *std::move(chosen);
    offered -= cpus;
  }
  return true;
}

}  // namespace

std::string MakeMovable(const Node& node, const NodeState& given, const HoldingUnit& unit,
                        NodeState& next) {
  const std::map<std::string, CpuSet> before = CpusIn(given, unit);
  std::map<std::string, CpuSet> now = CpusIn(next, unit);
  if (HasExchange(before, now)) {
    const cpumanager::StaticPolicy policy = CpuPolicyOf(node, given, unit.pod_uid);
    if (!Divide(node.machine, policy.options, before, now)) {
      return "containers of its pod would have to exchange CPUs with each other";
    }
    for (auto& [name, cpus] : now) next.cpu.assignments[unit.pod_uid][name] = cpus;
  }
  for (const auto& [name, cpus] : now) {
    const std::vector<int> memory = AssignmentOf(node, next, {unit.pod_uid, name}).memory_nodes;
    const auto own = before.find(name);
    const NumaMask near = node.machine.MaskOfIds({memory.begin(), memory.end()}) |
                          node.machine.NumaOf(own == before.end() ? CpuSet() : own->second);
    if (memory.empty() || near.Contains(node.machine.NumaOf(cpus))) continue;
    return "its memory would stay on another NUMA node than its CPUs " + cpus.ToString();
  }
  return "";
}

}  // namespace alignd::admission
