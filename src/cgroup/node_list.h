// NUMA node ids in the list form of cgroup files.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"

namespace alignd::cgroup {

// The list form of cpuset.mems: "0-1,3".
inline std::string NodeList(const std::vector<int>& nodes) {
  CpuSet list;  // has the same list form
  for (const int node : nodes) list.Add(node);
  return list.ToString();
}

}  // namespace alignd::cgroup
