#include "alignd/config/kubelet_config.h"

#include <algorithm>
#include <array>

#include "core/config/eviction_threshold.h"

namespace alignd {

std::string_view ToString(CpuManagerPolicy policy) {
  switch (policy) {
    case CpuManagerPolicy::kNone:
      return "none";
    case CpuManagerPolicy::kStatic:
      return "static";
  }
  return "";
}

std::string_view ToString(TopologyManagerPolicy policy) {
  switch (policy) {
    case TopologyManagerPolicy::kNone:
      return "none";
    case TopologyManagerPolicy::kBestEffort:
      return "best-effort";
    case TopologyManagerPolicy::kBestAttainable:
      return "best-attainable";
    case TopologyManagerPolicy::kRestricted:
      return "restricted";
    case TopologyManagerPolicy::kSingleNumaNode:
      return "single-numa-node";
  }
  return "";
}

std::string_view ToString(TopologyManagerScope scope) {
  switch (scope) {
    case TopologyManagerScope::kContainer:
      return "container";
    case TopologyManagerScope::kPod:
      return "pod";
  }
  return "";
}

std::string_view ToString(MemoryManagerPolicy policy) {
  switch (policy) {
    case MemoryManagerPolicy::kNone:
      return "None";
    case MemoryManagerPolicy::kStatic:
      return "Static";
  }
  return "";
}

std::string_view ToString(Compatibility compatibility) {
  switch (compatibility) {
    case Compatibility::k1_20:
      return "1.20";
    case Compatibility::k1_36:
      return "1.36";
    case Compatibility::k1_37:
      return "1.37";
  }
  return "";
}

std::string_view ToString(NumaAllocateStrategy strategy) {
  switch (strategy) {
    case NumaAllocateStrategy::kNone:
      return "";
    case NumaAllocateStrategy::kFullestNode:
      return "MostAllocated";
    case NumaAllocateStrategy::kEmptiestNode:
      return "LeastAllocated";
    case NumaAllocateStrategy::kAllNodes:
      break;
  }
  return "DistributeEvenly";
}

std::optional<bool> ParseGoBool(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue = {"1", "t", "T", "TRUE", "true", "True"};
  constexpr std::array<std::string_view, 6> kFalse = {"0", "f", "F", "FALSE", "false", "False"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return std::nullopt;
}

Result<ResourceList> NodeReservation(const KubeletConfig& config, uint64_t memory_capacity_bytes,
                                     int reserved_cpu_count) {
  const Result<EvictionThreshold> threshold = ParseEvictionThreshold(config.eviction_hard_memory);
  if (!threshold.ok()) return threshold.error().In("evictionHard.memory.available");

  // In the kubelet's order, because the first amount decides the form in which the sum is printed.
  ResourceList reserved;
  const auto add = [&reserved](const std::string& resource, const Quantity& amount) {
    if (!amount.IsZero()) reserved[resource] += amount;
  };
  for (const ResourceList* const list : {&config.system_reserved, &config.kube_reserved}) {
    if (const Quantity* const memory = Find(*list, "memory")) add("memory", *memory);
    const Quantity* const cpu = Find(*list, "cpu");
    if (cpu != nullptr && reserved_cpu_count == 0) add("cpu", *cpu);
  }
  add("cpu", Quantity(reserved_cpu_count));
  add("memory", threshold->Of(memory_capacity_bytes));
  return reserved;
}

}  // namespace alignd
