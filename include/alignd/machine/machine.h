// The hardware of the node: CPUs by core, uncore cache, NUMA node and socket; memory, huge pages
// and distances per NUMA node. Constant while alignd runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/numa_mask.h"
#include "alignd/base/result.h"

namespace alignd {

// One online logical CPU as the system reports it. `core`, `socket` and `uncore` are opaque ids,
// unique on the node; `numa` is a NUMA node id.
struct Cpu {
  int cpu = 0;
  int core = 0;
  int socket = 0;
  int numa = 0;
  int uncore = 0;

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct NumaNode {
  int id = 0;
  uint64_t memory_bytes = 0;               // capacity, huge pages included
  std::map<uint64_t, uint64_t> hugepages;  // page size in bytes -> number of pages
  std::vector<int> distances;              // this node's SLIT row as the kernel gives it

  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

// CPUs that share something: a core, an uncore cache, a socket, or a NUMA node.
struct CpuGroup {
  int id = 0;  // of a core: its lowest CPU number; of a NUMA node: its position
  CpuSet cpus;

  friend bool operator==(const CpuGroup&, const CpuGroup&) = default;
};

// For each unit of one level (by index in that level's list): the indices of the units of another
// level that share a CPU with it, ascending.
using Nesting = std::vector<std::vector<size_t>>;

// A value, checked when it is made. NUMA nodes are addressed by position in ascending id order.
class Machine {
 public:
  // Rows and nodes in any order. Cores are renamed to their lowest CPU number. Isolated CPUs that
  // the machine does not have are ignored.
  // Errors: kInvalidArgument if there is no CPU or no NUMA node, a CPU or node occurs twice, a CPU
  // names an absent node, a core lies in two sockets, there are more than 64 NUMA nodes, or a
  // distance is not 0 to kMaxDistance.
  static Result<Machine> Make(std::vector<Cpu> cpus, std::vector<NumaNode> numa,
                              const CpuSet& isolated = {});

  const CpuSet& cpus() const { return cpus_; }
  // Those among which the kernel does not balance threads (isolcpus).
  const CpuSet& isolated() const { return isolated_; }
  const std::vector<Cpu>& cpu_rows() const { return rows_; }   // ascending; core = its lowest CPU
  const std::vector<NumaNode>& numa() const { return numa_; }  // ascending by id
  int numa_count() const { return static_cast<int>(numa_.size()); }
  NumaMask all_numa() const { return NumaMask::FirstNodes(numa_count()); }
  // Positions of the nodes that have CPUs.
  NumaMask numa_with_cpus() const { return numa_with_cpus_; }

  // Each ascending by id. Only groups that have a CPU.
  const std::vector<CpuGroup>& cores() const { return cores_; }
  const std::vector<CpuGroup>& uncores() const { return uncores_; }
  const std::vector<CpuGroup>& sockets() const { return sockets_; }
  const std::vector<CpuGroup>& numa_groups() const { return numa_groups_; }

  const Nesting& sockets_in_numa() const { return sockets_in_numa_; }
  const Nesting& numa_in_sockets() const { return numa_in_sockets_; }
  const Nesting& uncores_in_numa() const { return uncores_in_numa_; }
  const Nesting& cores_in_numa() const { return cores_in_numa_; }
  const Nesting& cores_in_sockets() const { return cores_in_sockets_; }

  // Integer divisions over the whole machine, as the kubelet makes them.
  int cpus_per_core() const { return cpus_.Count() / static_cast<int>(cores_.size()); }
  int cpus_per_uncore() const { return cpus_.Count() / static_cast<int>(uncores_.size()); }
  int cpus_per_socket() const { return cpus_.Count() / static_cast<int>(sockets_.size()); }

  // Empty for a node without CPUs.
  const CpuSet& CpusInNuma(int position) const { return numa_cpus_[static_cast<size_t>(position)]; }
  CpuSet CpusInNuma(NumaMask mask) const;

  // The row of an online CPU. `cpu` must be in cpus().
  const Cpu& Row(int cpu) const;
  int NumaOf(int cpu) const { return numa_position_of_cpu_[RowIndex(cpu)]; }  // position
  // Positions of the nodes that the given CPUs lie on.
  NumaMask NumaOf(const CpuSet& cpus) const;

  int NumaId(int position) const { return numa_[static_cast<size_t>(position)].id; }
  std::optional<int> NumaPosition(int64_t id) const;
  std::vector<int> NumaIds(NumaMask mask) const;
  // Ids that the machine does not have are ignored.
  NumaMask MaskOfIds(const std::vector<int64_t>& ids) const;

  // SLIT distance by positions. A row with one entry per node is read by position, a longer one by
  // node id (some kernels list offline nodes). A missing entry is kUnknownDistance.
  static constexpr int kMaxDistance =
      65'535;  // real ones have one byte; sums of more could overflow
  static constexpr int kUnknownDistance = 255;  // ACPI's "unreachable"
  int Distance(int from, int to) const;

  friend bool operator==(const Machine&, const Machine&) = default;

 private:
  size_t RowIndex(int cpu) const { return row_of_cpu_[static_cast<size_t>(cpu)]; }

  CpuSet cpus_;
  CpuSet isolated_;
  std::vector<Cpu> rows_;
  std::vector<NumaNode> numa_;
  NumaMask numa_with_cpus_;
  std::vector<CpuGroup> cores_;
  std::vector<CpuGroup> uncores_;
  std::vector<CpuGroup> sockets_;
  std::vector<CpuGroup> numa_groups_;
  Nesting sockets_in_numa_;
  Nesting numa_in_sockets_;
  Nesting uncores_in_numa_;
  Nesting cores_in_numa_;
  Nesting cores_in_sockets_;
  std::vector<CpuSet> numa_cpus_;          // by position
  std::vector<size_t> row_of_cpu_;         // by CPU number; holes are never read
  std::vector<int> numa_position_of_cpu_;  // by row
};

}  // namespace alignd
