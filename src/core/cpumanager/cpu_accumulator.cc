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

// For each of `all` the groups that share a CPU with it. Goes over the CPUs once: to compare every
// unit with every group is what large machines would spend their time with.
std::vector<CpuAccumulator::Groups> NestedIn(const std::vector<CpuGroup>& all,
                                             const std::vector<CpuGroup>& groups,
                                             size_t cpu_numbers) {
  std::vector<size_t> parent_of_cpu(cpu_numbers);
  for (size_t place = 0; place < all.size(); ++place) {
    for (const int cpu : all[place].cpus) parent_of_cpu[static_cast<size_t>(cpu)] = place;
  }
  std::vector<CpuAccumulator::Groups> nested(all.size());
  for (const CpuGroup& group : groups) {
    for (const int cpu : group.cpus) {
      CpuAccumulator::Groups& inside = nested[parent_of_cpu[static_cast<size_t>(cpu)]];
      if (inside.empty() || inside.back() != &group) inside.push_back(&group);
    }
  }
  return nested;
}

}  // namespace

CpuAccumulator::CpuAccumulator(const Machine& machine, const CpuSet& free, int needed)
    : machine_(machine),
      numa_nodes_(NumaGroups(machine)),
      numa_first_(machine.sockets().size() >= numa_nodes_.size()),
      free_(free & machine.cpus()),
      needed_(needed) {}

CpuAccumulator::Groups CpuAccumulator::FirstLevel() const {
  Groups all;
  for (const CpuGroup& unit : FirstUnits()) all.push_back(&unit);
  return Ordered(all, machine_.cpus());
}

CpuAccumulator::Groups CpuAccumulator::SecondLevel() const {
  return OrderedWithin(FirstLevel(), FirstUnits(), SecondUnits(), second_in_first_);
}

CpuAccumulator::Groups CpuAccumulator::UncoreCaches() const {
  return OrderedWithin(NumaNodes(), numa_nodes_, machine_.uncores(), caches_in_nodes_);
}

CpuAccumulator::Groups CpuAccumulator::Cores() const {
  return OrderedWithin(SecondLevel(), SecondUnits(), machine_.cores(), cores_in_second_);
}

CpuAccumulator::Groups CpuAccumulator::Ordered(const Groups& groups, const CpuSet& within) const {
  const CpuSet free_within = free_ & within;
  std::vector<std::pair<int, const CpuGroup*>> by_free;
  by_free.reserve(groups.size());
  for (const CpuGroup* group : groups) {
    if (group->cpus.Intersects(free_within)) {
      by_free.emplace_back(group->cpus.CountCommon(free_), group);
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
                                                     const std::vector<CpuGroup>& all,
                                                     const std::vector<CpuGroup>& groups,
                                                     Nesting& nesting) const {
  if (!std::exchange(nesting.known, true)) {
    const int cpu_numbers = machine_.cpu_rows().back().cpu + 1;
    nesting.inside = NestedIn(all, groups, static_cast<size_t>(cpu_numbers));
  }
  Groups ordered;
  for (const CpuGroup* parent : parents) {
    const auto place = static_cast<size_t>(parent - all.data());
    const Groups inside = Ordered(nesting.inside[place], parent->cpus);
    ordered.insert(ordered.end(), inside.begin(), inside.end());
  }
  return ordered;
}

bool CpuAccumulator::SomeAreSmallEnough(const std::vector<CpuGroup>& units) const {
  return std::ranges::any_of(units,
                             [this](const CpuGroup& unit) { return unit.cpus.Count() <= needed_; });
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
