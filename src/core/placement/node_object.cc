#include "core/placement/node_object.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "alignd/base/counted.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/resource_name.h"

namespace alignd::placement {
namespace {

// The kubelet reports the healthy devices as allocatable, and all of them as capacity.
// Errors: the Node object has a number of devices that the described ones cannot explain.
Result<Done> CompareDevices(const NodeObject& object, const std::string& name,
                            const Quantity& amount, NodeInput& input) {
  const auto found = input.description.devices.find(name);
  if (found == input.description.devices.end() || input.unlocated_devices.contains(name)) {
    return Done{};
  }
  const auto all = static_cast<int64_t>(found->second.size());
  const auto healthy = static_cast<int64_t>(std::ranges::count_if(
      found->second, [](const auto& device) { return device.second.healthy; }));
  if (amount == Quantity(healthy)) return Done{};
  const Quantity* const capacity = Find(object.capacity, name);
  const std::string counts = "Node " + object.name + " has " + amount.ToString() +
                             " of them allocatable, and " + Counted(healthy, "healthy device") +
                             " " + std::string(IsOrAre(healthy)) + " described";
  if (amount < Quantity(healthy) && (capacity == nullptr || *capacity == Quantity(all))) {
    input.unlocated_devices[name] =
        counts + "; which devices are unhealthy is not known; describe the healthy devices only";
    return Done{};
  }
  return Error{ErrorCode::kInvalidArgument, name + ": " + counts,
               "give the description, or --device, and the Node object of the same node"};
}

// Whether both are whole numbers and `taint` is less than `limit` (Lt), or more (Gt).
// Source: Kubernetes KEP-5471.
bool ComparesAs(const std::string& op, const std::string& taint, const std::string& limit) {
  const auto number = [](const std::string& text) -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_whole = problem == std::errc() && end == text.data() + text.size();
    return is_whole ? std::optional(value) : std::nullopt;
  };
  const auto is = number(taint);
  const auto bound = number(limit);
  if (!is || !bound) return false;
  return op == "Lt" ? *is < *bound : *is > *bound;
}

// Source: k8s.io/api core/v1/toleration.go, ToleratesTaint.
bool Tolerates(const Toleration& toleration, const NodeObject::Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  if (toleration.op == "Exists") return true;
  if (toleration.op == "Lt" || toleration.op == "Gt") {
    return !toleration.key.empty() && ComparesAs(toleration.op, taint.value, toleration.value);
  }
  const bool is_equal = toleration.op.empty() || toleration.op == "Equal";
  return is_equal && !toleration.key.empty() && toleration.value == taint.value;
}

// "topologyManagerPolicy none", "option full-pcpus-only": what decides here in place of a label.
struct InPlaceOfLabel {
  std::string_view label;
  std::string same;  // the value of the label that means the same; empty: none does
  std::string decides;
};

std::string TopologyLabel(TopologyManagerPolicy policy) {
  switch (policy) {
    case TopologyManagerPolicy::kBestEffort:
      return "BestEffort";
    case TopologyManagerPolicy::kRestricted:
      return "Restricted";
    case TopologyManagerPolicy::kSingleNumaNode:
      return "SingleNUMANode";
    case TopologyManagerPolicy::kNone:
    case TopologyManagerPolicy::kBestAttainable:
      break;
  }
  return "";
}

InPlaceOfLabel BindLabel(const KubeletConfig& config) {
  constexpr std::string_view kLabel = "node.koordinator.sh/cpu-bind-policy";
  const auto is_on = [&config](const char* name) {
    const auto option = config.cpu_manager_policy_options.find(name);
    return config.cpu_manager_policy == CpuManagerPolicy::kStatic &&
           option != config.cpu_manager_policy_options.end() &&
           ParseGoBool(option->second).value_or(false);
  };
  for (const auto& [option, value] : {std::pair("full-pcpus-only", "FullPCPUsOnly"),
                                      std::pair("distribute-cpus-across-cores", "SpreadByPCPUs")}) {
    if (is_on(option)) return {kLabel, value, "option " + std::string(option)};
  }
  return {kLabel, "None", "neither option full-pcpus-only nor distribute-cpus-across-cores"};
}

// alignd decides by its configuration, and Koordinator's scheduler by labels of the node.
// Source: koordinator apis/extension/numa_aware.go; pkg/scheduler/plugins/nodenumaresource/util.go.
void NoteLabels(const NodeObject& object, const KubeletConfig& config,
                std::vector<std::string>& notes) {
  const std::string strategy(ToString(config.numa_allocate_strategy));
  const std::vector<InPlaceOfLabel> all = {
      {"node.koordinator.sh/numa-topology-policy", TopologyLabel(config.topology_manager_policy),
       "topologyManagerPolicy " + std::string(ToString(config.topology_manager_policy))},
      {"node.koordinator.sh/numa-allocate-strategy", strategy,
       strategy.empty() ? "no numaAllocateStrategy" : "numaAllocateStrategy " + strategy},
      BindLabel(config)};
  for (const InPlaceOfLabel& one : all) {
    const auto label = object.labels.find(std::string(one.label));
    if (label == object.labels.end() || label->second.empty() || label->second == one.same) {
      continue;
    }
    notes.push_back("Koordinator's scheduler goes by label " + label->first + "=" + label->second +
                    " of the node, and alignd by " + one.decides +
                    ": the two can decide differently");
  }
}

Error OfAnotherMachine(const NodeObject& object, const std::string& what) {
  return {ErrorCode::kInvalidArgument, "Node " + object.name + " has " + what,
          "give the machine and the Node object of the same node"};
}

// What the machine has, in bytes. A kubelet's figure of memory can be of another time or source.
Result<Done> CompareMemory(const NodeObject& object, const Machine& machine) {
  constexpr int64_t kTolerance = 20;  // a part
  uint64_t memory = 0;
  std::map<std::string, uint64_t> pages;
  for (const NumaNode& numa : machine.numa()) {
    memory = SaturatingSum(memory, numa.memory_bytes);
    for (const auto& [size, count] : numa.hugepages) {
      uint64_t& sum = pages[memorymanager::HugePageType(size)];
      sum = SaturatingSum(sum, size * count);
    }
  }
  if (memory == 0) return Done{};  // the description does not have it
  const auto whole = static_cast<int64_t>(std::min<uint64_t>(memory, INT64_MAX / 2));
  const Quantity* const capacity = Find(object.capacity, "memory");
  const Quantity* const allocatable = Find(object.allocatable, "memory");
  const Quantity most(whole + whole / kTolerance);
  const Quantity least(whole - whole / kTolerance);
  const std::string has = ", and the machine has " +
                          Quantity(whole, Quantity::Format::kBinarySi).ToString() + " of memory";
  if (capacity != nullptr && (*capacity > most || *capacity < least)) {
    return OfAnotherMachine(object, "a memory capacity of " + capacity->ToString() + has);
  }
  if (allocatable != nullptr && *allocatable > most) {
    return OfAnotherMachine(object, allocatable->ToString() + " of memory allocatable" + has);
  }
  for (const auto& [name, amount] : object.allocatable) {
    if (!name.starts_with("hugepages-")) continue;
    const auto found = pages.find(name);
    const Quantity there(static_cast<int64_t>(
        found == pages.end() ? 0 : std::min<uint64_t>(found->second, INT64_MAX)));
    if (amount <= there) continue;
    return OfAnotherMachine(object, amount.ToString() + " of " + name +
                                        " allocatable, and the machine has " + there.ToString() +
                                        " bytes");
  }
  return Done{};
}

// Not of a machine that is made up from an object.
Result<Done> CompareAmounts(const NodeObject& object, const Machine& machine) {
  const Quantity* const cpus = Find(object.allocatable, "cpu");
  if (cpus != nullptr && *cpus > Quantity(machine.cpus().Count())) {
    return OfAnotherMachine(object, cpus->ToString() + (*cpus == Quantity(1) ? " CPU" : " CPUs") +
                                        " allocatable, and the machine has " +
                                        std::to_string(machine.cpus().Count()));
  }
  for (const auto& [name, amount] : object.allocatable) {
    const Quantity* const capacity = Find(object.capacity, name);
    if (capacity == nullptr || amount <= *capacity) continue;
    return OfAnotherMachine(object, amount.ToString() + " of " + name +
                                        " allocatable, and a capacity of " + capacity->ToString());
  }
  return CompareMemory(object, machine);
}

}  // namespace

Result<Done> UseNodeObject(const NodeObject& object, const KubeletConfig& config, NodeInput& input,
                           Allocatable& allocatable) {
  const Machine& machine = input.description.machine;
  const Quantity* const cpus = Find(object.capacity, "cpu");
  if (cpus != nullptr && *cpus != Quantity(machine.cpus().Count())) {
    return Error{ErrorCode::kInvalidArgument,
                 "Node " + object.name + " has a capacity of " + cpus->ToString() +
                     (*cpus == Quantity(1) ? " CPU" : " CPUs") + ", and the machine has " +
                     std::to_string(machine.cpus().Count()),
                 "give the machine and the Node object of the same node"};
  }
  if (!input.object_view) {
    const Result<Done> compared = CompareAmounts(object, machine);
    if (!compared.ok()) return compared;
  }
  for (const auto& [name, amount] : object.allocatable) {
    if (!MayBeDevice(name) || amount.IsZero()) continue;
    const Result<Done> compared = CompareDevices(object, name, amount, input);
    if (!compared.ok()) return compared;
    // With devices, it is one of a plugin for the node as well, whatever its list says.
    if (input.description.devices.contains(name) || config.not_devices.contains(name)) continue;
    input.unlocated_devices.try_emplace(
        name, "Node " + object.name + " has " + amount.ToString() +
                  ", and their NUMA nodes are not known; add --device " + name + "=" +
                  amount.ToString() + "@NUMA, or --not-devices " + name +
                  " if no device plugin serves it");
  }
  NoteLabels(object, config, input.notes);
  ResourceList amounts = object.allocatable;
  if (const Quantity* const pods = Find(amounts, "pods")) allocatable.pods = pods->Value();
  amounts.erase("pods");
  // Devices that are described and not in the object are not there for the scheduler.
  allocatable.amounts = std::move(amounts);
  allocatable.unknown.clear();
  return Done{};
}

// Source: kubernetes pkg/scheduler/framework/plugins: nodeaffinity, tainttoleration.
std::vector<std::string> UnmetConstraints(const NodeObject& node, const PlannedPod& pod) {
  std::vector<std::string> reasons;
  if (!pod.node_name.empty() && pod.node_name != node.name) {
    reasons.push_back("the pod is bound to node " + pod.node_name + " (spec.nodeName)");
  }
  for (const auto& [key, value] : pod.node_selector) {
    const auto label = node.labels.find(key);
    if (label != node.labels.end() && label->second == value) continue;
    reasons.push_back("the node does not have the label " + key + "=" + value +
                      " of spec.nodeSelector");
  }
  for (const NodeObject::Taint& taint : node.taints) {
    const auto tolerates = [&](const Toleration& t) { return Tolerates(t, taint); };
    if (std::ranges::any_of(pod.tolerations, tolerates)) continue;
    reasons.push_back("the node had untolerated taint {" + taint.key + ": " + taint.value + "}");
  }
  return reasons;
}

}  // namespace alignd::placement
