// The state of one packing run: free CPUs, taken CPUs, and the orders in which the rules visit the
// units of the machine.
#pragma once

#include <optional>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// All orders follow one rule: a unit with fewer free CPUs comes first, so that a unit in use is
// filled before another one is started. Equal units come by id. Units without a free CPU are
// omitted. Every CPU that is taken changes the orders.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, cpuAccumulator.
class CpuAccumulator {
 public:
  // Units of the machine.
  using Groups = std::vector<const CpuGroup*>;

  // `machine` outlives the object. `free` must have at least `needed` CPUs.
  CpuAccumulator(const Machine& machine, const CpuSet& free, int needed);

  const Machine& machine() const { return machine_; }
  const CpuSet& free() const { return free_; }
  const CpuSet& taken() const { return taken_; }
  int needed() const { return needed_; }  // logical CPUs that are still to be taken
  bool satisfied() const { return needed_ <= 0; }

  // NUMA nodes and sockets: the NUMA nodes are the upper level, unless there are more of them than
  // sockets. The lower units are sorted within each upper unit; a unit in two of them occurs twice.
  Groups NumaNodes() const;
  Groups Sockets() const;
  Groups UncoreCaches() const;  // within each NUMA node

  // `cpus` must be free, and no more than are needed.
  void Take(const CpuSet& cpus);
  // Takes, in the order of that level, every free unit that is not larger than what is still
  // needed. A unit is free if all its CPUs are. A core or socket must also be of the machine's
  // average size (an integer division): others are never taken whole, as in the kubelet. Differs:
  // the kubelet compares with the average only. It takes a larger core or socket with as many free
  // CPUs as the average one has, with all its CPUs, also those that are reserved or assigned to
  // another container.
  void TakeWholeUpperLevel() { numa_first_ ? TakeWholeNumaNodes() : TakeWholeSockets(); }
  void TakeWholeLowerLevel() { numa_first_ ? TakeWholeSockets() : TakeWholeNumaNodes(); }
  void TakeWholeUncoreCaches();
  void TakeWholeCores();  // sorted within each unit of the lower level
  // Takes the free CPUs of each unit in the given order, by number, until none is needed.
  void TakeSingleCpus(const Groups& groups);
  void TakeSingleCpusOfCores();

 private:
  void TakeWholeNumaNodes();
  void TakeWholeSockets();
  // `size`: the number of CPUs that a unit must have to be taken; without it, any number.
  void TakeWhole(const Groups& groups, std::optional<int> size);
  // Whether some unit is not larger than needed. If none is, sorting is not necessary.
  bool SomeAreSmallEnough(const std::vector<CpuGroup>& units) const;

  // The units that have a free CPU, those with fewer free CPUs first.
  Groups Ordered(const std::vector<CpuGroup>& units) const;
  // The units inside `outer` (by `nesting`) that have a free CPU there.
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
