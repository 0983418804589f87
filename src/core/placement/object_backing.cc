#include "core/placement/object_backing.h"

#include <algorithm>

#include "alignd/base/quantity.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/noderesourcetopology/object.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

namespace nrt = noderesourcetopology;
using cpumanager::kMillisPerCpu;

constexpr char kNotSaid[] =
    "the annotation alignd.io/shared-cpus asks for shared CPUs of one NUMA node: the object does "
    "not say ";
constexpr char kAskTheNode[] = "; ask alignd on that node (alignctl why-not)";

const std::map<std::string, std::string>& AttributesOf(const TopologyObject& object,
                                                       const nrt::Zone& zone) {
  return object.of_zone.at(zone.numa_id);
}

// Whether alignd has written it, and knew of such containers.
bool HasBacking(const TopologyObject& object) {
  return std::ranges::any_of(object.zones, [&](const nrt::Zone& zone) {
    const auto& attributes = AttributesOf(object, zone);
    return attributes.contains(nrt::kSharedRequestsAttribute) ||
           attributes.contains(nrt::kBackingCpusAttribute);
  });
}

Error BadAttribute(const TopologyObject& object, const nrt::Zone& zone, const char* name) {
  const auto& attributes = AttributesOf(object, zone);
  const std::string* const text = AttributeOf(attributes, name);
  Error error = BadZone(object, zone.numa_id,
                        text == nullptr ? std::string(": the attribute ") + name + " is missing"
                                        : std::string(": attribute ") + name + ": \"" + *text +
                                              "\" cannot be, beside the other amounts of cpu");
  error.remedy = kWriteWithAlignd;
  return error;
}

// Whole thousandths of a CPU.
std::optional<int64_t> MillisIn(const std::map<std::string, std::string>& attributes) {
  const std::string* const text = AttributeOf(attributes, nrt::kSharedRequestsAttribute);
  if (text == nullptr) return std::nullopt;
  const Result<Quantity> amount = Quantity::Parse(*text);
  if (!amount.ok() || amount->Sign() < 0 || *amount > Quantity(kMaxCpus)) return std::nullopt;
  const int64_t millis = amount->MilliValue();
  const Result<Quantity> whole = Quantity::Parse(std::to_string(millis) + "m");
  if (!whole.ok() || *whole != *amount) return std::nullopt;
  return millis;
}

// How many CPUs are held back of cores of that size: first those of cores that have others, at most
// one of each core; then whole cores.
uint64_t HeldBack(const nrt::Backing& backing, uint64_t needed, uint64_t cpus_per_core) {
  const uint64_t beside = backing.cpus - backing.core_cpus;
  if (needed <= beside) return needed;
  const uint64_t cores = (needed - beside + cpus_per_core - 1) / cpus_per_core;
  return std::min(backing.cpus, beside + cores * cpus_per_core);
}

// The CPUs of the zone, with those of cores that have no others; without full-pcpus-only, all.
Result<nrt::Backing> ReadZone(const TopologyObject& object, const nrt::Zone& zone, bool has_cores) {
  const auto& attributes = AttributesOf(object, zone);
  const auto millis = MillisIn(attributes);
  if (!millis) return BadAttribute(object, zone, nrt::kSharedRequestsAttribute);
  const auto cpus = CpusIn(attributes, nrt::kBackingCpusAttribute);
  const nrt::Amount amount = AmountIn(zone, "cpu");
  if (!cpus || *cpus < amount.available || *cpus > amount.allocatable) {
    return BadAttribute(object, zone, nrt::kBackingCpusAttribute);
  }
  nrt::Backing backing{.millis = *millis, .cpus = *cpus, .core_cpus = *cpus};
  if (!has_cores) return backing;
  const auto in_cores = CpusIn(attributes, nrt::kBackingCoreCpusAttribute);
  if (!in_cores || *in_cores > *cpus) {
    return BadAttribute(object, zone, nrt::kBackingCoreCpusAttribute);
  }
  backing.core_cpus = *in_cores;
  return backing;
}

// Checks that what is available is what such containers leave, and notes what they request.
Result<Done> CheckZone(const TopologyObject& object, const nrt::Zone& zone,
                       const nrt::Backing& backing, const std::optional<nrt::FreeCores>& free,
                       ObjectBacking& all) {
  const nrt::Amount amount = AmountIn(zone, "cpu");
  const auto cpus_per_core = static_cast<uint64_t>(free ? free->cpus_per_core : 1);
  const uint64_t beside = backing.cpus - backing.core_cpus;
  // Each of these cores has another CPU.
  const bool has_others = beside <= (amount.capacity - backing.cpus) * (cpus_per_core - 1);
  if (backing.core_cpus % cpus_per_core != 0 || !has_others) {
    return BadAttribute(object, zone, nrt::kBackingCoreCpusAttribute);
  }
  // A container without a request needs a CPU, too.
  const bool has_some = backing.millis > 0 || backing.cpus > amount.available;
  const int64_t rounded = (backing.millis + kMillisPerCpu - 1) / kMillisPerCpu;
  const uint64_t needed = has_some ? static_cast<uint64_t>(std::max<int64_t>(1, rounded)) : 0;
  const uint64_t held = HeldBack(backing, std::min(needed, backing.cpus), cpus_per_core);
  if (backing.cpus - held != amount.available) {
    return BadAttribute(object, zone, nrt::kBackingCpusAttribute);
  }
  const uint64_t held_cores = held > beside ? held - beside : 0;
  if (free && free->cpus.at(zone.numa_id) != backing.core_cpus - held_cores) {
    return BadAttribute(object, zone, nrt::kBackingCoreCpusAttribute);
  }
  if (has_some) all.millis[zone.numa_id] = backing.millis;
  all.zones[zone.numa_id] = backing;
  return Done{};
}

}  // namespace

Result<ObjectBacking> ReadBacking(const TopologyObject& object, const ObjectConfig& config,
                                  const std::optional<nrt::FreeCores>& free) {
  ObjectBacking all;
  if (!HasBacking(object)) {
    all.unknown = std::string(kNotSaid) + "what containers request there" + kAskTheNode;
    return all;
  }
  std::map<int, nrt::Backing> zones;
  for (const nrt::Zone& zone : object.zones) {
    const Result<nrt::Backing> backing = ReadZone(object, zone, free.has_value());
    if (!backing.ok()) return backing.error();
    zones[zone.numa_id] = *backing;
  }
  // Which CPUs are held back depends on the cores: it changes what is free of them.
  const bool is_by_number = std::ranges::all_of(zones, [&](const auto& entry) {
    return entry.second.cpus == entry.second.core_cpus || !free || free->cpus_per_core <= 2;
  });
  if (config.full_cores_only && (!free || !is_by_number)) {
    all.unknown = std::string(kNotSaid) +
                  "which CPUs back it, and with full-pcpus-only this changes how many cores are "
                  "free" +
                  kAskTheNode;
    return all;
  }
  for (const nrt::Zone& zone : object.zones) {
    const Result<Done> sound = CheckZone(object, zone, zones.at(zone.numa_id), free, all);
    if (!sound.ok()) return sound.error();
  }
  return all;
}

}  // namespace alignd::placement
