#include "core/cpumanager/cpu_accumulator.h"

#include <algorithm>
#include <utility>

namespace alignd::cpumanager {
namespace {

// The NUMA nodes that have CPUs, ascending by position.
std::vector<CpuGroup> NumaGroups(const Machine& machine) {
  std::vector<CpuGroup> groups;
  for (const int position : machine.numa_with_cpus()) {
    groups.push_back({.id = position, .cpus = machine.CpusInNuma(position)});
  }
  return groups;
}

}  // namespace

CpuAccumulator::CpuAccumulator(const Machine& machine, const CpuSet& free, int needed)
    : machine_(machine),
      numa_nodes_(NumaGroups(machine)),
      numa_first_(machine.sockets().size() >= numa_nodes_.size()),
      free_(free & machine.cpus()),
      needed_(needed) {}

CpuAccumulator::Groups CpuAccumulator::FirstLevel() const {
  return Ordered(numa_first_ ? numa_nodes_ : machine_.sockets(), machine_.cpus());
}

CpuAccumulator::Groups CpuAccumulator::SecondLevel() const {
  return OrderedWithin(FirstLevel(), numa_first_ ? machine_.sockets() : numa_nodes_);
}

CpuAccumulator::Groups CpuAccumulator::UncoreCaches() const {
  return OrderedWithin(NumaNodes(), machine_.uncores());
}

CpuAccumulator::Groups CpuAccumulator::Cores() const {
  return OrderedWithin(SecondLevel(), machine_.cores());
}

CpuAccumulator::Groups CpuAccumulator::Ordered(const std::vector<CpuGroup>& groups,
                                               const CpuSet& within) const {
  const CpuSet free_within = free_ & within;
  std::vector<std::pair<int, const CpuGroup*>> by_free;
  for (const CpuGroup& group : groups) {
    if (group.cpus.Intersects(free_within)) {
      by_free.emplace_back(group.cpus.CountCommon(free_), &group);
    }
  }
  // The groups come ascending by id, which a stable sort keeps among equals.
  std::ranges::stable_sort(by_free, {}, &std::pair<int, const CpuGroup*>::first);
  Groups ordered;
  ordered.reserve(by_free.size());
  for (const auto& [free_cpus, group] : by_free) ordered.push_back(group);
  return ordered;
}

CpuAccumulator::Groups CpuAccumulator::OrderedWithin(const Groups& parents,
                                                     const std::vector<CpuGroup>& groups) const {
  Groups ordered;
  for (const CpuGroup* parent : parents) {
    const Groups inside = Ordered(groups, parent->cpus);
    ordered.insert(ordered.end(), inside.begin(), inside.end());
  }
  return ordered;
}

void CpuAccumulator::Take(const CpuSet& cpus) {
  taken_ |= cpus;
  free_ -= cpus;
  needed_ -= cpus.Count();
}

void CpuAccumulator::TakeWhole(const Groups& groups, std::optional<int> size) {
  for (const CpuGroup* group : groups) {
    const int cpus = group->cpus.Count();
    if (size && cpus != *size) continue;
    if (cpus <= needed_ && free_.Contains(group->cpus)) Take(group->cpus);
  }
}

void CpuAccumulator::TakeSingleCpus(const Groups& groups) {
  for (const CpuGroup* group : groups) {
    if (satisfied()) return;
    Take((group->cpus & free_).Lowest(needed_));
  }
}

}  // namespace alignd::cpumanager
