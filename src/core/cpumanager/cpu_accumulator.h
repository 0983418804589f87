// One packing run in progress: what is still free, what has been taken, and the orders in which the
// rules walk over the machine.
#pragma once

#include <optional>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// The rule behind every order: the fuller goes first, so that a unit in use is used up before
// another is touched. "Fuller" is fewer free CPUs; equals go by id. Units without a free CPU are
// left out. All orders are those of the moment: they change with every CPU that is taken.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, cpuAccumulator.
class CpuAccumulator {
 public:
  using Groups = std::vector<const CpuGroup*>;

  // `machine` outlives us. `free` must have at least `needed` CPUs.
  CpuAccumulator(const Machine& machine, const CpuSet& free, int needed);
  CpuAccumulator(const CpuAccumulator&) = delete;  // the orders point into us
  CpuAccumulator& operator=(const CpuAccumulator&) = delete;

  const Machine& machine() const { return machine_; }
  const CpuSet& free() const { return free_; }
  const CpuSet& taken() const { return taken_; }
  int needed() const { return needed_; }  // logical CPUs that are still to be taken
  bool satisfied() const { return needed_ <= 0; }

  // The upper level of the hierarchy: NUMA nodes, unless there are more of them than sockets.
  Groups FirstLevel() const;
  // The other of the two, within each unit of the first. A unit that lies in two of them occurs
  // twice.
  Groups SecondLevel() const;
  Groups NumaNodes() const { return numa_first_ ? FirstLevel() : SecondLevel(); }
  Groups Sockets() const { return numa_first_ ? SecondLevel() : FirstLevel(); }
  Groups UncoreCaches() const;  // within each NUMA node
  Groups Cores() const;         // within each unit of the second level

  // `cpus` must be free, and no more than are needed.
  void Take(const CpuSet& cpus);
  // Takes, in the order of that level, every free unit that is not larger than what is still
  // needed. A unit is free if all its CPUs are. A core or socket must also be of the machine's
  // average size (an integer division): others are never taken whole, as in the kubelet. Differs:
  // the kubelet looks at the average alone, so a larger core or socket with as many free CPUs as
  // the average one has counts as free and is taken with all its CPUs, also those that are reserved
  // or that another container holds.
  void TakeWholeFirstLevel() { numa_first_ ? TakeWholeNumaNodes() : TakeWholeSockets(); }
  void TakeWholeSecondLevel() { numa_first_ ? TakeWholeSockets() : TakeWholeNumaNodes(); }
  void TakeWholeUncoreCaches() {
    if (SomeAreSmallEnough(machine_.uncores())) TakeWhole(UncoreCaches(), std::nullopt);
  }
  void TakeWholeCores() {
    if (SomeAreSmallEnough(machine_.cores())) TakeWhole(Cores(), machine_.cpus_per_core());
  }
  // Takes the free CPUs of each unit in the given order, by number, until none is needed.
  void TakeSingleCpus(const Groups& groups);

 private:
  const std::vector<CpuGroup>& FirstUnits() const {
    return numa_first_ ? numa_nodes_ : machine_.sockets();
  }
  const std::vector<CpuGroup>& SecondUnits() const {
    return numa_first_ ? machine_.sockets() : numa_nodes_;
  }
  void TakeWholeNumaNodes() {
    if (SomeAreSmallEnough(numa_nodes_)) TakeWhole(NumaNodes(), std::nullopt);
  }
  void TakeWholeSockets() {
    if (SomeAreSmallEnough(machine_.sockets())) TakeWhole(Sockets(), machine_.cpus_per_socket());
  }
  // Whether some unit is not larger than what is needed; if none is, they need not be put in order.
  bool SomeAreSmallEnough(const std::vector<CpuGroup>& units) const;
  // `size`: how many CPUs a unit must have to be taken; any number without it.
  void TakeWhole(const Groups& groups, std::optional<int> size);
  // Those of `groups` that have a free CPU among `within`, the fuller first.
  Groups Ordered(const Groups& groups, const CpuSet& within) const;
  // The units of one level in the units of another.
  struct Nesting {
    // Ascending by id, for each parent by its place in the list of its level.
    std::vector<Groups> inside;
    bool known = false;
  };
  // For each parent in its order, the groups that lie in it. `all` are all units of the parents'
  // level; `nesting` is filled when it is used first.
  Groups OrderedWithin(const Groups& parents, const std::vector<CpuGroup>& all,
                       const std::vector<CpuGroup>& groups, Nesting& nesting) const;

  const Machine& machine_;
  const std::vector<CpuGroup> numa_nodes_;
  const bool numa_first_;
  mutable Nesting second_in_first_;
  mutable Nesting caches_in_nodes_;
  mutable Nesting cores_in_second_;
  CpuSet free_;
  CpuSet taken_;
  int needed_;
};

}  // namespace alignd::cpumanager
