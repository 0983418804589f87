#include "alignd/memorymanager/static_policy.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "alignd/memorymanager/config_problems.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::memorymanager {
namespace {

Error Invalid(std::string message, std::string remedy = "") {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

uint64_t MemoryCapacity(const Machine& machine) {
  uint64_t bytes = 0;
  for (const NumaNode& node : machine.numa()) bytes += node.memory_bytes;
  return bytes;
}

constexpr char kField[] = "reservedMemory";

Error UnknownNode(int numa_node) {
  return Invalid("the reserved memory configuration references a NUMA node " +
                     std::to_string(numa_node) + " that does not exist on this machine",
                 "name an existing NUMA node in reservedMemory");
}

// "0: memory=1Gi; 1: hugepages-2Mi=2Mi"
std::string Shown(const std::vector<MemoryReservation>& reservations) {
  std::string text;
  for (const MemoryReservation& reservation : reservations) {
    text += (text.empty() ? "" : "; ") + std::to_string(reservation.numa_node) + ":";
    for (const auto& [type, amount] : reservation.limits) {
      text += " " + type + "=" + amount.ToString();
    }
  }
  return text;
}

// Differs: the kubelet subtracts without a check. A node that is too small then has 16 exabytes of
// free memory.
Result<Done> CheckFits(const NumaNode& node, const std::map<std::string, uint64_t>& reserved) {
  const auto too_large = [&](const std::string& type, uint64_t reserved_bytes, uint64_t bytes) {
    return Invalid("NUMA node " + std::to_string(node.id) + " has " + std::to_string(bytes) +
                       " bytes of type \"" + type + "\", less than the " +
                       std::to_string(reserved_bytes) + " bytes reserved on it",
                   "move the reservation to another NUMA node in reservedMemory");
  };
  const auto reserved_of = [&](const std::string& type) {
    const auto found = reserved.find(type);
    return found == reserved.end() ? uint64_t{0} : found->second;
  };
  uint64_t without_pages = node.memory_bytes;
  for (const auto& [page_bytes, pages] : node.hugepages) {
    const std::string type = HugePageType(page_bytes);
    if (page_bytes != 0 && pages > without_pages / page_bytes) {
      return Invalid("NUMA node " + std::to_string(node.id) + " has more huge pages (" +
                     std::to_string(pages) + " of type \"" + type + "\") than its " +
                     std::to_string(node.memory_bytes) + " bytes of memory can hold");
    }
    without_pages -= page_bytes * pages;
    if (reserved_of(type) > page_bytes * pages) {
      return too_large(type, reserved_of(type), page_bytes * pages);
    }
  }
  if (reserved_of("memory") > without_pages)
    return too_large("memory", reserved_of("memory"), without_pages);
  return Done{};
}

// Gathers the problems of the reserved memory.
class ReservedMemory {
 public:
  ReservedMemory(const Machine& machine, const KubeletConfig& config)
      : machine_(machine), config_(config) {}

  // As far as there is no problem.
  StaticPolicy Read() {
    // reservedSystemCPUs only affect the cpu of the reservation, so 0 is passed.
    const Result<ResourceList> kept = NodeReservation(config_, MemoryCapacity(machine_), 0);
    if (!kept.ok()) {
      problems_.push_back({"evictionHard", config_.eviction_hard_memory, kept.error()});
    }
    const ResourceList total = TotalReserved();
    if (problems_.empty()) CheckTotals(total, *kept);

    StaticPolicy policy;
    const uint64_t memory_bytes = ReadBytes(policy);
    if (memory_bytes == 0 && !has_unreadable_bytes_) {
      Add(Invalid("[memorymanager] you should specify the system reserved memory",
                  "set reservedMemory, and systemReserved.memory or kubeReserved.memory with it"));
    }
    for (const NumaNode& node : machine_.numa()) {
      const Result<Done> fits = CheckFits(node, policy.system_reserved[node.id]);
      if (!fits.ok()) Add(fits.error());
    }
    return policy;
  }

  const std::vector<ConfigProblem>& problems() const { return problems_; }

 private:
  void Add(Error error) {
    problems_.push_back({kField, Shown(config_.reserved_memory), std::move(error)});
  }

  // reservedMemory, summed over the nodes. Printed in the form of the last entry, as the kubelet
  // does. Source: kubelet pkg/kubelet/cm/memorymanager/memory_manager.go,
  // getTotalMemoryTypeReserved.
  ResourceList TotalReserved() {
    ResourceList total;
    for (const MemoryReservation& reservation : config_.reserved_memory) {
      if (!machine_.NumaPosition(reservation.numa_node)) {
        Add(UnknownNode(reservation.numa_node));
        continue;
      }
      for (const auto& [type, amount] : reservation.limits) {
        const Quantity* before = Find(total, type);
        total[type] = before == nullptr ? amount : amount + *before;
      }
    }
    return total;
  }

  // Per memory type, reservedMemory must be equal to the reservation of the node.
  // Source: memory_manager.go, validateReservedMemory.
  void CheckTotals(const ResourceList& total, const ResourceList& node_reservation) {
    std::set<std::string> types;
    for (const auto& [type, amount] : total) types.insert(type);
    for (const auto& [type, amount] : node_reservation) {
      if (IsMemoryType(type)) types.insert(type);
    }
    const auto amount_in = [](const ResourceList& list, const std::string& type) {
      const Quantity* amount = Find(list, type);
      return amount == nullptr ? Quantity() : *amount;
    };
    for (const std::string& type : types) {
      const Quantity reserved = amount_in(total, type);
      const Quantity kept = amount_in(node_reservation, type);
      if (reserved == kept) continue;
      Add(Invalid("the total amount \"" + reserved.ToString() + "\" of type \"" + type +
                      "\" is not equal to the value \"" + kept.ToString() +
                      "\" determined by Node Allocatable feature",
                  "let reservedMemory add up to kubeReserved, systemReserved and the hard "
                  "eviction threshold"));
    }
  }

  // The sum of type memory.
  uint64_t ReadBytes(StaticPolicy& policy) {
    uint64_t memory_bytes = 0;
    for (const MemoryReservation& reservation : config_.reserved_memory) {
      for (const auto& [type, amount] : reservation.limits) {
        const std::optional<uint64_t> bytes = WholeBytes(amount);
        if (!bytes) {
          has_unreadable_bytes_ = true;
          Add(Invalid("could not covert a variable of type Quantity to int64",
                      "give whole bytes below 10^18 in reservedMemory"));
          continue;
        }
        policy.system_reserved[reservation.numa_node][type] = *bytes;
        if (type == "memory") memory_bytes += *bytes;
      }
    }
    return memory_bytes;
  }

  const Machine& machine_;
  const KubeletConfig& config_;
  std::vector<ConfigProblem> problems_;
  bool has_unreadable_bytes_ = false;
};

}  // namespace

Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config) {
  ReservedMemory reserved(machine, config);
  StaticPolicy policy = reserved.Read();
  if (!reserved.problems().empty()) return reserved.problems().front().error;
  return policy;
}

std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config) {
  ReservedMemory reserved(machine, config);
  (void)reserved.Read();
  return reserved.problems();
}

std::vector<ConfigProblem> FindUnknownNodes(const Machine& machine, const KubeletConfig& config) {
  std::vector<ConfigProblem> problems;
  for (const MemoryReservation& reservation : config.reserved_memory) {
    if (machine.NumaPosition(reservation.numa_node)) continue;
    problems.push_back({kField, Shown(config.reserved_memory), UnknownNode(reservation.numa_node)});
  }
  return problems;
}

MemoryState InitialState(const Machine& machine, const StaticPolicy& policy) {
  MemoryState state;
  for (const NumaNode& node : machine.numa()) {
    NumaMemory& memory = state.machine[node.id];
    memory.cells = {node.id};
    const auto add_table = [&](const std::string& type, uint64_t total, uint64_t huge_pages) {
      uint64_t reserved = 0;
      if (const auto on_node = policy.system_reserved.find(node.id);
          on_node != policy.system_reserved.end()) {
        if (const auto found = on_node->second.find(type); found != on_node->second.end()) {
          reserved = found->second;
        }
      }
      const uint64_t allocatable = total - reserved - huge_pages;
      memory.tables[type] = {.total = total,
                             .system_reserved = reserved,
                             .allocatable = allocatable,
                             .reserved = 0,
                             .free = allocatable};
    };
    uint64_t in_huge_pages = 0;
    for (const auto& [page_bytes, pages] : node.hugepages) {
      add_table(HugePageType(page_bytes), page_bytes * pages, 0);
      in_huge_pages += page_bytes * pages;
    }
    add_table("memory", node.memory_bytes, in_huge_pages);
  }
  return state;
}

}  // namespace alignd::memorymanager
