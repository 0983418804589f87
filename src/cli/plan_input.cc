#include "cli/plan_input.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/placement/cluster_objects.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/scheduler.h"
#include "cli/cluster_input.h"
#include "cli/documents.h"
#include "cli/fleet_input.h"
#include "cli/policy_options.h"
#include "host/file.h"
#include "host/sysfs_machine.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kStandardInput[] = "-";

Error BadPlan(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

// The file itself, or the manifests in the directory.
struct NamedFiles {
  std::vector<std::string> files;
  FileOrigin origin = FileOrigin::kNamed;
};

Result<NamedFiles> FilesOf(const std::string& path) {
  std::error_code ignored;
  if (path == kStandardInput || !fs::is_directory(path, ignored)) return NamedFiles{{path}};
  const Result<std::vector<std::string>> names = host::ListDirectory(path);
  if (!names.ok()) return names.error();
  std::vector<std::string> files;
  for (const std::string& name : *names) {
    const std::string extension = fs::path(name).extension();
    if (extension == ".yaml" || extension == ".yml" || extension == ".json") {
      files.push_back((fs::path(path) / name).string());
    }
  }
  if (files.empty()) {
    return BadPlan(path + ": the directory has no file *.yaml, *.yml or *.json",
                   "name the directory of the manifests; directories in it are not read");
  }
  return NamedFiles{std::move(files), FileOrigin::kInDirectory};
}

// A document of a file of `--node`.
struct NodeDocument {
  std::string file;
  std::string json;
};

Result<std::vector<NodeDocument>> ReadNodeDocuments(const std::vector<std::string>& files) {
  std::vector<NodeDocument> all;
  for (const std::string& file : files) {
    Result<std::vector<std::string>> documents = ReadDocuments(file);
    if (!documents.ok()) return documents.error();
    if (documents->empty()) return EmptyFile(file);
    for (std::string& json : *documents) all.push_back({file, std::move(json)});
  }
  return all;
}

// The objects of a cluster; nullopt: the documents are a description and its Node object.
Result<std::optional<placement::ClusterObjects>> ObjectsIn(
    const std::vector<NodeDocument>& documents) {
  placement::ClusterObjects objects;
  bool has_objects = false;
  const NodeDocument* description = nullptr;
  for (const NodeDocument& document : documents) {
    if (placement::IsNodeObject(document.json)) continue;
    const Result<bool> added = objects.Add(document.json, document.file);
    if (!added.ok()) return host::ContentError(added.error(), document.file);
    if (!*added) description = &document;
    has_objects = has_objects || *added;
  }
  if (!has_objects) return std::optional<placement::ClusterObjects>();
  if (description != nullptr) {
    return BadPlan(description->file + ": a description beside objects of a cluster",
                   "give the description with its Node object and --running, or the objects alone");
  }
  for (const NodeDocument& document : documents) {
    if (!placement::IsNodeObject(document.json)) continue;
    const Result<bool> added = objects.Add(document.json, document.file);
    if (!added.ok()) return host::ContentError(added.error(), document.file);
  }
  return std::optional(std::move(objects));
}

Result<placement::NodeInput> NodeOfDocuments(const std::vector<NodeDocument>& documents) {
  std::optional<placement::NodeInput> machine;
  std::optional<placement::NodeObject> object;
  for (const auto& [file, json] : documents) {
    if (placement::IsNodeObject(json)) {
      if (object) return BadPlan(file + ": a second Node object", "give one node");
      Result<placement::NodeObject> read = placement::ReadNodeObject(json);
      if (!read.ok()) return host::ContentError(read.error(), file);
      object = *std::move(read);
    } else {
      if (machine) return BadPlan(file + ": a second description of a node", "give one node");
      Result<placement::NodeInput> read = placement::ReadNodeInput(json);
      if (!read.ok()) return host::ContentError(read.error(), file);
      machine = *std::move(read);
    }
  }
  if (!machine) {
    return BadPlan("--node: no description of the machine",
                   "add the output of alignctl topology -o json, made on that node, or its "
                   "NodeResourceTopology object; a Node object does not have the CPUs and NUMA "
                   "nodes");
  }
  machine->object = std::move(object);
  return *std::move(machine);
}

Result<placement::NodeInput> ReadNode(const PlanSources& sources,
                                      const std::vector<NodeDocument>& documents) {
  if (!sources.nodes.empty()) return NodeOfDocuments(documents);
  Result<Machine> machine = host::ReadMachine(sources.root.empty() ? "/" : sources.root);
  if (!machine.ok()) return machine.error();
  placement::NodeInput input{{*std::move(machine), {}, {}}, std::nullopt, {}, {}, {}};
  const bool knows_pods =
      !sources.state_dir.empty() || !sources.device_checkpoint.empty() || !sources.running.empty();
  if (sources.root.empty() && !knows_pods) {
    input.notes.emplace_back(
        "this machine is planned with as if no pods ran on it; add --state-dir (/var/lib/alignd, "
        "or /var/lib/kubelet) and --running");
  }
  return input;
}

// The same; it must be there if `needed`.
Result<std::string> ReadStateFileIf(const fs::path& path, bool needed) {
  Result<std::string> text = ReadStateFile(path);
  if (needed && text.ok() && text->empty()) return host::ReadFile(path);  // why it is not there
  return text;
}

// The first of the places where the kubelet and alignd keep it; empty: none has it.
Result<std::string> ReadDeviceCheckpoint(const PlanSources& sources) {
  if (!sources.device_checkpoint.empty()) {
    return ReadStateFileIf(sources.device_checkpoint, /*needed=*/true);
  }
  if (sources.state_dir.empty()) return std::string();
  const std::string name = "kubelet_internal_checkpoint";
  for (const fs::path& directory :
       {fs::path(sources.state_dir), fs::path(sources.state_dir) / "device-plugins"}) {
    const Result<std::string> text = ReadStateFile(directory / name);
    if (!text.ok() || !text->empty()) return text;
  }
  return std::string();
}

Result<placement::NodeFiles> ReadNodeState(const PlanSources& sources, const KubeletConfig& config,
                                           placement::NodeInput& input) {
  placement::NodeFiles files;
  const Result<std::string> checkpoint = ReadDeviceCheckpoint(sources);
  if (!checkpoint.ok()) return checkpoint.error();
  files.device_checkpoint = *checkpoint;
  if (!checkpoint->empty()) {
    const auto parsed = checkpoint::ParseDeviceCheckpoint(*checkpoint);
    if (!parsed.ok()) return parsed.error().In("kubelet_internal_checkpoint");
    const Result<Done> added = placement::AddCheckpointDevices(*parsed, input);
    if (!added.ok()) return added.error();
  }
  if (sources.state_dir.empty()) return files;
  if (checkpoint->empty() && !input.description.devices.empty()) {
    return BadPlan(sources.state_dir + ": no kubelet_internal_checkpoint, and the node has devices",
                   "name it with --device-checkpoint: without it, allocated devices are not known");
  }
  const fs::path directory = sources.state_dir;
  Result<std::string> cpu = ReadStateFileIf(directory / "cpu_manager_state",
                                            config.cpu_manager_policy != CpuManagerPolicy::kNone);
  if (!cpu.ok()) return cpu.error();
  Result<std::string> memory =
      ReadStateFileIf(directory / "memory_manager_state",
                      config.memory_manager_policy != MemoryManagerPolicy::kNone);
  if (!memory.ok()) return memory.error();
  files.cpu_manager_state = *std::move(cpu);
  files.memory_manager_state = *std::move(memory);
  Result<std::string> shares = ReadStateFile(directory / "cpu_shares");
  if (!shares.ok()) return shares.error();
  files.cpu_shares = *std::move(shares);
  if (sources.running.empty()) {
    input.notes.emplace_back(
        "the state files do not have pods of the shared pool, nor what pods request beyond "
        "exclusive CPUs, pinned memory and devices; add --running for them");
  }
  return files;
}

// The pods of --running that are on the node.
Result<std::vector<placement::PlannedPod>> ReadRunningPods(const std::vector<std::string>& files,
                                                           placement::NodeInput& input) {
  Result<placement::Manifests> manifests = ReadManifests(files, IfEmpty::kError);
  if (!manifests.ok()) return manifests.error();
  placement::LeaveOutControllers(*manifests);
  Result<std::vector<placement::PlannedPod>> pods = placement::ExpandPods(*manifests, std::nullopt);
  if (!pods.ok()) return pods;
  if (input.object && !input.object->name.empty()) {
    placement::KeepPodsOfNode(input.object->name, *pods, input.notes);
    return pods;
  }
  std::string name;
  for (const placement::PlannedPod& pod : *pods) {
    if (name.empty()) name = pod.node_name;
    if (pod.node_name.empty() || pod.node_name == name) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "--running has pods of node " + name + " and of node " + pod.node_name,
                 "add the Node object with --node, or give the pods of one node"};
  }
  return pods;
}

Result<Done> AddDevices(const std::vector<std::string>& texts, placement::NodeInput& input) {
  for (const std::string& text : texts) {
    auto devices = placement::ParseDevices(text);
    if (!devices.ok()) return devices.error();
    const Result<Done> added =
        placement::AddDevices(devices->first, std::move(devices->second), input);
    if (!added.ok()) return added;
  }
  return Done{};
}

// The name of the one node of the objects, or `--node-name`.
Result<std::string> ChooseNode(const placement::ClusterObjects& objects, const std::string& name) {
  const std::set<std::string> names = objects.Names();
  if (name.empty() && names.size() == 1) return *names.begin();
  if (name.empty()) {
    return BadPlan("the objects have " + std::to_string(names.size()) + " nodes",
                   "name one with --node-name; alignctl fit plans with all of them");
  }
  if (names.contains(name)) return name;
  return BadPlan("--node-name " + name + ": there is no Node of that name",
                 "name one of the Node objects");
}

Result<placement::PlannedNode> NodeOfCluster(const placement::ClusterObjects& objects,
                                             const PlanSources& sources,
                                             const std::string& config) {
  if (!sources.state_dir.empty() || !sources.device_checkpoint.empty() ||
      !sources.running.empty()) {
    return BadPlan(
        "--state-dir, --device-checkpoint and --running: the pods of the node are those of the "
        "objects",
        "leave these options out, or give a description of the node (alignctl topology -o json)");
  }
  if (objects.empty()) {
    return BadPlan("there are pods, and no Node", "give the Node and its NodeResourceTopology");
  }
  const Result<std::string> name = ChooseNode(objects, sources.node_name);
  if (!name.ok()) return name.error();
  placement::FleetNode node = objects.NodeNamed(*name, config);
  if (node.problem) return *node.problem;
  const Result<Done> added = AddDevices(sources.devices, node.input);
  if (!added.ok()) return added.error();
  return placement::MakePlannedNode(node);
}

}  // namespace

Error NoPods(const placement::Manifests& manifests) {
  const std::vector<std::string>& skipped = manifests.skipped;
  std::string message = "the manifests have no pods";
  if (!skipped.empty()) message += ": " + skipped.front();
  if (skipped.size() > 1) message += " (and " + std::to_string(skipped.size() - 1) + " more)";
  return BadPlan(std::move(message), "name manifests of pods; with `replicas: 0`, add --replicas");
}

Result<placement::Manifests> ReadManifests(const std::vector<std::string>& paths,
                                           IfEmpty if_empty) {
  placement::Manifests manifests;
  for (const std::string& path : paths) {
    const Result<NamedFiles> named = FilesOf(path);
    if (!named.ok()) return named.error();
    for (const std::string& file : named->files) {
      const Result<std::vector<std::string>> documents = ReadDocuments(file, named->origin);
      if (!documents.ok()) return documents.error();
      if (documents->empty() && if_empty == IfEmpty::kError) return EmptyFile(file);
      if (documents->empty()) manifests.skipped.push_back(ShownFile(file) + " is empty");
      for (const std::string& json : *documents) {
        const std::string shown = ShownFile(file);
        const Result<Done> read = placement::ReadManifest(json, shown, manifests);
        if (!read.ok()) return host::ContentError(read.error(), shown);
      }
    }
  }
  return manifests;
}

Result<placement::PlannedNode> ReadPlannedNode(const PlanSources& sources) {
  if (sources.config.empty() && sources.flags != placement::PolicyFlags()) {
    return Error{ErrorCode::kInvalidArgument, std::string(kFlagsOfNodes) + ": " + kFlagsNeedConfig,
                 "add --config, or remove the flags"};
  }
  const Result<std::string> json = ReadSharedConfig(sources.config, sources.flags);
  if (!json.ok()) return json.error();
  if (sources.from_cluster) {
    const Result<ListedCluster> listed = ReadCluster(sources.kubeconfig);
    if (!listed.ok()) return listed.error();
    return NodeOfCluster(listed->objects, sources, *json);
  }
  const Result<std::vector<NodeDocument>> documents = ReadNodeDocuments(sources.nodes);
  if (!documents.ok()) return documents.error();
  const Result<std::optional<placement::ClusterObjects>> objects = ObjectsIn(*documents);
  if (!objects.ok()) return objects.error();
  if (*objects) return NodeOfCluster(**objects, sources, *json);
  if (!sources.node_name.empty()) {
    return BadPlan("--node-name: a description of a node has no name",
                   "give --node-name with objects of a cluster only");
  }
  if (json->empty()) {
    return BadPlan("the node has no KubeletConfiguration", "name one with --config");
  }
  const Result<KubeletConfig> config = ParseKubeletConfig(*json);
  if (!config.ok()) return host::ContentError(config.error(), sources.config);

  Result<placement::NodeInput> input = ReadNode(sources, *documents);
  if (!input.ok()) return input.error();
  const Result<Done> added = AddDevices(sources.devices, *input);
  if (!added.ok()) return added.error();
  const Result<int64_t> pod_limit =
      placement::PodLimitOf(*json, input->description.machine.cpus().Count());
  if (!pod_limit.ok()) return host::ContentError(pod_limit.error(), sources.config);
  const Result<placement::NodeFiles> files = ReadNodeState(sources, *config, *input);
  if (!files.ok()) return files.error();
  const auto running = ReadRunningPods(sources.running, *input);
  if (!running.ok()) return running.error();
  Result<placement::PlannedNode> node =
      placement::PlannedNode::Make(*std::move(input), *config, *pod_limit, *files);
  if (!node.ok()) {
    if (!node.error().remedy.empty()) return node;
    return BadPlan(node.error().message, "correct the KubeletConfiguration");
  }
  for (const placement::PlannedPod& pod : *running) {
    const Result<Done> placed = node->AddRunning(pod);
    if (!placed.ok()) return placed.error();
  }
  return node;
}

}  // namespace alignd::cli
