#include "core/placement/object_cpus.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "alignd/base/quantity.h"
#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

namespace nrt = noderesourcetopology;

// A number of CPUs in an attribute.
std::optional<uint64_t> CountIn(const std::map<std::string, std::string>& attributes,
                                const char* name) {
  const std::string* const text = AttributeOf(attributes, name);
  if (text == nullptr) return std::nullopt;
  const Result<Quantity> amount = Quantity::Parse(*text);
  if (!amount.ok() || amount->Sign() < 0 || *amount > Quantity(kMaxCpus)) return std::nullopt;
  return static_cast<uint64_t>(amount->Value());
}

// nullopt: the object does not say it, or says something that cannot be.
std::optional<nrt::FreeCores> ReadFreeCores(const TopologyObject& object) {
  const auto width = CountIn(object.attributes, nrt::kCpusPerCoreAttribute);
  if (!width || *width == 0) return std::nullopt;
  nrt::FreeCores free{.cpus_per_core = static_cast<int>(*width), .cpus = {}};
  for (const nrt::Zone& zone : object.zones) {
    const nrt::Amount cpus = AmountIn(zone, "cpu");
    const auto of_zone = CountIn(object.of_zone.at(zone.numa_id), nrt::kFreeCoreCpusAttribute);
    if (!of_zone || *of_zone > cpus.available || *of_zone % *width != 0 ||
        cpus.capacity % *width != 0) {
      return std::nullopt;
    }
    // All other available CPUs share a core with a reserved one.
    const uint64_t reserved = cpus.capacity - cpus.allocatable;
    if (cpus.available - *of_zone > reserved * (*width - 1)) return std::nullopt;
    free.cpus[zone.numa_id] = *of_zone;
  }
  return free;
}

std::string WhyCpusUnknown(const TopologyObject& object, const ObjectConfig& config,
                           const std::optional<nrt::FreeCores>& free) {
  if (!config.assigns_cpus) return {};
  if (config.full_cores_only && !free) {
    return std::string(
               "cpu: cpuManagerPolicyOptions has full-pcpus-only, and the object does not "
               "say how many CPUs are in free cores (alignd.io/freeCoreCpus); ") +
           kPublish;
  }
  if (config.aligns_by_socket && object.zones.size() > 1) {
    return "cpu: cpuManagerPolicyOptions has align-by-socket, and the object does not say which "
           "NUMA nodes share a socket; give the output of alignctl topology -o json, made on that "
           "node";
  }
  return {};
}

// Adds the CPUs of one zone after the other, so that each kind has its number.
class CpuMaker {
 public:
  explicit CpuMaker(const std::optional<nrt::FreeCores>& free)
      : free_(free), cpus_per_core_(free ? static_cast<uint64_t>(free->cpus_per_core) : 1) {}

  // With free cores, in cores: the free ones first; then each available CPU beside a reserved one.
  void AddZone(const nrt::Zone& zone) {
    const nrt::Amount cpus = AmountIn(zone, "cpu");
    zone_ = {.numa_id = zone.numa_id, .position = next_position_++};
    const uint64_t in_free = free_ ? free_->cpus.at(zone.numa_id) : cpus.available;
    uint64_t reserved = cpus.capacity - cpus.allocatable;
    for (uint64_t i = 0; i < in_free; ++i) Add(Use::kFree);
    for (uint64_t beside = cpus.available - in_free; beside > 0; --reserved) {
      Add(Use::kReserved);
      for (uint64_t i = 1; i < cpus_per_core_ && beside > 0; ++i, --beside) Add(Use::kFree);
    }
    for (uint64_t i = 0; i < reserved; ++i) Add(Use::kReserved);
    for (uint64_t i = cpus.available; i < cpus.allocatable; ++i) Add(Use::kAssigned);
  }

  ObjectCpus Take() { return std::move(made_); }

 private:
  enum class Use { kFree, kReserved, kAssigned };
  struct Place {
    int numa_id = 0;
    int position = 0;
    uint64_t in_core = 0;
    int core = 0;
  };

  void Add(Use use) {
    const int cpu = static_cast<int>(made_.all.size());
    if (zone_.in_core == 0) zone_.core = cpu;
    zone_.in_core = (zone_.in_core + 1) % cpus_per_core_;
    made_.all.push_back({cpu, zone_.core, zone_.position, zone_.numa_id, zone_.position});
    if (use == Use::kReserved) made_.reserved.Add(cpu);
    if (use == Use::kAssigned) made_.assigned.Add(cpu);
  }

  const std::optional<nrt::FreeCores>& free_;
  const uint64_t cpus_per_core_;
  ObjectCpus made_;
  Place zone_;
  int next_position_ = 0;
};

}  // namespace

Result<ObjectCpus> MakeObjectCpus(const TopologyObject& object, const ObjectConfig& config) {
  std::optional<nrt::FreeCores> free;
  if (config.assigns_cpus && config.full_cores_only) free = ReadFreeCores(object);
  CpuMaker maker(free);
  uint64_t all = 0;
  for (const nrt::Zone& zone : object.zones) {
    if (!zone.resources.contains("cpu")) return BadZone(object, zone.numa_id, " has no cpu");
    all += AmountIn(zone, "cpu").capacity;
    if (all > kMaxCpus) {
      return BadField(object, "the zones have more than " + std::to_string(kMaxCpus) + " CPUs",
                      kPublish);
    }
    maker.AddZone(zone);
  }
  if (all == 0) return BadField(object, "the zones have no CPU", kPublish);
  ObjectCpus cpus = maker.Take();
  cpus.unknown = WhyCpusUnknown(object, config, free);
  if (!config.assigns_cpus) {
    cpus.reserved = {};
    cpus.assigned = {};
  } else if (cpus.reserved.empty()) {
    return BadField(object,
                    "cpu: allocatable is capacity on every zone, and cpuManagerPolicy static "
                    "always reserves CPUs",
                    "correct cpuManagerPolicy in the KubeletConfiguration, or publish the object "
                    "with alignd");
  }
  return cpus;
}

}  // namespace alignd::placement
