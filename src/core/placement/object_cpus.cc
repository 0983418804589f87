#include "core/placement/object_cpus.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/zones.h"
#include "core/placement/object_backing.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

namespace nrt = noderesourcetopology;

// nullopt: the object does not say it, or says something that cannot be.
std::optional<nrt::FreeCores> ReadFreeCores(const TopologyObject& object) {
  const auto width = CpusIn(object.attributes, nrt::kCpusPerCoreAttribute);
  if (!width || *width == 0) return std::nullopt;
  nrt::FreeCores free{.cpus_per_core = static_cast<int>(*width), .cpus = {}};
  for (const nrt::Zone& zone : object.zones) {
    const nrt::Amount cpus = AmountIn(zone, "cpu");
    const auto of_zone = CpusIn(object.of_zone.at(zone.numa_id), nrt::kFreeCoreCpusAttribute);
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
  CpuMaker(const std::optional<nrt::FreeCores>& free, const ObjectBacking& backing)
      : free_(free),
        backing_(backing),
        cpus_per_core_(free ? static_cast<uint64_t>(free->cpus_per_core) : 1) {}

  // With free cores, in cores: the free ones first; then each other free CPU beside a reserved one.
  // If there are more such CPUs, they back what containers request: these are beside assigned ones,
  // and in the last cores, from which CPUs are held back first.
  void AddZone(const nrt::Zone& zone) {
    const nrt::Amount cpus = AmountIn(zone, "cpu");
    zone_ = {.numa_id = zone.numa_id, .position = next_position_++};
    const auto [in_pool, in_cores] = PoolOf(zone);
    uint64_t reserved = cpus.capacity - cpus.allocatable;
    uint64_t assigned = cpus.allocatable - in_pool;
    for (uint64_t i = 0; i < in_cores; ++i) Add(Use::kFree);
    uint64_t beside = cpus_per_core_ > 1 ? in_pool - in_cores : 0;
    while (beside > 0 && reserved + assigned > 0) {
      const bool is_reserved = reserved > 0;
      Add(is_reserved ? Use::kReserved : Use::kAssigned);
      --(is_reserved ? reserved : assigned);
      for (uint64_t i = 1; i < cpus_per_core_ && beside > 0; ++i, --beside) Add(Use::kFree);
    }
    for (; reserved > 0; --reserved) Add(Use::kReserved);
    for (; assigned > 0; --assigned) Add(Use::kAssigned);
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

  // The CPUs of the shared pool that are not reserved, and those of them in cores of their own.
  std::pair<uint64_t, uint64_t> PoolOf(const nrt::Zone& zone) const {
    if (const auto found = backing_.zones.find(zone.numa_id); found != backing_.zones.end()) {
      return {found->second.cpus, free_ ? found->second.core_cpus : found->second.cpus};
    }
    const uint64_t available = AmountIn(zone, "cpu").available;
    return {available, free_ ? free_->cpus.at(zone.numa_id) : available};
  }

  void Add(Use use) {
    const int cpu = static_cast<int>(made_.all.size());
    if (zone_.in_core == 0) zone_.core = cpu;
    zone_.in_core = (zone_.in_core + 1) % cpus_per_core_;
    made_.all.push_back({cpu, zone_.core, zone_.position, zone_.numa_id, zone_.position});
    if (use == Use::kReserved) made_.reserved.Add(cpu);
    if (use == Use::kAssigned) made_.assigned.Add(cpu);
  }

  const std::optional<nrt::FreeCores>& free_;
  const ObjectBacking& backing_;
  const uint64_t cpus_per_core_;
  ObjectCpus made_;
  Place zone_;
  int next_position_ = 0;
};

}  // namespace

Result<ObjectCpus> MakeObjectCpus(const TopologyObject& object, const ObjectConfig& config) {
  std::optional<nrt::FreeCores> free;
  if (config.assigns_cpus && config.full_cores_only) free = ReadFreeCores(object);
  ObjectBacking none;
  Result<ObjectBacking> backing =
      config.assigns_cpus ? ReadBacking(object, config, free) : std::move(none);
  if (!backing.ok()) return backing.error();
  CpuMaker maker(free, *backing);
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
  cpus.shared_millis = std::move(backing->millis);
  cpus.unknown_shares = std::move(backing->unknown);
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
