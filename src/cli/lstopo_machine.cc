#include "cli/lstopo_machine.h"

#include <hwloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace alignd::cli {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

std::string ListOf(hwloc_const_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) return "?";
  std::string list = text;
  std::free(text);
  return list;
}

Result<Topology> Load(const std::string& xml) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return BadLstopo("libhwloc cannot be used", kGiveOwnForm);
  Topology topology(made);
  // CPUs that a cgroup did not allow to lstopo are CPUs of the machine. What lstopo could see is
  // that of the node, not of this machine.
  hwloc_topology_set_flags(
      made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_IMPORT_SUPPORT);
  // Left out if it is not said otherwise. One without number counts.
  hwloc_topology_set_icache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_set_xmlbuffer(made, xml.c_str(), static_cast<int>(xml.size()) + 1) != 0 ||
      hwloc_topology_load(made) != 0) {
    return BadLstopo("libhwloc cannot read it");
  }
  return topology;
}

bool IsOfLinux(hwloc_obj_t root) {
  for (unsigned i = 0; i < root->infos_count; ++i) {
    if (std::string_view(root->infos[i].name) == "Backend" &&
        std::string_view(root->infos[i].value) == "Linux") {
      return true;
    }
  }
  return false;
}

// What the kernel numbers it.
std::optional<int> IdOf(hwloc_obj_t object) {
  if (object->os_index > static_cast<unsigned>(INT32_MAX)) return std::nullopt;
  return static_cast<int>(object->os_index);
}

std::vector<hwloc_obj_t> ObjectsOf(hwloc_topology_t topology, hwloc_obj_type_t type) {
  std::vector<hwloc_obj_t> objects;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    objects.push_back(object);
  }
  return objects;
}

// Reads one topology. Made for one call of NodeJsonOfLstopo.
class LstopoReader {
 public:
  explicit LstopoReader(hwloc_topology_t topology) : topology_(topology) {}

  Result<Machine> Read() {
    Result<Done> done = CheckWhole();
    if (done.ok()) done = ReadNumaNodes();
    if (done.ok()) done = ReadDistances();
    if (done.ok()) done = ReadCpus();
    if (!done.ok()) return done.error();
    std::vector<Cpu> rows;
    for (auto& [numa, cores] : cores_) {
      FindUncoreCaches(cores);
      for (const LstopoCore& core : cores) {
        for (const LstopoThread& thread : core.threads) {
          rows.push_back({.cpu = thread.cpu,
                          .core = static_cast<int>(core.object->logical_index),
                          .socket = core.package,
                          .numa = numa,
                          .uncore = core.uncore.value_or(core.package)});
        }
      }
    }
    Result<Machine> machine = Machine::Make(std::move(rows), std::move(numa_));
    if (!machine.ok()) return BadLstopo(machine.error().message);
    return machine;
  }

 private:
  struct LstopoThread {
    int cpu = 0;
    hwloc_obj_t object = nullptr;
  };
  struct LstopoCore {
    hwloc_obj_t object = nullptr;  // the first one
    std::vector<int> identity;
    int package = 0;
    std::vector<LstopoThread> threads;
    std::optional<int> uncore;
  };

  // A part of a machine decides otherwise than the machine.
  Result<Done> CheckWhole() const {
    const hwloc_obj_t root = hwloc_get_root_obj(topology_);
    if (!IsOfLinux(root)) {
      return BadLstopo("it does not describe a machine as Linux does (there is no Backend Linux)");
    }
    if (!hwloc_bitmap_isequal(root->cpuset, root->complete_cpuset)) {
      const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> absent(
          hwloc_bitmap_alloc(), &hwloc_bitmap_free);
      hwloc_bitmap_andnot(absent.get(), root->complete_cpuset, root->cpuset);
      return BadLstopo("CPUs " + ListOf(absent.get()) +
                           " are offline, or a cgroup did not allow them to lstopo; it does not "
                           "say which",
                       kGiveOwnForm);
    }
    if (!hwloc_bitmap_isequal(root->nodeset, root->complete_nodeset)) {
      return BadLstopo("NUMA nodes are missing: it has " + ListOf(root->nodeset) + " of " +
                           ListOf(root->complete_nodeset),
                       kGiveOwnForm);
    }
    return Done{};
  }

  Result<Done> ReadNumaNodes() {
    for (const hwloc_obj_t object : ObjectsOf(topology_, HWLOC_OBJ_NUMANODE)) {
      const std::optional<int> id = IdOf(object);
      if (!id) return BadLstopo("a NUMA node has no number");
      const auto& attributes = object->attr->numanode;
      NumaNode node{
          .id = *id, .memory_bytes = attributes.local_memory, .hugepages = {}, .distances = {}};
      const std::string place = "NUMA node " + std::to_string(*id);
      if (attributes.local_memory > 0 && attributes.page_types_len == 0) {
        return BadLstopo(place + " has no sizes of pages: its huge pages are not known");
      }
      uint64_t reserved = 0;
      // The smallest pages are the normal ones.
      for (unsigned i = 1; i < attributes.page_types_len; ++i) {
        const auto& pages = attributes.page_types[i];
        uint64_t bytes = 0;
        if (__builtin_mul_overflow(pages.size, pages.count, &bytes) ||
            __builtin_add_overflow(reserved, bytes, &reserved) ||
            reserved > attributes.local_memory) {
          return BadLstopo(place + " has more huge pages than memory");
        }
        node.hugepages[pages.size] = pages.count;
      }
      memory_ = memory_ || node.memory_bytes > 0;
      numa_.push_back(std::move(node));
    }
    if (!memory_) return BadLstopo("its NUMA nodes have no memory");
    std::ranges::sort(numa_, {}, &NumaNode::id);
    if (numa_.size() > 1) return Done{};
    // Without NUMA nodes in the kernel, hwloc makes one up, and the kubelet takes each package for
    // one.
    const hwloc_topology_support* const support = hwloc_topology_get_support(topology_);
    const bool is_known = support->misc->imported_support != 0;
    if (is_known && support->discovery->numa != 0) return Done{};
    return BadLstopo(is_known ? "the kernel has no NUMA nodes; the one here is made up by hwloc"
                              : "it does not say whether the kernel has NUMA nodes",
                     kGiveOwnForm);
  }

  Result<Done> ReadDistances() {
    constexpr int kSelf = 10;  // what the kernel says of one node
    if (numa_.size() == 1) {
      numa_.front().distances = {kSelf};
      return Done{};
    }
    unsigned count = 1;
    hwloc_distances_s* distances = nullptr;
    const int found =
        hwloc_distances_get_by_name(topology_, "NUMALatency", &count, &distances, /*flags=*/0);
    if (found != 0 || count < 1) {
      return BadLstopo("it has no distances between the NUMA nodes (NUMALatency)");
    }
    const Result<Done> used = UseDistances(*distances);
    hwloc_distances_release(topology_, distances);
    return used;
  }

  Result<Done> UseDistances(const hwloc_distances_s& distances) {
    std::map<int, std::map<int, uint64_t>> by_id;
    const unsigned count = distances.nbobjs;
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned j = 0; j < count; ++j) {
        const hwloc_obj_t from = distances.objs[i];
        const hwloc_obj_t to = distances.objs[j];
        if (from->type != HWLOC_OBJ_NUMANODE || to->type != HWLOC_OBJ_NUMANODE) continue;
        by_id[IdOf(from).value_or(-1)][IdOf(to).value_or(-1)] = distances.values[i * count + j];
      }
    }
    for (NumaNode& node : numa_) {
      for (const NumaNode& other : numa_) {
        const auto row = by_id.find(node.id);
        const auto value =
            row == by_id.end() ? std::map<int, uint64_t>::iterator() : row->second.find(other.id);
        if (row == by_id.end() || value == row->second.end() ||
            value->second > static_cast<uint64_t>(Machine::kMaxDistance)) {
          return BadLstopo("it has no distance from NUMA node " + std::to_string(node.id) + " to " +
                           std::to_string(other.id));
        }
        node.distances.push_back(static_cast<int>(value->second));
      }
    }
    return Done{};
  }

  Result<Done> ReadCpus() {
    std::vector<hwloc_obj_t> threads = ObjectsOf(topology_, HWLOC_OBJ_PU);
    // As ReadMachine meets them: cpu10 before cpu2.
    std::ranges::sort(threads, {}, [](hwloc_obj_t pu) { return std::to_string(pu->os_index); });
    for (const hwloc_obj_t thread : threads) {
      const std::optional<int> cpu = IdOf(thread);
      if (!cpu) return BadLstopo("a CPU has no number");
      const std::string place = "CPU " + std::to_string(*cpu);
      const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology_, HWLOC_OBJ_CORE, thread);
      const hwloc_obj_t package =
          hwloc_get_ancestor_obj_by_type(topology_, HWLOC_OBJ_PACKAGE, thread);
      if (core == nullptr) return BadLstopo(place + " has no core");
      const std::optional<int> core_id = IdOf(core);
      if (!core_id) return BadLstopo(place + ": its core has no number", kGiveOwnForm);
      if (package == nullptr || !IdOf(package)) return BadLstopo(place + " has no package");
      if (hwloc_bitmap_weight(thread->nodeset) != 1) {
        return BadLstopo(place + " is near the NUMA nodes " + ListOf(thread->nodeset) +
                             ": it does not say in which one the kernel has it",
                         kGiveOwnForm);
      }
      std::vector<LstopoCore>& cores = cores_[hwloc_bitmap_first(thread->nodeset)];
      const std::vector<int> identity = IdentityOf(*core_id, core);
      auto known = std::ranges::find(cores, identity, &LstopoCore::identity);
      if (known == cores.end()) {
        known = cores.insert(cores.end(), {core, identity, *IdOf(package), {}, {}});
      }
      known->threads.push_back({*cpu, thread});
    }
    return Done{};
  }

  // By the rule of ReadMachine, and not by which threads the kernel calls siblings: within a NUMA
  // node, a core has one number in its package, and on s390 in its book and drawer.
  static std::vector<int> IdentityOf(int core_id, hwloc_obj_t core) {
    std::vector<int> identity = {core_id};
    for (hwloc_obj_t object = core->parent; object != nullptr; object = object->parent) {
      const std::string_view kind = object->subtype == nullptr ? "" : object->subtype;
      const bool is_place =
          object->type == HWLOC_OBJ_PACKAGE ||
          (object->type == HWLOC_OBJ_GROUP && (kind == "Book" || kind == "Drawer"));
      if (is_place) identity.push_back(IdOf(object).value_or(-1));
    }
    return identity;
  }

  // By the rule of ReadMachine: the first cache above level 2 that does not serve the whole NUMA
  // node; after a cache without id, the node's other cores have none.
  static void FindUncoreCaches(std::vector<LstopoCore>& cores) {
    for (LstopoCore& core : cores) {
      const size_t threads_of_node = cores.size() * core.threads.size();
      std::optional<int> uncore;
      for (hwloc_obj_t object = core.threads.front().object; object != nullptr;
           object = object->parent) {
        if (!hwloc_obj_type_is_cache(object->type)) continue;
        const std::optional<int> id = IdOf(object);
        if (!id || object->attr->cache.size == 0) return;
        const int sharing = hwloc_bitmap_weight(object->cpuset);
        if (!uncore && object->attr->cache.depth > 2 &&
            static_cast<size_t>(sharing) != threads_of_node) {
          uncore = id;
        }
      }
      core.uncore = uncore;
    }
  }

  hwloc_topology_t topology_;
  std::vector<NumaNode> numa_;
  bool memory_ = false;                           // some NUMA node has memory
  std::map<int, std::vector<LstopoCore>> cores_;  // by id of the NUMA node
};

}  // namespace

Error BadLstopo(const std::string& what, const char* remedy) {
  return {ErrorCode::kInvalidArgument, "lstopo's XML: " + what, remedy};
}

Result<Machine> MachineOfLstopo(const std::string& xml) {
  const Result<Topology> topology = Load(xml);
  if (!topology.ok()) return topology.error();
  return LstopoReader(topology->get()).Read();
}

}  // namespace alignd::cli
