#include "core/cpumanager/cpu_accumulator.h"

#include <algorithm>
#include <utility>

namespace alignd::cpumanager {
namespace {

using Groups = CpuAccumulator::Groups;

// Units with their number of free CPUs. Sorted by id at first, so equal units stay in the order of
// their ids.
using Ranked = std::vector<std::pair<int, const CpuGroup*>>;

Groups FullerFirst(Ranked ranked) {
  std::ranges::sort(ranked);
  Groups ordered;
  ordered.reserve(ranked.size());
  for (const auto& [free_cpus, unit] : ranked) ordered.push_back(unit);
  return ordered;
}

}  // namespace

CpuAccumulator::CpuAccumulator(const Machine& machine, const CpuSet& free, int needed)
    : machine_(machine),
      numa_first_(machine.sockets().size() >= machine.numa_groups().size()),
      free_(free & machine.cpus()),
      needed_(needed) {}

Groups CpuAccumulator::NumaNodes() const {
  if (numa_first_) return Ordered(machine_.numa_groups());
  return OrderedInEach(Sockets(), machine_.sockets(), machine_.numa_groups(),
                       machine_.numa_in_sockets());
}

Groups CpuAccumulator::Sockets() const {
  if (!numa_first_) return Ordered(machine_.sockets());
  return OrderedInEach(NumaNodes(), machine_.numa_groups(), machine_.sockets(),
                       machine_.sockets_in_numa());
}

Groups CpuAccumulator::UncoreCaches() const {
  return OrderedInEach(NumaNodes(), machine_.numa_groups(), machine_.uncores(),
                       machine_.uncores_in_numa());
}

Groups CpuAccumulator::CoresIn(const CpuGroup& of_lower_level) const {
  return numa_first_ ? OrderedIn(of_lower_level, machine_.sockets(), machine_.cores(),
                                 machine_.cores_in_sockets())
                     : OrderedIn(of_lower_level, machine_.numa_groups(), machine_.cores(),
                                 machine_.cores_in_numa());
}

Groups CpuAccumulator::Ordered(const std::vector<CpuGroup>& units) const {
  Ranked ranked;
  ranked.reserve(units.size());
  for (const CpuGroup& unit : units) {
    const int free_cpus = unit.cpus.CountCommon(free_);
    if (free_cpus > 0) ranked.emplace_back(free_cpus, &unit);
  }
  return FullerFirst(std::move(ranked));
}

Groups CpuAccumulator::OrderedIn(const CpuGroup& outer, const std::vector<CpuGroup>& outers,
                                 const std::vector<CpuGroup>& units, const Nesting& nesting) const {
  const CpuSet free_inside = free_ & outer.cpus;
  const std::vector<size_t>& inside = nesting[static_cast<size_t>(&outer - outers.data())];
  Ranked ranked;
  ranked.reserve(inside.size());
  for (const size_t place : inside) {
    const CpuGroup& unit = units[place];
    if (unit.cpus.Intersects(free_inside)) ranked.emplace_back(unit.cpus.CountCommon(free_), &unit);
  }
  return FullerFirst(std::move(ranked));
}

Groups CpuAccumulator::OrderedInEach(const Groups& ordered, const std::vector<CpuGroup>& outers,
                                     const std::vector<CpuGroup>& units,
                                     const Nesting& nesting) const {
  Groups all;
  for (const CpuGroup* outer : ordered) {
    const Groups inside = OrderedIn(*outer, outers, units, nesting);
    all.insert(all.end(), inside.begin(), inside.end());
  }
  return all;
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
    if (satisfied()) return;
    const int cpus = group->cpus.Count();
    if (size && cpus != *size) continue;
    if (cpus <= needed_ && free_.Contains(group->cpus)) Take(group->cpus);
  }
}

void CpuAccumulator::TakeWholeNumaNodes() {
  if (SomeAreSmallEnough(machine_.numa_groups())) TakeWhole(NumaNodes(), std::nullopt);
}

void CpuAccumulator::TakeWholeSockets() {
  if (SomeAreSmallEnough(machine_.sockets())) TakeWhole(Sockets(), machine_.cpus_per_socket());
}

void CpuAccumulator::TakeWholeUncoreCaches() {
  if (SomeAreSmallEnough(machine_.uncores())) TakeWhole(UncoreCaches(), std::nullopt);
}

// Sorting all cores would be most of the work, so only the taken ones are sorted. Taking from one
// unit does not change the order in the next one: a core in both units has no free CPU any more.
void CpuAccumulator::TakeWholeCores() {
  if (!SomeAreSmallEnough(machine_.cores())) return;
  for (const CpuGroup* unit : LowerLevel()) {
    if (satisfied()) return;
    TakeWhole(CoresIn(*unit), machine_.cpus_per_core());
  }
}

void CpuAccumulator::TakeSingleCpus(const Groups& groups) {
  for (const CpuGroup* group : groups) {
    if (satisfied()) return;
    Take((group->cpus & free_).Lowest(needed_));
  }
}

void CpuAccumulator::TakeSingleCpusOfCores() {
  for (const CpuGroup* unit : LowerLevel()) {
    if (satisfied()) return;
    TakeSingleCpus(CoresIn(*unit));
  }
}

}  // namespace alignd::cpumanager
