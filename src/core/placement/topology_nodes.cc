#include "alignd/placement/topology_nodes.h"

#include <algorithm>
#include <utility>

#include "core/json/json_view.h"
#include "core/placement/object_config.h"
#include "core/placement/object_cpus.h"
#include "core/placement/object_devices.h"
#include "core/placement/object_fields.h"
#include "core/placement/object_memory.h"
#include "core/placement/object_pods.h"
#include "core/placement/pod_status.h"

namespace alignd::placement {

Result<std::optional<BoundPod>> ReadBoundPod(std::string_view text, const std::string& file) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  Manifests manifests;
  const Result<Done> read = ReadManifest(text, file, manifests, ManifestOrigin::kApiServer);
  if (!read.ok()) return read.error();
  Result<std::vector<PlannedPod>> pods = ExpandPods(manifests, std::nullopt);
  if (!pods.ok()) return pods.error();
  if (pods->empty()) return std::optional<BoundPod>();
  const std::string phase = TextAt(*parsed, "status", "phase");
  BoundPod bound{.pod = std::move(pods->front()),
                 .is_starting = phase == "Pending",
                 .is_ending = !TextAt(*parsed, "metadata", "deletionTimestamp").empty(),
                 .is_restarting = IsRestarting(*parsed),
                 .is_resizing = false,
                 .has_started = phase == "Running"};
  TakeStatus(*parsed, bound.pod);
  bound.is_resizing = bound.pod.is_resizing;
  return std::optional(std::move(bound));
}

Result<FleetNode> NodeOfObjects(const TopologyObject& object, const NodeObject& node,
                                const std::vector<BoundPod>& pods, const std::string& config) {
  const Result<ObjectConfig> decides = ReadObjectConfig(object, config);
  if (!decides.ok()) return decides.error();
  Result<ObjectCpus> cpus = MakeObjectCpus(object, *decides);
  if (!cpus.ok()) return cpus.error();
  Result<ObjectMemory> memory = MakeObjectMemory(object, *decides);
  if (!memory.ok()) return memory.error();
  Result<Machine> machine = Machine::Make(std::move(cpus->all), std::move(memory->numa));
  if (!machine.ok()) return machine.error().In("NodeResourceTopology " + object.name);
  Result<ObjectDevices> devices = MakeObjectDevices(object, node);
  if (!devices.ok()) return devices.error();
  ObjectPods bound = PodsInObject(object, pods, *decides);

  FleetNode made;
  made.name = object.name;
  made.config = WithReservation(*decides, {cpus->reserved, std::move(memory->reserved)});
  made.input.description.machine = *std::move(machine);
  made.input.description.devices = std::move(devices->all);
  made.input.object = node;
  made.input.unlocated_devices = std::move(devices->unlocated);
  made.input.object_view = ObjectView{
      .assigned_cpus = std::move(cpus->assigned),
      .assigned_devices = std::move(devices->assigned),
      .available_memory = std::move(memory->available),
      .memory_groups = std::move(memory->groups),
      .shared_millis = std::move(cpus->shared_millis),
      .unknown = std::move(bound.unknown),
      .unknown_cpus = std::move(cpus->unknown),
      .unknown_shares = std::move(cpus->unknown_shares),
      .unknown_memory = std::move(memory->unknown),
      .summed_devices = std::move(devices->summed),
  };
  made.counted = std::move(bound.counted);
  made.arriving = std::move(bound.arriving);
  return made;
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

}  // namespace alignd::placement
