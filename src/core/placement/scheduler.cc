#include "alignd/placement/scheduler.h"

#include <algorithm>

#include "alignd/base/saturating_sum.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/memory_state.h"
#include "core/json/json_view.h"

namespace alignd::placement {
namespace {

using json::View;

// A sum of bytes that no machine exceeds; a larger one is capped.
Quantity Bytes(uint64_t bytes) {
  constexpr auto kMax = static_cast<uint64_t>(INT64_MAX);
  return Quantity(static_cast<int64_t>(std::min(bytes, kMax)), Quantity::Format::kBinarySi);
}

void Subtract(const Quantity& amount, Quantity& from) {
  from -= amount;
  if (from.Sign() < 0) from = Quantity();
}

// Beyond 64 bits, quantities are capped: their last digits would be none of the pod's.
std::string Shown(const Quantity& amount) {
  const Quantity most(INT64_MAX);
  return amount > most ? "more than " + most.ToString() : amount.ToString();
}

Result<int64_t> ReadLimit(const View& top, std::string_view key, int64_t standard) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  constexpr int64_t kMaxInt32 = 2'147'483'647;
  return *member ? (*member)->Integer(0, kMaxInt32) : Result<int64_t>(standard);
}

// The scheduler counts CPUs in thousandths, and everything else in whole units, rounded up per pod.
// Source: pkg/scheduler/framework/types.go, Resource.Add.
Quantity AsCounted(const std::string& resource, const Quantity& amount) {
  // The larger one: rounded, or a number beyond 64 bits. Of equal ones, the amount as it is
  // written.
  if (resource != "cpu") return std::max(amount, Quantity(amount.Value()));
  const Quantity milli = Quantity::Parse(std::to_string(amount.MilliValue()) + "m").value();
  return std::max(amount, milli);
}

}  // namespace

Result<Allocatable> AllocatableOf(const Machine& machine, const KubeletConfig& config,
                                  int64_t pods) {
  uint64_t memory = 0;
  std::map<uint64_t, uint64_t> pages;  // bytes by size
  for (const NumaNode& node : machine.numa()) {
    memory = SaturatingSum(memory, node.memory_bytes);
    for (const auto& [size, count] : node.hugepages)
      pages[size] = SaturatingSum(pages[size], size * count);
  }
  const Result<CpuSet> reserved_cpus = cpumanager::ReservedSystemCpus(machine, config);
  if (!reserved_cpus.ok()) return reserved_cpus.error();
  const Result<ResourceList> reserved = NodeReservation(config, memory, reserved_cpus->Count());
  if (!reserved.ok()) return reserved.error();

  Allocatable allocatable;
  allocatable.pods = pods;
  // The kubelet takes the memory of the machine as a whole from another source than that of NUMA
  // nodes.
  if (memory == 0) allocatable.unknown.insert("memory");
  ResourceList& amounts = allocatable.amounts;
  amounts["cpu"] = Quantity(machine.cpus().Count());
  amounts["memory"] = Bytes(memory);
  for (const auto& [name, amount] : *reserved) Subtract(amount, amounts[name]);
  for (const auto& [size, in_pages] : pages) {
    const Quantity bytes = Bytes(in_pages);
    amounts[memorymanager::HugePageType(size)] = bytes;
    Subtract(bytes, amounts["memory"]);
  }
  return allocatable;
}

Result<int64_t> PodLimitOf(std::string_view config, int cpus) {
  const Result<nlohmann::json> parsed = json::Parse(config);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  constexpr int64_t kDefault = 110;
  const Result<int64_t> pods = ReadLimit(top, "maxPods", kDefault);
  if (!pods.ok()) return pods.error();
  const Result<int64_t> per_core = ReadLimit(top, "podsPerCore", 0);
  if (!per_core.ok()) return per_core.error();
  // The kubelet's default also replaces a 0.
  const int64_t limit = *pods == 0 ? kDefault : *pods;
  return *per_core == 0 ? limit : std::min(limit, *per_core * cpus);
}

std::string CauseOf(const Shortage& shortage) {
  return shortage.resource == "pods" ? "Too many pods" : "Insufficient " + shortage.resource;
}

std::string Describe(const Shortage& shortage) {
  Quantity free = shortage.allocatable;
  Subtract(shortage.used, free);
  return CauseOf(shortage) + ": " + Shown(shortage.requested) + " requested, " + free.ToString() +
         " of " + Shown(shortage.allocatable) + " free";
}

void RequestedResources::Add(const std::string& pod_uid, const ResourceList& requests) {
  ResourceList& counted = by_pod_[pod_uid];
  for (const auto& [name, amount] : counted) total_[name] -= amount;
  counted.clear();
  for (const auto& [name, amount] : requests) counted[name] = AsCounted(name, amount);
  for (const auto& [name, amount] : counted) total_[name] += amount;
}

std::vector<Shortage> RequestedResources::ShortagesOf(const Allocatable& allocatable,
                                                      const std::string& pod_uid,
                                                      const ResourceList& requests) const {
  std::vector<Shortage> shortages;
  const auto same = by_pod_.find(pod_uid);
  const bool is_there = same != by_pod_.end();
  const int64_t others = pods() - (is_there ? 1 : 0);
  if (others >= allocatable.pods) {
    shortages.push_back({"pods", Quantity(1), Quantity(others), Quantity(allocatable.pods)});
  }
  const auto amount_in = [](const ResourceList& list, const std::string& name) {
    const Quantity* const amount = Find(list, name);
    return amount == nullptr ? Quantity() : *amount;
  };
  for (const auto& [name, requested] : requests) {
    const Quantity amount = AsCounted(name, requested);
    if (amount.IsZero() || allocatable.unknown.contains(name)) continue;
    Quantity used = amount_in(total_, name);
    if (is_there) used -= amount_in(same->second, name);
    const Quantity whole = amount_in(allocatable.amounts, name);
    if (used + amount > whole) shortages.push_back({name, amount, used, whole});
  }
  return shortages;
}

void AddDeviceCounts(const devicemanager::DeviceState& devices, ResourceList& amounts) {
  for (const auto& [name, resource] : devices.resources) {
    const auto healthy = std::ranges::count_if(
        resource.devices, [](const auto& device) { return device.second.healthy; });
    amounts[name] = Quantity(healthy);
  }
}

}  // namespace alignd::placement
