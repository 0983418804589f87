#include "cli/fleet_input.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "alignd/placement/cluster_objects.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_input.h"
#include "cli/cluster_input.h"
#include "cli/documents.h"
#include "cli/lstopo_file.h"
#include "cli/policy_options.h"
#include "host/file.h"
#include "host/sysfs_machine.h"
#include "host/yaml.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;
using placement::FleetNode;

constexpr char kStream[] = "-";

Error BadFleet(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

bool IsManifestName(const std::string& name) {
  const std::string extension = fs::path(name).extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json" || extension == ".xml";
}

// Whether the file can say something about a node: not other XML than lstopo's, for example of a
// virtual machine. One that cannot be read is an error where it is read for its content.
bool IsOfNodes(const fs::path& file) {
  if (!IsManifestName(file.filename())) return false;
  if (file.extension() != ".xml") return true;
  const Result<std::string> text = host::ReadFile(file, kMaxLstopoBytes);
  return !text.ok() || !IsXml(*text) || IsLstopo(*text);
}

std::string KindOf(const std::string& json) {
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return "";
  const auto kind = parsed.find("kind");
  return kind != parsed.end() && kind->is_string() ? kind->get<std::string>() : "";
}

Error IsEmpty(const std::string& file) {
  return BadFleet(file + ": is empty", "write it again, or remove it");
}

Result<FleetNode> ReadOneNode(const std::string& json, const std::string& name,
                              const std::string& file, const std::string& config) {
  const std::string kind = KindOf(json);
  if (!kind.empty() && !placement::IsFleetNode(json)) {
    return BadFleet(file + ": a " + kind + " is no description of a node",
                    "put it into a directory of its node, beside the output of alignctl topology "
                    "-o json; a KubeletConfiguration for all nodes belongs to --config");
  }
  Result<FleetNode> node = FleetNode{};
  if (placement::IsFleetNode(json)) {
    node = placement::ReadFleetNode(json, config);
  } else {
    Result<placement::NodeInput> input = placement::ReadNodeInput(json);
    if (!input.ok()) return host::ContentError(input.error(), file);
    node = FleetNode{name, *std::move(input), config, {}, {}};
  }
  if (!node.ok()) return host::ContentError(node.error(), file);
  return node;
}

// What is read of all files and directories.
struct Inputs {
  int stop;                      // as FleetSources
  placement::PolicyFlags flags;  // the same
  std::vector<FleetNode> nodes;
  placement::ClusterObjects objects;

  bool empty() const { return nodes.empty() && objects.empty(); }
};

Result<Done> AddNodesOfFile(const std::string& file, FileOrigin origin, const std::string& config,
                            Inputs& inputs) {
  const Result<std::vector<std::string>> documents = ReadDocuments(file, origin, inputs.stop);
  if (!documents.ok()) return documents.error();
  const std::string shown = file == kStream ? "standard input" : file;
  // A node would be left out.
  if (documents->empty()) return IsEmpty(shown);
  const std::string name = file == kStream ? "stdin" : fs::path(file).stem().string();
  size_t unnamed = 0;
  for (const std::string& json : *documents) {
    const Result<bool> is_object = inputs.objects.Add(json, shown);
    if (!is_object.ok()) return host::ContentError(is_object.error(), shown);
    if (*is_object) continue;
    if (!placement::IsFleetNode(json) && ++unnamed > 1) {
      return BadFleet(shown + ": has several descriptions, and a description has no name",
                      "write each as {\"name\": NAME, \"node\": {...}}, or to a file of its own");
    }
    Result<FleetNode> node = ReadOneNode(json, name, shown, config);
    if (!node.ok()) return node.error();
    Result<std::string> with_flags = placement::WithFlags(node->config, inputs.flags);
    if (!with_flags.ok()) return host::ContentError(with_flags.error(), shown);
    node->config = *std::move(with_flags);
    inputs.nodes.push_back(*std::move(node));
  }
  return Done{};
}

// The parts of one node, while its directory is read.
struct Parts {
  std::optional<placement::NodeInput> description;
  std::optional<placement::NodeObject> object;
  std::optional<std::string> config;
  placement::Manifests running;
  bool has_topology = false;  // a NodeResourceTopology object
};

template <typename Part>
Result<Done> SetOnce(std::optional<Part>& part, Result<Part> read, const std::string& file,
                     const char* what) {
  if (!read.ok()) return host::ContentError(read.error(), file);
  if (part) return BadFleet(file + ": a second " + what + " of the node", "give one");
  part = *std::move(read);
  return Done{};
}

Result<Done> AddPart(const std::string& json, const std::string& file, Parts& parts) {
  const std::string kind = KindOf(json);
  if (kind == "KubeletConfiguration") {
    return SetOnce(parts.config, Result<std::string>(json), file, "KubeletConfiguration");
  }
  if (kind == "Node") {
    return SetOnce(parts.object, placement::ReadNodeObject(json), file, "Node object");
  }
  if (kind == "NodeResourceTopology") {
    parts.has_topology = true;
    return Done{};
  }
  if (kind.empty()) {
    return SetOnce(parts.description, placement::ReadNodeInput(json), file, "description");
  }
  const Result<Done> read = placement::ReadManifest(json, file, parts.running);
  return read.ok() ? read : host::ContentError(read.error(), file);
}

Result<Done> ReadStateFiles(const fs::path& directory, FleetNode& node) {
  const auto read = [&](const fs::path& path, std::string& text) -> Result<Done> {
    Result<std::string> content = ReadStateFile(path);
    if (!content.ok()) return content.error();
    if (!content->empty()) text = *std::move(content);
    return Done{};
  };
  constexpr char kCheckpoint[] = "kubelet_internal_checkpoint";
  Result<Done> done = read(directory / "cpu_manager_state", node.files.cpu_manager_state);
  if (done.ok()) done = read(directory / "memory_manager_state", node.files.memory_manager_state);
  if (done.ok()) done = read(directory / "cpu_shares", node.files.cpu_shares);
  if (done.ok()) {
    done = read(directory / "device-plugins" / kCheckpoint, node.files.device_checkpoint);
  }
  if (done.ok()) done = read(directory / kCheckpoint, node.files.device_checkpoint);
  return done;
}

// Whether the directory is the root of a sysfs tree, as a copy of a node's /sys has it.
bool IsTree(const fs::path& directory) {
  std::error_code ignored;
  return fs::is_directory(directory / "sys/devices/system", ignored);
}

Result<placement::NodeInput> ReadTree(const fs::path& directory) {
  Result<Machine> machine = host::ReadMachine(directory);
  if (machine.ok()) return placement::NodeInput{{*std::move(machine), {}, {}}, {}, {}, {}, {}};
  Error error = machine.error();
  // The reader's own remedy names an option of other commands.
  error.remedy = "copy /sys/devices/system of the node to " +
                 (directory / "sys/devices/system").string() +
                 ", or give the output of alignctl topology -o json, made on that node";
  return error;
}

// The last part of the path, also of `nodes/w1/` and of `.`.
std::string NameOfDirectory(const fs::path& directory) {
  std::error_code code;
  const fs::path whole = fs::canonical(directory, code);
  const std::string name = code ? directory.filename() : whole.filename();
  return name.empty() ? directory.string() : name;
}

// The node of a directory with a NodeResourceTopology object: its pods are those of the directory.
Result<FleetNode> NodeOfObjects(const fs::path& directory, const Parts& parts,
                                const std::vector<std::string>& documents,
                                const std::string& config) {
  if (parts.description) {
    return BadFleet(directory.string() + ": has a description and a NodeResourceTopology object",
                    "give one of them: the description with its state files says more");
  }
  placement::ClusterObjects objects;
  const std::string name = parts.object ? parts.object->name : NameOfDirectory(directory);
  for (const std::string& json : documents) {
    const Result<bool> added = objects.Add(json, directory, name);
    if (!added.ok()) return host::ContentError(added.error(), directory);
  }
  Result<std::vector<FleetNode>> nodes = objects.Nodes(parts.config.value_or(config));
  if (!nodes.ok()) return host::ContentError(nodes.error(), directory);
  if (nodes->size() == 1 && nodes->front().problem) {
    return host::ContentError(*nodes->front().problem, directory);
  }
  if (nodes->size() == 1) return nodes->front();
  return BadFleet(directory.string() + ": has the objects of several nodes",
                  "give one directory to each node, or all objects in one file");
}

Result<FleetNode> ReadNodeDirectory(const fs::path& directory, const std::string& config,
                                    const Inputs& inputs) {
  const Result<std::vector<std::string>> names = host::ListDirectory(directory);
  if (!names.ok()) return names.error();
  Parts parts;
  std::vector<std::string> all_documents;
  for (const std::string& name : *names) {
    if (!IsOfNodes(directory / name)) continue;
    const std::string file = (directory / name).string();
    const Result<std::vector<std::string>> documents =
        ReadDocuments(file, FileOrigin::kInDirectory, inputs.stop);
    if (!documents.ok()) return documents.error();
    // The pods that run would be left out.
    if (documents->empty()) return IsEmpty(file);
    for (const std::string& json : *documents) {
      const Result<Done> added = AddPart(json, file, parts);
      if (!added.ok()) return added.error();
      all_documents.push_back(json);
    }
  }
  if (IsTree(directory)) {
    const Result<Done> set =
        SetOnce(parts.description, ReadTree(directory), directory / "sys", "description");
    if (!set.ok()) return set.error();
  }
  if (parts.config) {
    Result<std::string> with_flags = placement::WithFlags(*parts.config, inputs.flags);
    if (!with_flags.ok()) return host::ContentError(with_flags.error(), directory);
    parts.config = *std::move(with_flags);
  }
  if (parts.has_topology) return NodeOfObjects(directory, parts, all_documents, config);
  if (!parts.description) {
    return BadFleet(directory.string() + ": no description of the node",
                    "add the output of alignctl topology -o json, made on that node, or a copy of "
                    "its sys/devices/system");
  }
  FleetNode node{NameOfDirectory(directory),
                 *std::move(parts.description),
                 parts.config.value_or(config),
                 {},
                 {}};
  node.input.object = std::move(parts.object);
  const Result<Done> read = ReadStateFiles(directory, node);
  if (!read.ok()) return read.error();
  placement::LeaveOutControllers(parts.running);
  Result<std::vector<placement::PlannedPod>> pods =
      placement::ExpandPods(parts.running, std::nullopt);
  if (!pods.ok()) return host::ContentError(pods.error(), directory);
  node.running = *std::move(pods);
  const Result<Done> kept = placement::KeepOwnPods(node);
  if (!kept.ok()) return host::ContentError(kept.error(), directory);
  return node;
}

Result<Done> AddNodesOfDirectory(const fs::path& directory, const std::string& config,
                                 Inputs& inputs) {
  std::vector<FleetNode>& nodes = inputs.nodes;
  if (IsTree(directory)) {
    Result<FleetNode> node = ReadNodeDirectory(directory, config, inputs);
    if (!node.ok()) return node.error();
    nodes.push_back(*std::move(node));
    return Done{};
  }
  const Result<std::vector<std::string>> names = host::ListDirectory(directory);
  if (!names.ok()) return names.error();
  const size_t before = nodes.size();
  for (const std::string& name : *names) {
    const fs::path path = directory / name;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      if (name.starts_with('.')) continue;
      Result<FleetNode> node = ReadNodeDirectory(path, config, inputs);
      if (!node.ok()) return node.error();
      nodes.push_back(*std::move(node));
    } else if (IsOfNodes(path)) {
      const Result<Done> added =
          AddNodesOfFile(path.string(), FileOrigin::kInDirectory, config, inputs);
      if (!added.ok()) return added;
    }
  }
  if (nodes.size() > before || !inputs.objects.empty()) return Done{};
  return BadFleet(
      directory.string() + ": has no node",
      "name a directory with files *.json, *.yaml, *.yml or *.xml, or with a directory for each "
      "node");
}

Result<Done> Complete(const std::vector<std::string>& devices, FleetNode& node) {
  for (const std::string& text : devices) {
    auto parsed = placement::ParseDevices(text);
    if (!parsed.ok()) return parsed.error();
    const Result<Done> added =
        placement::AddDevices(parsed->first, std::move(parsed->second), node.input);
    if (!added.ok()) return added.error().In("node " + node.name);
  }
  return placement::UseFiles(node);
}

}  // namespace

Result<std::string> ReadStateFile(const fs::path& path) {
  Result<std::string> text = host::ReadFile(path);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return std::string();
  if (text.ok() && text->empty()) {
    return BadFleet(path.string() + ": is empty",
                    "copy it from the node again; a kubelet does not start with an empty state "
                    "file, and without it, what containers are assigned is not known");
  }
  return text;
}

Result<std::string> ReadSharedConfig(const std::string& file, const placement::PolicyFlags& flags) {
  if (file.empty()) return std::string();
  const Result<std::string> text = host::ReadFileOrPipe(file);
  if (!text.ok()) return text.error();
  Result<std::string> json = host::YamlToJson(*text);
  if (!json.ok()) return host::ContentError(json.error(), file);
  if (*json == "null") return BadFleet(file + ": is empty", "name a KubeletConfiguration");
  Result<std::string> with_flags = placement::WithFlags(*json, flags);
  if (!with_flags.ok()) return host::ContentError(with_flags.error(), file);
  return with_flags;
}

Result<std::vector<FleetNode>> ReadFleet(const FleetSources& sources,
                                         std::vector<std::string>* notes) {
  if (sources.nodes.empty() != sources.from_cluster) {
    return BadFleet(
        sources.from_cluster ? "--from-cluster and --nodes are both given" : "no nodes are named",
        "name files or directories with --nodes, or give --from-cluster");
  }
  if (sources.from_cluster && sources.config.empty() && sources.flags != placement::PolicyFlags()) {
    return BadFleet(std::string(kFlagsOfNodes) + ": " + kFlagsNeedConfig,
                    "add --config, or remove the flags");
  }
  const Result<std::string> config = ReadSharedConfig(sources.config, sources.flags);
  if (!config.ok()) return config.error();
  if (std::ranges::count(sources.nodes, kStream) > 1) {
    return BadFleet("--nodes -: standard input is named twice", "name it once");
  }
  Inputs inputs{.stop = sources.stop, .flags = sources.flags, .nodes = {}, .objects = {}};
  if (sources.from_cluster) {
    Result<ListedCluster> listed = ReadCluster(sources.kubeconfig);
    if (!listed.ok()) return listed.error();
    inputs.objects = std::move(listed->objects);
    if (notes != nullptr) *notes = std::move(listed->notes);
  }
  for (const std::string& path : sources.nodes) {
    std::error_code ignored;
    const bool is_directory = path != kStream && fs::is_directory(path, ignored);
    const Result<Done> added = is_directory
                                   ? AddNodesOfDirectory(path, *config, inputs)
                                   : AddNodesOfFile(path, FileOrigin::kNamed, *config, inputs);
    if (!added.ok()) return added.error();
  }
  std::set<std::string> described;
  for (const FleetNode& node : inputs.nodes) described.insert(node.name);
  Result<std::vector<FleetNode>> of_objects = inputs.objects.Nodes(*config, described);
  if (!of_objects.ok()) return of_objects.error();
  if (!of_objects->empty() && config->empty() && sources.flags != placement::PolicyFlags()) {
    return BadFleet(
        "node " + of_objects->front().name + ": " + kFlagsOfNodes + ": " + kFlagsNeedConfig,
        "add --config, or remove the flags");
  }
  std::vector<FleetNode> nodes = std::move(inputs.nodes);
  std::ranges::move(*of_objects, std::back_inserter(nodes));
  for (FleetNode& node : nodes) {
    if (node.problem) continue;
    const Result<Done> completed = Complete(sources.devices, node);
    if (!completed.ok()) return completed.error();
  }
  return nodes;
}

}  // namespace alignd::cli
