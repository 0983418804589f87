// Reads a Machine from a sysfs tree, by the kubelet's rules.
#pragma once

#include <filesystem>
#include <optional>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd::host {

// Reads the machine from `root`/sys/devices/system (`root` is "/" for this machine).
// Less obvious rules, all of them the kubelet's:
// * CPUs that are offline or have no topology files do not exist.
// * A CPU in two node directories belongs to the last of them, node10 being before node2.
// * A core has one core_id, package (and on s390 book and drawer) within one NUMA node, so
//   equal core_ids of different packages or nodes are different cores.
// * The uncore cache is the first cache above level 2, unless it serves the whole NUMA node.
//   Without one, the socket's id is used. After the first unreadable cache of a NUMA node (kernels
//   before 4.11 have no cache ids) the node's other cores have no uncore cache.
// * Without node directories every package is a NUMA node with no memory, and no distances are
//   known. Differs: package -1 is then node 0, because -1 is not a valid NUMA node id.
// * Unreadable is not absent. Differs: the kubelet treats unreadable memory sizes and distances as
//   absent, and all CPUs as offline if the list of online CPUs is invalid.
// Thread-safe.
// Errors: kNotFound if there is no CPU directory or no usable CPU; kIo; kCorrupt if a file has
// unexpected content. Each names the file, and the datum if there is one.
// Source: cAdvisor utils/sysinfo/sysinfo.go, GetNodesInfo, and utils/sysfs/sysfs.go, as Kubernetes
// 1.36 vendors them; kubelet pkg/kubelet/cm/cpumanager/topology/topology.go, Discover.
Result<Machine> ReadMachine(const std::filesystem::path& root);

// The CPUs that are online now. nullopt: the kernel has no list of them, so that none can go
// offline. Thread-safe. Errors: kIo, kCorrupt, as ReadMachine.
Result<std::optional<CpuSet>> ReadOnlineCpus(const std::filesystem::path& root);

}  // namespace alignd::host
