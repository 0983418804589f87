#include "alignd/placement/cluster_objects.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"
#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

using json::View;

constexpr std::string_view kList = "List";

// "List", and "PodList" and the like, whose items have no kind of their own.
bool IsListKind(const std::string& kind) {
  return kind == kList || kind == "NodeList" || kind == "PodList" ||
         kind == "NodeResourceTopologyList";
}

// Whether it is one page of several, as the API server gives them to a request with a limit.
bool IsPartOfList(const nlohmann::json& list) {
  const auto metadata = list.find("metadata");
  if (metadata == list.end() || !metadata->is_object()) return false;
  const auto is_set = [&](const char* name, const nlohmann::json& none) {
    const auto member = metadata->find(name);
    return member != metadata->end() && !member->is_null() && *member != none;
  };
  return is_set("continue", "") || is_set("remainingItemCount", 0);
}

// The item as an object that stands alone.
nlohmann::json WithKind(nlohmann::json item, const nlohmann::json& list, const std::string& kind) {
  if (kind == kList) return item;
  item.emplace("kind", kind.substr(0, kind.size() - kList.size()));
  item.emplace("apiVersion", TextAt(list, "apiVersion"));
  return item;
}

std::string KeyOf(const BoundPod& bound) {
  return bound.pod.pod.name_space + "/" + bound.pod.pod.name;
}

// In place of a pod that cannot be read: its name and UID are known, what it requests is not.
BoundPod UnreadPod(const std::string& name_space, const std::string& name, const std::string& uid,
                   const Error& error) {
  BoundPod bound;
  bound.pod.pod.name_space = name_space.empty() ? "default" : name_space;
  bound.pod.pod.name = name;
  bound.pod.pod.uid = uid.empty() ? KeyOf(bound) : uid;
  bound.pod.faults.push_back(error.Text());
  return bound;
}

// What the pod was before is what a topology object of in between can have.
void Compare(const BoundPod& before, BoundPod& bound) {
  bound.is_replaced = before.pod.pod.uid != bound.pod.pod.uid;
  bound.is_starting = bound.is_starting || before.is_starting;
  bound.is_restarting = bound.is_restarting || before.is_restarting;
  bound.is_resizing = bound.is_resizing || before.is_resizing ||
                      before.pod.pod.containers != bound.pod.pod.containers ||
                      before.pod.pod.pod_level != bound.pod.pod.pod_level;
}

}  // namespace

// What says where an object belongs. Empty: it is absent, or no text.
struct ClusterObjects::Head {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string node;  // spec.nodeName
};

Result<bool> ClusterObjects::Add(std::string_view text, const std::string& file,
                                 const std::string& node_of_pods) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  if (!parsed->is_object()) return false;
  const std::string kind = TextAt(*parsed, "kind");
  if (IsListKind(kind)) {
    if (IsPartOfList(*parsed)) {
      return BadObject("the list ends before its last object (metadata.continue)",
                       "list all objects at once: kubectl get does so, and kubectl get --raw "
                       "without the parameter limit");
    }
    Faults faults;
    size_t position = 0;
    for (const View& item : ListIn(View(*parsed, ""), "items", faults)) {
      const nlohmann::json object = WithKind(item.value(), *parsed, kind);
      const std::string place = "items[" + std::to_string(position++) + "]";
      const Result<bool> added = Add(object.dump(), file, node_of_pods);
      if (!added.ok()) return added.error().In(place);
      if (!*added) {
        return BadObject(place + ": kind \"" + TextAt(object, "kind") +
                             "\" is not Node, NodeResourceTopology or Pod",
                         kGiveAllAtOnce);
      }
    }
    if (!faults.empty()) return BadObject(faults.texts().front(), kGiveAllAtOnce);
    return true;
  }
  const Head head = {.name = TextAt(*parsed, "metadata", "name"),
                     .name_space = TextAt(*parsed, "metadata", "namespace"),
                     .uid = TextAt(*parsed, "metadata", "uid"),
                     .node = TextAt(*parsed, "spec", "nodeName")};
  Result<Done> added = Done{};
  if (kind == "Node") {
    added = AddNode(text, head);
  } else if (kind == noderesourcetopology::kKind) {
    added = AddTopology(text, head);
  } else if (kind == "Pod") {
    added = AddPod(text, head, file, node_of_pods);
  } else {
    return false;
  }
  if (!added.ok()) return added.error();
  return true;
}

Result<Done> ClusterObjects::AddNode(std::string_view text, const Head& head) {
  const Result<Done> named = CheckNodeName(head.name);
  if (!named.ok()) return named.error().In("Node: metadata");
  Result<NodeObject> node = ReadNodeObject(text);
  if (!node.ok()) node = node.error().In("Node " + head.name);
  if (!nodes_.emplace(head.name, std::move(node)).second) {
    return BadObject("two Node objects are named " + head.name, "give each once");
  }
  return Done{};
}

Result<Done> ClusterObjects::AddTopology(std::string_view text, const Head& head) {
  Result<TopologyObject> object = ReadTopologyObject(text);
  if (!object.ok() && !CheckNodeName(head.name).ok()) return object.error();
  if (!topologies_.emplace(head.name, std::move(object)).second) {
    return BadObject("two NodeResourceTopology objects are named " + head.name, "give each once");
  }
  return Done{};
}

Result<Done> ClusterObjects::AddPod(std::string_view text, const Head& head,
                                    const std::string& file, const std::string& node_of_pods) {
  const std::string& node = head.node.empty() ? node_of_pods : head.node;
  if (node.empty() && !head.uid.empty()) return Done{};  // it is pending
  if (node.empty()) {
    return BadObject("Pod " + head.name + ": spec.nodeName is missing",
                     "put pods that run into the directory of their node, or give them as the API "
                     "server has them");
  }
  Result<std::optional<BoundPod>> read = ReadBoundPod(text, file);
  if (!read.ok()) {
    Error error = read.error().In("Pod " + head.name_space + "/" + head.name);
    if (error.remedy.empty()) error.remedy = "give the pod as the API server has it";
    BoundPod stub = UnreadPod(head.name_space, head.name, head.uid, read.error());
    unread_pods_.emplace(node, std::move(error));
    return KeepPod(node, std::move(stub));
  }
  if (!*read) return Done{};  // it has ended
  return KeepPod(node, **std::move(read));
}

Result<Done> ClusterObjects::KeepPod(const std::string& node, BoundPod bound) {
  const std::string name = KeyOf(bound);
  // Of pods that cannot be read, several can be without a name.
  if (!bound.pod.pod.name.empty() && !pod_names_.insert(name).second) {
    return BadObject("two pods are named " + name, "give each once");
  }
  pods_[node].push_back(std::move(bound));
  return Done{};
}

void ClusterObjects::CompareWith(const ClusterObjects& earlier) {
  for (auto& [node, pods] : pods_) {
    const auto of_node = earlier.pods_.find(node);
    std::map<std::string, const BoundPod*> known;
    if (of_node != earlier.pods_.end()) {
      for (const BoundPod& bound : of_node->second) known.emplace(KeyOf(bound), &bound);
    }
    for (BoundPod& bound : pods) {
      const auto was = known.find(KeyOf(bound));
      if (was == known.end()) {
        bound.is_starting = true;
      } else {
        Compare(*was->second, bound);
      }
    }
  }
}

std::vector<std::string> ClusterObjects::RemoveWithoutNode() {
  std::vector<std::string> removed;
  for (auto object = topologies_.begin(); object != topologies_.end();) {
    if (nodes_.contains(object->first)) {
      ++object;
    } else {
      removed.push_back(object->first);
      object = topologies_.erase(object);
    }
  }
  return removed;
}

std::set<std::string> ClusterObjects::Names() const {
  std::set<std::string> names;
  for (const auto& [name, node] : nodes_) names.insert(name);
  for (const auto& [name, object] : topologies_) names.insert(name);
  return names;
}

FleetNode ClusterObjects::NodeNamed(const std::string& name, const std::string& config) const {
  const auto node = nodes_.find(name);
  const auto object = topologies_.find(name);
  const auto of_node = pods_.find(name);
  const std::vector<BoundPod> none;
  const std::vector<BoundPod>& pods = of_node == pods_.end() ? none : of_node->second;
  const auto make = [&]() -> Result<FleetNode> {
    if (object != topologies_.end() && !object->second.ok()) return object->second.error();
    if (node == nodes_.end()) {
      return BadObject("NodeResourceTopology " + name + ": there is no Node " + name,
                       kGiveAllAtOnce);
    }
    if (!node->second.ok()) return node->second.error();
    if (const auto pod = unread_pods_.find(name); pod != unread_pods_.end()) return pod->second;
    return object == topologies_.end()
               ? NodeWithoutTopology(*node->second, pods)
               : NodeOfObjects(*object->second, *node->second, pods, config);
  };
  Result<FleetNode> made = make();
  if (made.ok()) return *std::move(made);
  FleetNode unusable;
  unusable.name = name;
  unusable.problem = made.error();
  for (const BoundPod& pod : pods) unusable.counted.push_back(pod.pod);
  return unusable;
}

Result<std::vector<FleetNode>> ClusterObjects::Nodes(const std::string& config,
                                                     const std::set<std::string>& others) const {
  const auto lonely = std::ranges::find_if(
      pods_, [&](const auto& one) { return others.contains(one.first) || empty(); });
  if (lonely != pods_.end()) {
    return BadObject("there are pods of node " + lonely->first + ", and no Node of that name",
                     "put the pods into the directory of the node, or give the Node and its "
                     "NodeResourceTopology");
  }
  std::vector<FleetNode> made;
  for (const std::string& name : Names()) made.push_back(NodeNamed(name, config));
  return made;
}

}  // namespace alignd::placement
