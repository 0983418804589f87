#include "alignd/placement/topology_nodes.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/pod/resource_name.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/pod/resource_list.h"

namespace alignd::placement {
namespace {

using json::View;
using noderesourcetopology::Amount;
using noderesourcetopology::Zone;

constexpr char kPublish[] =
    "publish the object with alignd, or give the output of alignctl topology -o json, made on that "
    "node";
constexpr char kBothAtOnce[] =
    "give the output of one kubectl get noderesourcetopologies,nodes,pods -A -o json";

Error BadObject(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

Error BadField(const TopologyObject& object, const std::string& what, std::string remedy) {
  return BadObject("NodeResourceTopology " + object.name + ": " + what, std::move(remedy));
}

// "node-0" -> 0. Source: resource-topology-exporter, Node Feature Discovery.
std::optional<int64_t> NumaIdOf(std::string_view zone) {
  constexpr std::string_view kPrefix = "node-";
  if (!zone.starts_with(kPrefix)) return std::nullopt;
  zone.remove_prefix(kPrefix.size());
  int64_t id = 0;
  const auto [end, error] = std::from_chars(zone.data(), zone.data() + zone.size(), id);
  if (error != std::errc{} || end != zone.data() + zone.size() || id > INT32_MAX || id < -1) {
    return std::nullopt;
  }
  return id;
}

// A whole amount of at least 0.
Result<uint64_t> ReadAmount(const View& holder, std::string_view key) {
  const Result<View> member = holder.Require(key);
  if (!member.ok()) return member.error();
  const Result<Quantity> amount = ReadQuantity(*member);
  if (!amount.ok()) return amount.error();
  if (amount->Sign() < 0 || Quantity(amount->Value()) != *amount) {
    return member->IsNot("a whole number of at least 0");
  }
  return static_cast<uint64_t>(amount->Value());
}

Result<Amount> ReadAmounts(const View& holder) {
  const Result<uint64_t> capacity = ReadAmount(holder, "capacity");
  if (!capacity.ok()) return capacity.error();
  const Result<uint64_t> allocatable = ReadAmount(holder, "allocatable");
  if (!allocatable.ok()) return allocatable.error();
  const Result<uint64_t> available = ReadAmount(holder, "available");
  if (!available.ok()) return available.error();
  if (*allocatable > *capacity) {
    return holder.Wrong("allocatable " + std::to_string(*allocatable) + " is more than capacity " +
                        std::to_string(*capacity));
  }
  if (*available > *allocatable) {
    return holder.Wrong("available " + std::to_string(*available) + " is more than allocatable " +
                        std::to_string(*allocatable));
  }
  return Amount{*capacity, *allocatable, *available};
}

Result<std::map<std::string, std::string>> ReadAttributes(const View& holder) {
  std::map<std::string, std::string> attributes;
  Faults faults;
  for (const View& view : ListIn(holder, "attributes", faults)) {
    const std::string name = StringIn(view, "name", faults).value_or("");
    const auto [known, is_new] =
        attributes.emplace(name, StringIn(view, "value", faults).value_or(""));
    if (!is_new) return view.Wrong("a second attribute " + name);
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  return attributes;
}

constexpr uint64_t kMaxCpus = 8192;
constexpr uint64_t kMaxDevicesOfZone = 4096;
constexpr uint64_t kMaxBytes = 1'000'000'000'000'000'000 - 1;

Result<Done> ReadResources(const View& view, Zone& zone) {
  Faults faults;
  for (const View& resource : ListIn(view, "resources", faults)) {
    const std::string name = StringIn(resource, "name", faults).value_or("");
    const Result<Amount> amount = ReadAmounts(resource);
    if (!amount.ok()) return amount.error();
    const uint64_t most = name == "cpu"       ? kMaxCpus
                          : MayBeDevice(name) ? kMaxDevicesOfZone
                                              : kMaxBytes;
    if (amount->capacity > most) {
      return resource.Wrong("capacity " + std::to_string(amount->capacity) + " of " + name +
                            " is more than " + std::to_string(most));
    }
    if (!zone.resources.emplace(name, *amount).second) {
      return resource.Wrong("a second entry of " + name);
    }
  }
  for (const View& cost : ListIn(view, "costs", faults)) {
    const std::string name = StringIn(cost, "name", faults).value_or("");
    const std::optional<int64_t> id = NumaIdOf(name);
    if (!id || *id < 0) return cost.Wrong("name \"" + name + "\" is not node- and a number");
    const Result<View> value = cost.Require("value");
    if (!value.ok()) return value.error();
    const Result<int64_t> distance = value->Integer(0, Machine::kMaxDistance);
    if (!distance.ok()) return distance.error();
    zone.costs.emplace_back(static_cast<int>(*id), static_cast<int>(*distance));
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  std::ranges::sort(zone.costs);
  return Done{};
}

Result<Done> ReadZones(const View& top, TopologyObject& object) {
  Faults faults;
  for (const View& view : ListIn(top, "zones", faults)) {
    const std::string type = StringIn(view, "type", faults).value_or("");
    if (type != "Node") {
      return view.Wrong("type \"" + type + "\" is not Node, a NUMA node");
    }
    const std::string name = StringIn(view, "name", faults).value_or("");
    const std::optional<int64_t> id = NumaIdOf(name);
    if (!id || *id < 0) return view.Wrong("name \"" + name + "\" is not node- and a number");
    Zone zone;
    zone.numa_id = static_cast<int>(*id);
    const Result<Done> read = ReadResources(view, zone);
    if (!read.ok()) return read;
    Result<std::map<std::string, std::string>> attributes = ReadAttributes(view);
    if (!attributes.ok()) return attributes.error();
    if (!object.of_zone.emplace(zone.numa_id, *std::move(attributes)).second) {
      return view.Wrong("a second zone " + name);
    }
    object.zones.push_back(std::move(zone));
  }
  if (!faults.empty()) return BadObject(faults.texts().front(), kPublish);
  if (object.zones.empty()) return View(top.value(), "zones").Wrong("there is none");
  std::ranges::sort(object.zones, {}, &Zone::numa_id);
  return Done{};
}

const std::string* AttributeOf(const std::map<std::string, std::string>& attributes,
                               const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? nullptr : &found->second;
}

// Only a fingerprint of all pods says which pods are in the amounts.
// Source: podfingerprint; resource-topology-exporter pkg/podreadiness; the method is missing in
// objects of older exporters, which fingerprint all pods.
std::string FingerprintOf(const View& top, const TopologyObject& object) {
  const std::string* const method =
      AttributeOf(object.attributes, noderesourcetopology::kFingerprintMethodAttribute);
  if (method != nullptr && *method != "all") return {};
  if (const std::string* const text =
          AttributeOf(object.attributes, noderesourcetopology::kFingerprintAttribute)) {
    return *text;
  }
  Faults ignored;
  const auto metadata = ObjectIn(top, "metadata", ignored);
  const auto annotations = metadata ? ObjectIn(*metadata, "annotations", ignored) : std::nullopt;
  if (!annotations) return {};
  return StringIn(*annotations, noderesourcetopology::kFingerprintAnnotation, ignored).value_or("");
}

// The text of an attribute that has JSON.
Result<nlohmann::json> JsonAttribute(const TopologyObject& object, const char* name) {
  const std::string* const text = AttributeOf(object.attributes, name);
  if (text == nullptr) return nlohmann::json();
  Result<nlohmann::json> parsed = json::Parse(*text);
  if (parsed.ok()) return parsed;
  return BadField(object, "attribute " + std::string(name) + ": " + parsed.error().message,
                  "let alignd write the object");
}

// Makes the node from one object. Used once.
class NodeMaker {
 public:
  NodeMaker(const TopologyObject& object, const NodeObject& node, const std::string& config)
      : object_(object), node_(node), config_text_(config) {
    fleet_node_.name = object.name;
  }

  Result<FleetNode> Make(const std::vector<BoundPod>& pods) {
    Result<Done> made = ReadConfig();
    if (made.ok()) made = MakeCpus();
    if (made.ok()) made = MakeMemory();
    if (made.ok()) made = MakeMachine();
    if (made.ok()) made = MakeDevices();
    if (!made.ok()) return made.error();
    fleet_node_.config = config_.dump();
    fleet_node_.input.object = node_;
    fleet_node_.input.object_view = std::move(view_);
    AddPods(pods);
    return std::move(fleet_node_);
  }

 private:
  // An amount of the zone; zeros: the zone does not have it.
  static Amount AmountIn(const Zone& zone, const std::string& resource) {
    const auto found = zone.resources.find(resource);
    return found == zone.resources.end() ? Amount{} : found->second;
  }

  std::optional<std::string> Attribute(const char* name) const {
    const std::string* const text = AttributeOf(object_.attributes, name);
    return text == nullptr ? std::nullopt : std::optional(*text);
  }

  std::string ConfigText(const char* field, const char* standard) const {
    const auto found = config_.find(field);
    return found != config_.end() && found->is_string() ? found->get<std::string>() : standard;
  }

  // Both can be wrong: the object of the kubelet behind alignd says none.
  Result<Done> CheckAgainstConfig(const char* attribute, const char* field, const char* standard) {
    const std::optional<std::string> value = Attribute(attribute);
    const std::string configured = ConfigText(field, standard);
    if (!value || *value == configured) return Done{};
    return BadField(object_,
                    "attribute " + std::string(attribute) + " is \"" + *value +
                        "\", and the KubeletConfiguration has " + field + " \"" + configured + "\"",
                    "give the KubeletConfiguration of that node; on a node with alignd, let "
                    "alignd-events --topology write the object");
  }

  Result<Done> ReadConfig() {
    const Result<nlohmann::json> options =
        JsonAttribute(object_, noderesourcetopology::kPolicyOptionsAttribute);
    if (!options.ok()) return options.error();
    if (!options->is_null() && !options->is_object()) {
      return BadField(object_, "attribute alignd.io/policyOptions: it is no JSON object",
                      "let alignd write the object");
    }
    if (options->is_object()) {
      ReadAligndConfig(*options);
    } else {
      const Result<Done> read = ReadGivenConfig();
      if (!read.ok()) return read;
    }
    // What is reserved follows from the amounts.
    for (const char* field : {"reservedSystemCPUs", "kubeReserved", "systemReserved",
                              "evictionHard", "reservedMemory", "maxPods", "podsPerCore"}) {
      config_.erase(field);
    }
    config_["evictionHard"] = nlohmann::json::object();
    const Result<KubeletConfig> parsed = ParseKubeletConfig(config_.dump());
    if (!parsed.ok()) return parsed.error().In("NodeResourceTopology " + object_.name);
    has_cpus_ = parsed->cpu_manager_policy == CpuManagerPolicy::kStatic;
    has_memory_ = parsed->memory_manager_policy == MemoryManagerPolicy::kStatic;
    full_cores_ = IsOn(parsed->cpu_manager_policy_options, "full-pcpus-only");
    if (has_cpus_ && IsOn(parsed->cpu_manager_policy_options, "align-by-socket") &&
        object_.zones.size() > 1) {
      view_.unknown_cpus =
          "cpu: cpuManagerPolicyOptions has align-by-socket, and the object does not say which "
          "NUMA nodes share a socket; give the output of alignctl topology -o json, made on that "
          "node";
    }
    return Done{};
  }

  // What ParsePolicyOptions does not read as a boolean, it refuses later.
  static bool IsOn(const std::map<std::string, std::string>& options, const char* name) {
    const auto found = options.find(name);
    return found != options.end() && ParseGoBool(found->second).value_or(true);
  }

  void ReadAligndConfig(const nlohmann::json& options) {
    const auto set = [&](const char* field, const char* attribute) {
      if (const auto value = Attribute(attribute)) config_[field] = *value;
    };
    set("topologyManagerPolicy", noderesourcetopology::kPolicyAttribute);
    set("topologyManagerScope", noderesourcetopology::kScopeAttribute);
    set("cpuManagerPolicy", noderesourcetopology::kCpuPolicyAttribute);
    set("memoryManagerPolicy", noderesourcetopology::kMemoryPolicyAttribute);
    for (const auto& [field, value] : options.items()) {
      if (field == "compatibility") {
        view_.unknown = "the node decides with compatibility " + value.dump() +
                        ", which is not planned with here; give its answers with alignctl simulate "
                        "on that node";
      } else {
        config_[field] = value;
      }
    }
  }

  Result<Done> ReadGivenConfig() {
    if (config_text_.empty()) {
      return BadField(object_,
                      "it has no attribute alignd.io/policyOptions, and there is no "
                      "KubeletConfiguration of the node",
                      "publish the object with alignd, or give the KubeletConfiguration with "
                      "--config");
    }
    Result<nlohmann::json> config = json::Parse(config_text_);
    if (!config.ok()) return config.error();
    if (!config->is_object()) return BadObject("the KubeletConfiguration is no object", "give one");
    config_ = *std::move(config);
    Result<Done> same =
        CheckAgainstConfig(noderesourcetopology::kPolicyAttribute, "topologyManagerPolicy", "none");
    if (same.ok()) {
      same = CheckAgainstConfig(noderesourcetopology::kScopeAttribute, "topologyManagerScope",
                                "container");
    }
    if (same.ok()) {
      same =
          CheckAgainstConfig(noderesourcetopology::kCpuPolicyAttribute, "cpuManagerPolicy", "none");
    }
    if (same.ok()) {
      same = CheckAgainstConfig(noderesourcetopology::kMemoryPolicyAttribute, "memoryManagerPolicy",
                                "None");
    }
    return same;
  }

  // CPUs of cores that are wholly free, by zone; nullopt: the object does not say it, or says
  // something that cannot be.
  std::optional<std::map<int, uint64_t>> FreeCoreCpus() {
    const auto number = [](const std::string* text) -> std::optional<uint64_t> {
      if (text == nullptr) return std::nullopt;
      const Result<Quantity> amount = Quantity::Parse(*text);
      if (!amount.ok() || amount->Sign() < 0 || *amount > Quantity(kMaxCpus)) return std::nullopt;
      return static_cast<uint64_t>(amount->Value());
    };
    const auto width =
        number(AttributeOf(object_.attributes, noderesourcetopology::kCpusPerCoreAttribute));
    if (!width || *width == 0) return std::nullopt;
    std::map<int, uint64_t> free;
    for (const Zone& zone : object_.zones) {
      const Amount cpus = AmountIn(zone, "cpu");
      const auto of_zone = number(AttributeOf(object_.of_zone.at(zone.numa_id),
                                              noderesourcetopology::kFreeCoreCpusAttribute));
      if (!of_zone || *of_zone > cpus.available || *of_zone % *width != 0 ||
          cpus.capacity % *width != 0) {
        return std::nullopt;
      }
      // All other available CPUs share a core with a reserved one.
      const uint64_t reserved = cpus.capacity - cpus.allocatable;
      if (cpus.available - *of_zone > reserved * (*width - 1)) return std::nullopt;
      free[zone.numa_id] = *of_zone;
    }
    cpus_per_core_ = *width;
    return free;
  }

  Result<Done> MakeCpus() {
    uint64_t all = 0;
    std::optional<std::map<int, uint64_t>> free_cores;
    if (has_cpus_ && full_cores_) {
      free_cores = FreeCoreCpus();
      if (!free_cores) {
        view_.unknown_cpus =
            std::string(
                "cpu: cpuManagerPolicyOptions has full-pcpus-only, and the object does not "
                "say how many CPUs are in free cores (alignd.io/freeCoreCpus); ") +
            kPublish;
      }
    }
    for (size_t position = 0; position < object_.zones.size(); ++position) {
      const Zone& zone = object_.zones[position];
      if (!zone.resources.contains("cpu")) {
        return BadField(object_,
                        "zone " + noderesourcetopology::ZoneName(zone.numa_id) + " has no cpu",
                        kPublish);
      }
      const Amount cpus = AmountIn(zone, "cpu");
      all += cpus.capacity;
      if (all > kMaxCpus) {
        return BadField(object_, "the zones have more than " + std::to_string(kMaxCpus) + " CPUs",
                        kPublish);
      }
      AddCpus(zone.numa_id, position, cpus,
              free_cores ? std::optional((*free_cores)[zone.numa_id]) : std::nullopt);
    }
    if (all == 0) return BadField(object_, "the zones have no CPU", kPublish);
    if (!has_cpus_) {
      reserved_ = {};
      view_.assigned_cpus = {};
    } else if (reserved_.empty()) {
      return BadField(object_,
                      "cpu: allocatable is capacity on every zone, and cpuManagerPolicy static "
                      "always reserves CPUs",
                      "correct cpuManagerPolicy in the KubeletConfiguration, or publish the object "
                      "with alignd");
    } else {
      config_["reservedSystemCPUs"] = reserved_.ToString();
    }
    return Done{};
  }

  // The CPUs of one zone, so that each kind has its number. With free cores, in cores of
  // cpus_per_core_: the free ones first; then each available CPU beside a reserved one.
  void AddCpus(int numa_id, size_t position, const Amount& cpus, std::optional<uint64_t> in_free) {
    enum class Use { kFree, kReserved, kAssigned };
    uint64_t reserved = cpus.capacity - cpus.allocatable;
    uint64_t assigned = cpus.allocatable - cpus.available;
    uint64_t beside = in_free ? cpus.available - *in_free : 0;
    uint64_t in_core = 0;
    int core = 0;
    const auto add = [&](Use use) {
      const int cpu = static_cast<int>(rows_.size());
      if (in_core == 0) core = cpu;
      in_core = (in_core + 1) % cpus_per_core_;
      rows_.push_back({cpu, core, static_cast<int>(position), numa_id, static_cast<int>(position)});
      if (use == Use::kReserved) reserved_.Add(cpu);
      if (use == Use::kAssigned) view_.assigned_cpus.Add(cpu);
    };
    for (uint64_t i = in_free.value_or(cpus.available); i > 0; --i) add(Use::kFree);
    while (beside > 0) {
      add(Use::kReserved);
      --reserved;
      for (uint64_t i = 1; i < cpus_per_core_ && beside > 0; ++i, --beside) add(Use::kFree);
    }
    for (; reserved > 0; --reserved) add(Use::kReserved);
    for (; assigned > 0; --assigned) add(Use::kAssigned);
  }

  Result<Done> MakeMemory() {
    ResourceList reserved;
    bool is_used = false;
    for (const Zone& zone : object_.zones) {
      NumaNode numa;
      numa.id = zone.numa_id;
      uint64_t in_pages = 0;
      for (const auto& [name, amount] : zone.resources) {
        if (!name.starts_with("hugepages-")) continue;
        const Result<Quantity> size = Quantity::Parse(name.substr(sizeof("hugepages-") - 1));
        const auto page =
            static_cast<uint64_t>(size.ok() ? std::max<int64_t>(size->Value(), 0) : 0);
        if (page == 0 || amount.capacity % page != 0) {
          return BadField(object_,
                          "zone " + noderesourcetopology::ZoneName(zone.numa_id) + ": " + name +
                              ": capacity " + std::to_string(amount.capacity) +
                              " is not a number of such pages",
                          kPublish);
        }
        numa.hugepages[page] = amount.capacity / page;
        in_pages += amount.capacity;
        is_used = is_used || amount.available < amount.allocatable;
      }
      const Amount memory = AmountIn(zone, "memory");
      is_used = is_used || memory.available < memory.allocatable;
      numa.memory_bytes = memory.capacity;
      if (in_pages > memory.capacity ||
          (has_memory_ && memory.allocatable > memory.capacity - in_pages)) {
        return BadField(object_,
                        "zone " + noderesourcetopology::ZoneName(zone.numa_id) +
                            ": memory: capacity " + std::to_string(memory.capacity) +
                            " is less than allocatable memory and huge pages",
                        kPublish);
      }
      for (const auto& [id, distance] : zone.costs) {
        if (std::ranges::find(object_.zones, id, &Zone::numa_id) == object_.zones.end()) {
          return BadField(object_,
                          "zone " + noderesourcetopology::ZoneName(zone.numa_id) + ": costs has " +
                              noderesourcetopology::ZoneName(id) + ", which is no zone",
                          kPublish);
        }
        numa.distances.push_back(distance);
      }
      if (!numa.distances.empty() && numa.distances.size() != object_.zones.size()) {
        return BadField(object_,
                        "zone " + noderesourcetopology::ZoneName(zone.numa_id) +
                            ": costs does not have each zone once",
                        kPublish);
      }
      if (has_memory_) ReserveMemory(zone, memory.capacity - in_pages, reserved);
      numa_.push_back(std::move(numa));
    }
    if (!has_memory_) return Done{};
    for (const auto& [type, amount] : reserved) {
      config_["kubeReserved"][type] = amount.ToString();
    }
    return ReadGroups(is_used);
  }

  // What is missing between capacity and allocatable, as reservedMemory.
  void ReserveMemory(const Zone& zone, uint64_t memory, ResourceList& reserved) {
    nlohmann::json limits = nlohmann::json::object();
    for (const auto& [type, amount] : zone.resources) {
      if (type != "memory" && !type.starts_with("hugepages-")) continue;
      view_.available_memory[zone.numa_id][type] = amount.available;
      const uint64_t bytes = (type == "memory" ? memory : amount.capacity) - amount.allocatable;
      if (bytes == 0) continue;
      const Quantity quantity(static_cast<int64_t>(bytes));
      limits[type] = quantity.ToString();
      reserved[type] += quantity;
    }
    if (limits.empty()) return;
    config_["reservedMemory"].push_back({{"numaNode", zone.numa_id}, {"limits", limits}});
  }

  Result<Done> ReadGroups(bool is_used) {
    const Result<nlohmann::json> groups =
        JsonAttribute(object_, noderesourcetopology::kMemoryGroupsAttribute);
    if (!groups.ok()) return groups.error();
    if (groups->is_null()) {
      // Without assigned memory there is no group.
      if (is_used) {
        view_.unknown_memory =
            std::string(
                "memory: memory is assigned, and the object does not say which NUMA nodes "
                "are in one memory group (alignd.io/memoryGroups); ") +
            kPublish;
      }
      return Done{};
    }
    Faults faults;
    const nlohmann::json holder = {{"groups", *groups}};
    for (const View& group : ListIn(View(holder, ""), "groups", faults)) {
      std::vector<int> ids;
      const Result<View> names = group.Require("memoryNodes");
      const auto elements =
          names.ok() ? names->Elements() : Result<std::vector<View>>(names.error());
      if (!elements.ok()) return BadGroups(elements.error().message);
      for (const View& name : *elements) {
        const Result<std::string> text = name.String();
        const std::optional<int64_t> id = text.ok() ? NumaIdOf(*text) : std::nullopt;
        if (!id || std::ranges::find(object_.zones, *id, &Zone::numa_id) == object_.zones.end()) {
          return BadGroups(name.path() + " is no zone");
        }
        ids.push_back(static_cast<int>(*id));
      }
      std::ranges::sort(ids);
      for (const int id : ids) {
        if (!view_.memory_groups.emplace(id, ids).second) {
          return BadGroups(noderesourcetopology::ZoneName(id) + " is in two groups");
        }
      }
    }
    if (!faults.empty()) return BadGroups(faults.texts().front());
    return Done{};
  }

  Error BadGroups(const std::string& what) const {
    return BadField(object_, "attribute alignd.io/memoryGroups: " + what,
                    "let alignd write the object");
  }

  Result<Done> MakeMachine() {
    Result<Machine> machine = Machine::Make(rows_, numa_);
    if (!machine.ok()) return machine.error().In("NodeResourceTopology " + object_.name);
    fleet_node_.input.description.machine = *std::move(machine);
    return Done{};
  }

  void AddDevices(const std::string& resource, const std::vector<int64_t>& numa,
                  const Amount& amount) {
    scenario::DeviceList& devices = fleet_node_.input.description.devices[resource];
    for (uint64_t i = 0; i < amount.capacity; ++i) {
      std::string id = "device-" + std::to_string(devices.size());
      if (i >= amount.available && i < amount.allocatable) {
        view_.assigned_devices[resource].insert(id);
      }
      devices.emplace_back(std::move(id),
                           devicemanager::Device{.healthy = i < amount.allocatable, .numa = numa});
    }
  }

  // Errors: the groups are more than the sums of the zones.
  Result<Done> MakeDevices() {
    std::vector<Zone> zones = object_.zones;
    const Result<nlohmann::json> groups =
        JsonAttribute(object_, noderesourcetopology::kDeviceGroupsAttribute);
    if (!groups.ok()) return groups.error();
    Faults faults;
    const nlohmann::json holder = {{"groups", *groups}};
    for (const View& group : ListIn(View(holder, ""), "groups", faults)) {
      const Result<Done> added = AddGroup(group, zones);
      if (!added.ok()) {
        return BadField(object_, "attribute alignd.io/deviceGroups: " + added.error().message,
                        "let alignd write the object");
      }
    }
    if (!faults.empty()) {
      return BadField(object_, "attribute alignd.io/deviceGroups: " + faults.texts().front(),
                      "let alignd write the object");
    }
    std::set<std::string> in_zones;
    for (const Zone& zone : zones) {
      for (const auto& [resource, amount] : zone.resources) {
        if (!MayBeDevice(resource)) continue;
        in_zones.insert(resource);
        AddDevices(resource, {zone.numa_id}, amount);
      }
    }
    if (!groups->is_null()) return Done{};
    for (const std::string& resource : in_zones) CheckSum(resource);
    return Done{};
  }

  Result<Done> AddGroup(const View& group, std::vector<Zone>& zones) {
    Faults faults;
    const std::string resource = StringIn(group, "resource", faults).value_or("");
    const Result<Amount> amount = ReadAmounts(group);
    if (!amount.ok()) return amount.error();
    if (!MayBeDevice(resource) || amount->capacity > kMaxDevicesOfZone) {
      return group.Wrong("\"" + resource + "\" is no device resource of at most " +
                         std::to_string(kMaxDevicesOfZone) + " devices");
    }
    std::vector<int64_t> ids;
    const Result<View> names = group.Require("zones");
    if (!names.ok()) return names.error();
    const Result<std::vector<View>> elements = names->Elements();
    if (!elements.ok()) return elements.error();
    for (const View& name : *elements) {
      const Result<std::string> text = name.String();
      const std::optional<int64_t> id = text.ok() ? NumaIdOf(*text) : std::nullopt;
      if (!id) return name.IsNot("the name of a zone");
      ids.push_back(*id);
      const auto zone = std::ranges::find(zones, *id, &Zone::numa_id);
      if (zone == zones.end()) continue;  // a NUMA node that the machine does not have
      Amount& sum = zone->resources[resource];
      if (sum.capacity < amount->capacity || sum.allocatable < amount->allocatable ||
          sum.available < amount->available) {
        return group.Wrong("it has more than zone " + *text);
      }
      sum.capacity -= amount->capacity;
      sum.allocatable -= amount->allocatable;
      sum.available -= amount->available;
      // What is left are devices of their own.
      if (sum.available > sum.allocatable || sum.allocatable > sum.capacity) {
        return group.Wrong("it does not fit the amounts of zone " + *text);
      }
    }
    AddDevices(resource, ids, *amount);
    return Done{};
  }

  // Objects of other exporters have sums only.
  void CheckSum(const std::string& resource) {
    auto& devices = fleet_node_.input.description.devices;
    const auto healthy = std::ranges::count_if(
        devices[resource], [](const auto& device) { return device.second.healthy; });
    view_.summed_devices.insert(resource);
    const Quantity* const allocatable = Find(node_.allocatable, resource);
    const Quantity on_node = allocatable == nullptr ? Quantity() : *allocatable;
    if (on_node == Quantity(healthy)) return;
    fleet_node_.input.unlocated_devices[resource] =
        "the zones have " + std::to_string(healthy) + " of them allocatable, and Node " +
        node_.name + " has " + on_node.ToString() +
        ": some are on several NUMA nodes or on none; " + kPublish;
    devices.erase(resource);
    view_.assigned_devices.erase(resource);
  }

  // Which pods are in the amounts is what the fingerprint says.
  void AddPods(const std::vector<BoundPod>& pods) {
    for (const BoundPod& bound : pods) {
      if (!bound.pod.faults.empty() || bound.pod.has_unknown_overhead) {
        Unknown(
            "pod " + NameOf(bound) + " of the node cannot be read: " +
            (bound.pod.faults.empty() ? bound.pod.undecided.front() : bound.pod.faults.front()));
      }
    }
    std::string& unknown = fleet_node_.input.object_view->unknown;
    if (object_.fingerprint.empty()) {
      if (IsUnused()) {
        // The object was made before the first pod.
        for (const BoundPod& bound : pods) fleet_node_.arriving.push_back(bound.pod);
        return;
      }
      Unknown(std::string("the object has no fingerprint of all pods, so that it is not known "
                          "which pods it counts; ") +
              kPublish);
    } else if (!Matches(pods)) {
      Unknown(std::string("the fingerprint of the object is not that of the pods that are bound to "
                          "the node: pods are on their way, or missing here; repeat with the "
                          "newest objects: ") +
              kBothAtOnce);
    }
    if (!unknown.empty()) {
      fleet_node_.counted.clear();
      fleet_node_.arriving.clear();
      for (const BoundPod& bound : pods) {
        // Its requests are not known.
        if (bound.pod.faults.empty()) fleet_node_.counted.push_back(bound.pod);
      }
    }
  }

  static std::string NameOf(const BoundPod& bound) {
    return bound.pod.pod.name_space + "/" + bound.pod.pod.name;
  }

  void Unknown(std::string why) {
    std::string& unknown = fleet_node_.input.object_view->unknown;
    if (unknown.empty()) unknown = std::move(why);
  }

  bool IsUnused() const {
    return std::ranges::all_of(object_.zones, [](const Zone& zone) {
      return std::ranges::all_of(zone.resources, [](const auto& entry) {
        return entry.second.available == entry.second.allocatable;
      });
    });
  }

  // A pod is in the object with its first container, and leaves it with its last one. So pods that
  // start or end can be in it or not.
  bool Matches(const std::vector<BoundPod>& pods) {
    for (const bool with_starting : {true, false}) {
      for (const bool with_ending : {true, false}) {
        std::vector<noderesourcetopology::PodName> names;
        const auto is_in = [&](const BoundPod& bound) {
          return (with_starting || !bound.is_starting) && (with_ending || !bound.is_ending);
        };
        for (const BoundPod& bound : pods) {
          if (is_in(bound)) names.emplace_back(bound.pod.pod.name_space, bound.pod.pod.name);
        }
        if (noderesourcetopology::PodFingerprint(names) != object_.fingerprint) continue;
        for (const BoundPod& bound : pods) {
          if (is_in(bound)) {
            fleet_node_.counted.push_back(bound.pod);
            // Its later containers may not be in the amounts.
            if (bound.is_starting && bound.pod.pod.containers.size() > 1) {
              Unknown("pod " + NameOf(bound) +
                      " is starting: the object may not have what its later containers are "
                      "assigned; repeat when it runs");
            }
          } else if (bound.is_starting && !bound.is_ending) {
            fleet_node_.arriving.push_back(bound.pod);
          } else {
            fleet_node_.counted.push_back(bound.pod);
          }
        }
        return true;
      }
    }
    return false;
  }

  const TopologyObject& object_;
  const NodeObject& node_;
  const std::string& config_text_;
  FleetNode fleet_node_;
  ObjectView view_;
  nlohmann::json config_ = nlohmann::json::object();
  bool has_cpus_ = false;
  bool has_memory_ = false;
  bool full_cores_ = false;
  uint64_t cpus_per_core_ = 1;
  CpuSet reserved_;
  std::vector<Cpu> rows_;
  std::vector<NumaNode> numa_;
};

std::string TextAt(const nlohmann::json& object, const char* member) {
  const auto text = object.find(member);
  return text != object.end() && text->is_string() ? text->get<std::string>() : std::string();
}

// Empty if it is no text: the reader of the object reports the fault.
std::string TextAt(const nlohmann::json& object, const char* first, const char* second) {
  const auto inner = object.find(first);
  if (inner == object.end() || !inner->is_object()) return {};
  return TextAt(*inner, second);
}

}  // namespace

Result<TopologyObject> ReadTopologyObject(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  TopologyObject object;
  object.name = TextAt(*parsed, "metadata", "name");
  const Result<Done> named = CheckNodeName(object.name);
  if (!named.ok()) return named.error().In("NodeResourceTopology: metadata");
  Faults faults;
  const std::string version = StringIn(top, "apiVersion", faults).value_or("");
  if (version != noderesourcetopology::kApiVersion) {
    return BadField(object, "apiVersion: \"" + version + "\" is not read",
                    std::string("give it as ") + noderesourcetopology::kApiVersion);
  }
  Result<std::map<std::string, std::string>> attributes = ReadAttributes(top);
  Result<Done> read = Done{};
  if (attributes.ok()) {
    object.attributes = *std::move(attributes);
    read = ReadZones(top, object);
  } else {
    read = attributes.error();
  }
  if (!read.ok()) {
    return BadField(object, read.error().message,
                    read.error().remedy.empty() ? kPublish : read.error().remedy);
  }
  object.fingerprint = FingerprintOf(top, object);
  return object;
}

Result<FleetNode> NodeOfObjects(const TopologyObject& object, const NodeObject& node,
                                const std::vector<BoundPod>& pods, const std::string& config) {
  return NodeMaker(object, node, config).Make(pods);
}

Result<FleetNode> NodeWithoutTopology(const NodeObject& node, const std::vector<BoundPod>& pods) {
  FleetNode made;
  made.name = node.name;
  const Quantity* const cpus = Find(node.capacity, "cpu");
  const int64_t count = cpus == nullptr ? 1 : std::clamp<int64_t>(cpus->Value(), 1, kMaxCpus);
  std::vector<Cpu> rows;
  for (int cpu = 0; cpu < count; ++cpu) rows.push_back({cpu, cpu, 0, 0, 0});
  Result<Machine> machine = Machine::Make(std::move(rows), {NumaNode{}});
  if (!machine.ok()) return machine.error().In("Node " + node.name);
  made.input.description.machine = *std::move(machine);
  made.input.object = node;
  made.config = R"({"evictionHard":{}})";
  ObjectView& view = made.input.object_view.emplace();
  view.unknown = std::string("the node has no NodeResourceTopology object; ") + kPublish;
  for (const BoundPod& bound : pods) {
    if (bound.pod.faults.empty()) made.counted.push_back(bound.pod);
  }
  return made;
}

Result<bool> ClusterObjects::Add(std::string_view text, const std::string& file,
                                 const std::string& node_of_pods) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  if (!parsed->is_object()) return false;
  const std::string kind = TextAt(*parsed, "kind");
  if (kind == "List" || kind == "NodeList" || kind == "PodList" ||
      kind == "NodeResourceTopologyList") {
    Faults faults;
    size_t position = 0;
    for (const View& item : ListIn(View(*parsed, ""), "items", faults)) {
      nlohmann::json object = item.value();
      if (kind != "List") {
        object.emplace("kind", kind.substr(0, kind.size() - 4));
        object.emplace("apiVersion", TextAt(*parsed, "apiVersion"));
      }
      const std::string place = "items[" + std::to_string(position++) + "]";
      const Result<bool> added = Add(object.dump(), file, node_of_pods);
      if (!added.ok()) return added.error().In(place);
      if (!*added) {
        return BadObject(place + ": kind \"" + TextAt(object, "kind") +
                             "\" is not Node, NodeResourceTopology or Pod",
                         kBothAtOnce);
      }
    }
    if (!faults.empty()) return BadObject(faults.texts().front(), kBothAtOnce);
    return true;
  }
  if (kind == "Node") {
    Result<NodeObject> node = ReadNodeObject(text);
    if (!node.ok()) return node.error().In("Node " + TextAt(*parsed, "metadata", "name"));
    const Result<Done> named = CheckNodeName(node->name);
    if (!named.ok()) return named.error().In("Node: metadata");
    const std::string name = node->name;
    if (!nodes_.emplace(name, *std::move(node)).second) {
      return BadObject("two Node objects are named " + name, "give each once");
    }
    return true;
  }
  if (kind == noderesourcetopology::kKind) {
    Result<TopologyObject> object = ReadTopologyObject(text);
    if (!object.ok()) return object.error();
    const std::string name = object->name;
    if (!topologies_.emplace(name, *std::move(object)).second) {
      return BadObject("two NodeResourceTopology objects are named " + name, "give each once");
    }
    return true;
  }
  if (kind != "Pod") return false;
  std::string node = TextAt(*parsed, "spec", "nodeName");
  if (node.empty()) node = node_of_pods;
  if (node.empty() && !TextAt(*parsed, "metadata", "uid").empty()) return true;  // it is pending
  if (node.empty()) {
    return BadObject("Pod " + TextAt(*parsed, "metadata", "name") + ": spec.nodeName is missing",
                     "put pods that run into the directory of their node, or give them as the API "
                     "server has them");
  }
  Manifests manifests;
  const Result<Done> read = ReadManifest(text, file, manifests);
  if (!read.ok()) return read.error();
  Result<std::vector<PlannedPod>> pods = ExpandPods(manifests, std::nullopt);
  if (!pods.ok()) return pods.error();
  for (PlannedPod& pod : *pods) {  // none if it has ended
    const std::string name = pod.pod.name_space + "/" + pod.pod.name;
    if (!pod_names_.insert(name).second) {
      return BadObject("two pods are named " + name, "give each once");
    }
    const std::string phase = TextAt(*parsed, "status", "phase");
    pods_[node].push_back({.pod = std::move(pod),
                           .is_starting = phase == "Pending",
                           .is_ending = !TextAt(*parsed, "metadata", "deletionTimestamp").empty()});
  }
  return true;
}

Result<std::vector<FleetNode>> ClusterObjects::Nodes(const std::string& config,
                                                     const std::set<std::string>& others) const {
  std::vector<FleetNode> made;
  for (const auto& [name, object] : topologies_) {
    if (nodes_.contains(name)) continue;
    return BadObject("NodeResourceTopology " + name + ": there is no Node " + name, kBothAtOnce);
  }
  const auto lonely = std::ranges::find_if(
      pods_, [&](const auto& one) { return others.contains(one.first) || nodes_.empty(); });
  if (lonely != pods_.end()) {
    return BadObject("there are pods of node " + lonely->first + ", and no Node of that name",
                     "put the pods into the directory of the node, or give the Node and its "
                     "NodeResourceTopology");
  }
  for (const auto& [name, node] : nodes_) {
    const auto of_node = pods_.find(name);
    const std::vector<BoundPod> none;
    const std::vector<BoundPod>& pods = of_node == pods_.end() ? none : of_node->second;
    const auto object = topologies_.find(name);
    Result<FleetNode> one = object == topologies_.end()
                                ? NodeWithoutTopology(node, pods)
                                : NodeOfObjects(object->second, node, pods, config);
    if (!one.ok()) return one.error();
    made.push_back(*std::move(one));
  }
  return made;
}

}  // namespace alignd::placement
