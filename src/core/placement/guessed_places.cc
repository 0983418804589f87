#include "alignd/placement/guessed_places.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/pod/resource_name.h"
#include "core/admission/own_numa.h"
#include "core/memorymanager/memory_request.h"
#include "core/placement/cpu_numbers.h"
#include "core/placement/numa_amounts.h"
#include "core/placement/numa_rules.h"
#include "core/placement/numa_search.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::placement {

using admission::Node;
using admission::NodeState;
using memorymanager::IsMemoryType;

bool GuessedPlaces::Spans(const std::string& resource, int64_t amount) const {
  const auto found = capacity_.find(resource);
  return found != capacity_.end() && std::ranges::max(found->second) < amount;
}

bool GuessedPlaces::IsOnOneNode(const NumaAmounts& amounts) const {
  return std::ranges::none_of(amounts,
                              [this](const auto& one) { return Spans(one.first, one.second); });
}

namespace {

// More than any machine has, so that sums of many do not overflow: an annotation can have any
// amount.
int64_t Bounded(int64_t amount) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  return std::min(amount, kLargest);
}

}  // namespace

NumaAmounts GuessedPlaces::PartOf(const Node& node, const Pod& pod,
                                  const Container& container) const {
  NumaAmounts part;
  const auto add = [&part](const std::string& resource, int64_t amount) {
    if (amount > 0) part[resource] = Bounded(amount);
  };
  if (node.cpu) add(kCpuName, ExclusiveCpuCount(pod, container));
  for (const auto& [name, amount] : container.resources.limits) {
    if (!MayBeDevice(name)) continue;
    if (capacity_.contains(name) || unlisted_.contains(name)) add(name, amount.Value());
  }
  if (!admission::RequestsMemory(node, pod, container)) return part;
  for (const auto& [name, amount] : container.resources.requests) {
    if (IsMemoryType(name)) add(name, amount.Value());
  }
  return part;
}

NumaAmounts GuessedPlaces::WholeOf(const Node& node, const Pod& pod) {
  NumaAmounts whole;
  if (const int64_t cpus = node.cpu ? PodCpuBudget(pod) : 0; cpus > 0) {
    whole[kCpuName] = Bounded(cpus);
  }
  if (!node.memory) return whole;
  const Result<memorymanager::MemoryRequest> memory = memorymanager::PodMemoryBudget(pod);
  if (!memory.ok()) return whole;  // the node refuses the pod for it
  for (const auto& [type, bytes] : *memory)
    whole[type] = Bounded(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)));
  return whole;
}

bool GuessedPlaces::ReusesOfInit(const Node& node, const Pod& pod) const {
  return std::ranges::any_of(pod.containers, [&](const Container& one) {
    return one.kind == ContainerKind::kInit && !PartOf(node, pod, one).empty();
  });
}

std::vector<NumaAmounts> GuessedPlaces::PartsOf(const Node& node, const Pod& pod) const {
  std::vector<NumaAmounts> parts;
  const NumaAmounts whole = WholeOf(node, pod);
  for (const Container& container : pod.containers) {
    NumaAmounts part = PartOf(node, pod, container);
    std::erase_if(part, [&whole](const auto& one) { return whole.contains(one.first); });
    if (!part.empty()) parts.push_back(std::move(part));
  }
  if (!whole.empty()) parts.push_back(whole);
  return parts;
}

std::vector<const GuessedPlaces::Item*> GuessedPlaces::ItemsWith(
    const std::vector<NumaAmounts>& parts) const {
  const NumaAmounts wanted = SumOf(parts);
  std::vector<const Item*> items;
  for (const Item& item : items_) {
    const bool matters = std::ranges::any_of(
        item.amounts, [&wanted](const auto& one) { return wanted.contains(one.first); });
    if (matters) items.push_back(&item);
  }
  return items;
}

bool GuessedPlaces::IsFreeInAnyCase(const std::vector<NumaAmounts>& parts) const {
  const std::vector<const Item*> items = ItemsWith(parts);
  if (!std::ranges::all_of(items, &Item::is_bounded)) return false;
  NumaAmounts needed = SumOf(parts);
  for (const Item* const item : items) {
    for (const auto& [resource, amount] : item->amounts) {
      if (needed.contains(resource)) needed[resource] = SaturatingSum(needed[resource], amount);
    }
  }
  return std::ranges::all_of(needed, [this](const auto& one) {
    const auto free = free_.find(one.first);
    return free != free_.end() && !loose_.contains(one.first) &&
           std::accumulate(free->second.begin(), free->second.end(), int64_t{0}) >= one.second;
  });
}

bool GuessedPlaces::IsDecidedBySums(const Node& node, const Pod& pod,
                                    const std::vector<NumaAmounts>& parts) const {
  const TopologyManagerPolicy kind = admission::TopologyOf(node, pod).kind();
  if (kind != TopologyManagerPolicy::kNone && kind != TopologyManagerPolicy::kBestEffort) {
    return false;
  }
  if (HasMemory(parts) || has_part_of_core_) return false;
  const std::vector<const Item*> items = ItemsWith(parts);
  const bool reuses = ReusesOfInit(node, pod);
  if (!reuses && std::ranges::none_of(items, &Item::is_unclear)) return true;
  return IsFreeInAnyCase(parts);  // even if nothing is reused
}

// Of a pod for which NUMA nodes matter.
bool GuessedPlaces::DependsOn(const Node& node, const Pod& pod, std::vector<NumaAmounts> parts,
                              const admission::Admission& decided) const {
  const topologymanager::Policy& policy = admission::TopologyOf(node, pod);
  const bool keeps_on_one = KeepsOnOneNode(node, policy);
  if (ReusesOfInit(node, pod)) return true;
  // Not even sums are known, unless they are at most so much.
  const auto is_unknown = [](const Item* item) { return item->is_unclear && !item->is_at_most; };
  const std::vector<const Item*> all = ItemsWith(parts);
  if (!std::ranges::none_of(all, is_unknown)) return true;
  const bool has_at_most = !std::ranges::none_of(all, &Item::is_at_most);
  const bool has_only_at_most = has_at_most && std::ranges::all_of(all, &Item::is_at_most);
  // It is refused although the state has nothing of these. Several parts could be placed otherwise
  // with less free, and fit then.
  if (has_only_at_most && !decided.admitted() && (parts.size() == 1 || HasOneHint(policy)) &&
      !HasOtherRules(node) && policy.kind() != TopologyManagerPolicy::kBestAttainable) {
    return false;
  }
  if (policy.kind() == TopologyManagerPolicy::kNone) {  // only memory is on certain NUMA nodes
    for (NumaAmounts& part : parts) {
      std::erase_if(part, [](const auto& one) { return !IsMemoryType(one.first); });
    }
    std::erase_if(parts, [](const NumaAmounts& part) { return part.empty(); });
    NumaAmounts free;
    for (const auto& [resource, of_numa] : free_) {
      free[resource] = std::accumulate(of_numa.begin(), of_numa.end(), int64_t{0});
    }
    for (const Item* const item : ItemsWith(parts)) {
      if (item->is_unclear) return true;
      for (const auto& [resource, amount] : item->amounts) {
        free[resource] = std::max<int64_t>(free[resource] - amount, 0);
      }
    }
    if (AreInAnyGroups(parts, free, node.machine.numa_count())) return false;
  }
  if (HasOneHint(policy)) parts = {SumOf(parts)};
  const bool is_restricted = policy.kind() == TopologyManagerPolicy::kRestricted;
  if (is_restricted && parts.size() == 1 && node.machine.numa_count() == 2 && !has_at_most) {
    // What needs both NUMA nodes is there if the sum is.
    std::erase_if(parts[0], [this](const auto& one) {
      return !IsMemoryType(one.first) && Spans(one.first, one.second);
    });
    if (parts[0].empty()) return false;
  }
  const std::vector<const Item*> items = ItemsWith(parts);
  if (items.empty()) return false;
  const bool is_known =
      !(has_groups_ && HasMemory(parts)) && !has_part_of_core_ && !HasOtherRules(node) &&
      std::ranges::none_of(SumOf(parts),
                           [this](const auto& one) { return loose_.contains(one.first); });
  const bool fits = decided.admitted();
  if (!is_known || (!keeps_on_one && !fits)) return true;
  const bool spans =
      !std::ranges::all_of(parts, [this](const auto& one) { return IsOnOneNode(one); });
  if (spans && policy.kind() != TopologyManagerPolicy::kSingleNumaNode) return true;
  NumaQuestion question;
  std::vector<std::string> resources;
  for (const auto& [resource, free] : free_) {
    // Of others, an item can have devices of several NUMA nodes, which are not counted here.
    if (!loose_.contains(resource)) resources.push_back(resource);
  }
  for (size_t numa = 0; numa < static_cast<size_t>(node.machine.numa_count()); ++numa) {
    AmountRow& row = question.free.emplace_back();
    for (const std::string& resource : resources) row.push_back(free_.at(resource)[numa]);
  }
  question.split = AmountRow(resources.size());
  for (const Item* const item : items) {
    // The pod is refused although the state has nothing of it.
    if (item->is_at_most && !fits) continue;
    AmountRow row = RowOf(item->amounts, resources);
    if (!item->is_split) {
      question.items.push_back(std::move(row));
      continue;
    }
    // Memory of several NUMA nodes keeps others from these nodes.
    if (HasMemory({item->amounts}) && HasMemory(parts)) return true;
    for (size_t i = 0; i < row.size(); ++i)
      question.split[i] = SaturatingSum(question.split[i], row[i]);
  }
  for (const NumaAmounts& part : parts) question.parts.push_back(RowOf(part, resources));
  return fits ? CanFindNone(question) : CanFindAll(question);
}

std::string GuessedPlaces::WhyOpen(const Node& node, const Pod& pod,
                                   const admission::Admission& decided) const {
  if (items_.empty()) return {};
  const std::vector<NumaAmounts> parts = PartsOf(node, pod);
  const std::vector<const Item*> items = ItemsWith(parts);
  const bool has_unclear = !std::ranges::none_of(items, &Item::is_unclear);
  const bool reuses = ReusesOfInit(node, pod);
  // Also if it is refused: the CPUs that it must have are free elsewhere.
  if ((node.cpu && NeedsCpuNumbers(node, pod)) || PrefersCpuNumbers(node, pod) ||
      admission::IsKeptApart(node, pod)) {
    return "which CPUs they are";
  }
  if (node.machine.numa_count() < 2) {
    const bool is_at_most = std::ranges::all_of(
        items, [](const Item* item) { return !item->is_unclear || item->is_at_most; });
    const bool is_known = is_at_most && !reuses && !has_part_of_core_ &&
                          (!decided.admitted() || IsFreeInAnyCase(parts));
    if (has_unclear && !is_known) return "how much they are";
    const TopologyManagerPolicy kind = admission::TopologyOf(node, pod).kind();
    const bool must_align =
        kind != TopologyManagerPolicy::kNone && kind != TopologyManagerPolicy::kBestEffort;
    const bool takes_loose = std::ranges::any_of(
        SumOf(parts), [this](const auto& one) { return loose_.contains(one.first); });
    // The ones that are left may be those of which no plugin has said a NUMA node.
    return must_align && takes_loose && !items.empty() ? "which devices they are" : "";
  }
  return IsOpen(node, pod, parts, decided) ? WhatIsOpen(node, pod, parts, decided) : "";
}

bool GuessedPlaces::IsOpen(const Node& node, const Pod& pod, const std::vector<NumaAmounts>& parts,
                           const admission::Admission& decided) const {
  const bool asks = std::ranges::any_of(pod.containers, [&](const Container& one) {
    return admission::AsksForOneNode(node, pod, one);
  });
  if (asks) return true;
  const std::vector<const Item*> items = ItemsWith(parts);
  if (items.empty()) return false;
  // Other refusals follow from sums, or were there before a manager was asked.
  const auto& at = decided.refused_at;
  const bool is_by_place =
      decided.admitted() ||
      (at &&
       (!std::ranges::none_of(items, &Item::is_unclear) || ReusesOfInit(node, pod) ||
        at->by == admission::RefusedBy::kTopology || at->by == admission::RefusedBy::kMemory));
  if (!is_by_place) return false;
  return pod.pod_level_managers == PodLevelManagers::kPod ||
         (!IsDecidedBySums(node, pod, parts) && DependsOn(node, pod, parts, decided));
}

std::string GuessedPlaces::WhatIsOpen(const Node& node, const Pod& pod,
                                      std::vector<NumaAmounts> parts,
                                      const admission::Admission& decided) const {
  const bool has_loose = std::ranges::any_of(
      SumOf(parts), [this](const auto& one) { return loose_.contains(one.first); });
  for (NumaAmounts& part : parts) {
    std::erase_if(part, [this](const auto& one) {
      return !capacity_.contains(one.first) || loose_.contains(one.first);
    });
  }
  std::erase_if(parts, [](const NumaAmounts& part) { return part.empty(); });
  if (IsOpen(node, pod, parts, decided)) return "the NUMA nodes that they are on";
  return has_loose ? "which devices they are" : "how many devices they are";
}

}  // namespace alignd::placement
