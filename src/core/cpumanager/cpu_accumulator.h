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
  // Units of the machine.
  using Groups = std::vector<const CpuGroup*>;

  // `machine` outlives us. `free` must have at least `needed` CPUs.
  CpuAccumulator(const Machine& machine, const CpuSet& free, int needed);

  const Machine& machine() const { return machine_; }
  const CpuSet& free() const { return free_; }
  const CpuSet& taken() const { return taken_; }
  int needed() const { return needed_; }  // logical CPUs that are still to be taken
  bool satisfied() const { return needed_ <= 0; }

  // NUMA nodes and sockets: the upper level of the hierarchy are the NUMA nodes, unless there are
  // more of them than sockets. The lower are put in order within each unit of the upper; one that
  // lies in two of those occurs twice.
  Groups NumaNodes() const;
  Groups Sockets() const;
  Groups UncoreCaches() const;  // within each NUMA node

  // `cpus` must be free, and no more than are needed.
  void Take(const CpuSet& cpus);
  // Takes, in the order of that level, every free unit that is not larger than what is still
  // needed. A unit is free if all its CPUs are. A core or socket must also be of the machine's
  // average size (an integer division): others are never taken whole, as in the kubelet. Differs:
  // the kubelet looks at the average alone, so a larger core or socket with as many free CPUs as
  // the average one has counts as free and is taken with all its CPUs, also those that are reserved
  // or that another container holds.
  void TakeWholeUpperLevel() { numa_first_ ? TakeWholeNumaNodes() : TakeWholeSockets(); }
  void TakeWholeLowerLevel() { numa_first_ ? TakeWholeSockets() : TakeWholeNumaNodes(); }
  void TakeWholeUncoreCaches();
  void TakeWholeCores();  // which are put in order within each unit of the lower level
  // Takes the free CPUs of each unit in the given order, by number, until none is needed.
  void TakeSingleCpus(const Groups& groups);
  void TakeSingleCpusOfCores();

 private:
  void TakeWholeNumaNodes();
  void TakeWholeSockets();
  // `size`: how many CPUs a unit must have to be taken; any number without it.
  void TakeWhole(const Groups& groups, std::optional<int> size);
  // Whether some unit is not larger than what is needed; if none is, they need not be put in order.
  bool SomeAreSmallEnough(const std::vector<CpuGroup>& units) const;

  // Those of the `units` that have a free CPU, the fuller first.
  Groups Ordered(const std::vector<CpuGroup>& units) const;
  // Of the units inside `outer`, of which `nesting` knows, those that have a free CPU there.
  Groups OrderedIn(const CpuGroup& outer, const std::vector<CpuGroup>& outers,
                   const std::vector<CpuGroup>& units, const Nesting& nesting) const;
  Groups OrderedInEach(const Groups& ordered, const std::vector<CpuGroup>& outers,
                       const std::vector<CpuGroup>& units, const Nesting& nesting) const;
  Groups LowerLevel() const { return numa_first_ ? Sockets() : NumaNodes(); }
  Groups CoresIn(const CpuGroup& of_lower_level) const;

  const Machine& machine_;
  const bool numa_first_;
  CpuSet free_;
  CpuSet taken_;
  int needed_;
};

}  // namespace alignd::cpumanager
