// Cores of different sizes that have a number of CPUs in all: a sum of subsets. Private to the
// module.
#pragma once

#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

class CoreSum {
 public:
  // The cores outlive the object. Costs one bit for each core and each of `count` CPUs.
  CoreSum(std::vector<const CpuGroup*> cores, int count);

  // Whether some of the cores have `count` CPUs in all.
  bool IsPossible() const { return reachable_.front()[static_cast<size_t>(count_)]; }

  // Such cores: the first one of the list that belongs to any, and so on. Only if possible.
  CpuSet First() const;

 private:
  std::vector<const CpuGroup*> cores_;
  int count_;
  // By core, and then by number of CPUs: whether this core and later ones can have this number. One
  // more entry at the end: no core.
  std::vector<std::vector<bool>> reachable_;
};

}  // namespace alignd::cpumanager
