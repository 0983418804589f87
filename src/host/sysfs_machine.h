// A Machine from a sysfs tree, seen as the kubelet sees it.
#pragma once

#include <filesystem>

#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd::host {

// Reads the machine out of `root`/sys/devices/system (`root` is "/" for the machine we run on).
// Rules that a reader may not expect, all of them the kubelet's:
// * CPUs that are offline or have no topology files are not there.
// * A CPU that two node directories list lies on the last of them, node10 coming before node2.
// * A core is what shares core_id, package (and on s390 book and drawer) within one NUMA node, so
//   equal core_ids of different packages or nodes are different cores.
// * The uncore cache is the first cache above level 2, unless it serves the whole NUMA node;
// without
//   one the socket's id stands in. At the first unreadable cache of a NUMA node (kernels
//   before 4.11 give caches no id) the rest of that node's cores count as having none.
// * Without node directories every package is a NUMA node with no memory, and no distances are
//   known. Differs: a package -1 is then node 0, because no mask of nodes can hold -1.
// * Unreadable is not absent. Differs: the kubelet takes a memory size or distances that it cannot
//   read for absent ones, and a CPU for offline when the list of online CPUs makes no sense.
// Thread-safe.
// Errors: kNotFound if there is no CPU directory or no usable CPU; kIo; kCorrupt if a file holds
// something else than it should. Each names the file, and the datum if there is one.
// Source: cAdvisor utils/sysinfo/sysinfo.go, GetNodesInfo, and utils/sysfs/sysfs.go, as Kubernetes
// 1.36 vendors them; kubelet pkg/kubelet/cm/cpumanager/topology/topology.go, Discover.
Result<Machine> ReadMachine(const std::filesystem::path& root);

}  // namespace alignd::host
