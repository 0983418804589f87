#include "extender/cluster_view.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/placement/planned_node.h"
#include "apiserver/object_json.h"

namespace alignd::extender {
namespace {

using ViewJson = nlohmann::json;
using apiserver::TextIn;
using placement::BoundPod;
using placement::NodeObject;
using placement::TopologyObject;

// A pod that cannot be read: its node decides about nothing while it is there.
BoundPod UnreadablePod(const ViewJson& object, const Error& error) {
  BoundPod pod;
  pod.pod.pod.name_space = TextIn(object, "metadata", "namespace");
  pod.pod.pod.name = TextIn(object, "metadata", "name");
  pod.pod.pod.uid = TextIn(object, "metadata", "uid");
  pod.pod.faults.push_back(error.Text());
  return pod;
}

template <typename Value>
bool IsSame(const Result<Value>& a, const Result<Value>& b) {
  if (a.ok() != b.ok()) return false;
  return a.ok() ? *a == *b : a.error().Text() == b.error().Text();
}

// Whether it shows by itself that a pod has replaced another of its name.
bool HasUids(const Result<TopologyObject>* object) {
  return object != nullptr && object->ok() &&
         (*object)->attributes.contains(noderesourcetopology::kUidFingerprintAttribute);
}

template <typename Entries>
std::vector<std::string> KeysBut(const Entries& entries, const std::set<std::string>& kept) {
  std::vector<std::string> keys;
  for (const auto& [key, entry] : entries) {
    if (!kept.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace

void ClusterView::Set(ObjectKind kind, const std::string& key, const std::string& json) {
  if (kind == ObjectKind::kPod) {
    SetPod(key, json);
  } else if (kind == ObjectKind::kNode) {
    // A kubelet writes its Node every ten seconds: mostly, nothing of it matters here.
    auto read = std::make_shared<const Result<NodeObject>>(placement::ReadNodeObject(json));
    auto& known = nodes_[key];
    if (known && IsSame(*known, *read)) return;
    known = std::move(read);
    changed_.insert(key);
  } else {
    if (since_.erase(key) > 0) changed_.insert(key);
    Text& known = topologies_[key];
    if (known.object && known.json == json) return;
    known = {json,
             std::make_shared<const Result<TopologyObject>>(placement::ReadTopologyObject(json))};
    changed_.insert(key);
  }
}

void ClusterView::SetPod(const std::string& key, const std::string& json) {
  const ViewJson object = ViewJson::parse(json, nullptr, /*allow_exceptions=*/false);
  const std::string node = object.is_object() ? TextIn(object, "spec", "nodeName") : "";
  if (node.empty()) {  // not bound yet
    Remove(ObjectKind::kPod, key);
    return;
  }
  Result<std::optional<BoundPod>> read = placement::ReadBoundPod(json, "the API server");
  if (read.ok() && !*read) {
    Remove(ObjectKind::kPod, key);
    return;
  }
  PodEntry entry{node, read.ok() ? **std::move(read) : UnreadablePod(object, read.error())};
  const auto known = pods_.find(key);
  if (known != pods_.end()) {
    const PodEntry& before = known->second;
    if (before.node == node && before.pod == entry.pod) return;
    if (before.node == node && before.pod.pod.pod.uid == entry.pod.pod.pod.uid) {
      pods_.erase(known);  // the same pod
    } else {
      Erase(known);
    }
  }
  NoteReplaced(key, entry);
  pods_.emplace(key, std::move(entry));
  pods_of_nodes_[node].insert(key);
  changed_.insert(node);
}

void ClusterView::NoteReplaced(const std::string& key, const PodEntry& entry) {
  const auto since = since_.find(entry.node);
  if (since == since_.end()) return;
  auto& [ended, replaced] = since->second;
  if (const auto pod = ended.find(key); pod != ended.end()) {
    replaced[key] = pod->second == placement::WithoutNames(entry.pod.pod);
    ended.erase(pod);
  }
  // The object has the same amounts for it as for the pod before it.
  const auto pod = replaced.find(key);
  if (pod != replaced.end() && pod->second && !entry.pod.is_starting) replaced.erase(pod);
}

void ClusterView::Erase(std::map<std::string, PodEntry>::iterator pod) {
  const auto& [key, entry] = *pod;
  if (topologies_.contains(entry.node)) {
    auto& [ended, replaced] = since_[entry.node];
    replaced.erase(key);
    if (ended.size() < kMaxEnded) {
      ended.emplace(key, placement::WithoutNames(entry.pod.pod));
    } else if (replaced.empty()) {
      replaced.emplace(key, false);
    }
  }
  const auto of_node = pods_of_nodes_.find(entry.node);
  of_node->second.erase(key);
  changed_.insert(entry.node);
  if (of_node->second.empty()) pods_of_nodes_.erase(of_node);
  pods_.erase(pod);
}

void ClusterView::Remove(ObjectKind kind, const std::string& key) {
  if (kind == ObjectKind::kNode) {
    if (nodes_.erase(key) > 0) changed_.insert(key);
    since_.erase(key);
  } else if (kind == ObjectKind::kTopology) {
    if (topologies_.erase(key) > 0) changed_.insert(key);
    since_.erase(key);
  } else if (const auto pod = pods_.find(key); pod != pods_.end()) {
    Erase(pod);
  }
}

void ClusterView::KeepOnly(ObjectKind kind, const std::set<std::string>& keys) {
  const std::vector<std::string> others = kind == ObjectKind::kNode ? KeysBut(nodes_, keys)
                                          : kind == ObjectKind::kTopology
                                              ? KeysBut(topologies_, keys)
                                              : KeysBut(pods_, keys);
  for (const std::string& key : others) Remove(kind, key);
}

size_t ClusterView::size(ObjectKind kind) const {
  if (kind == ObjectKind::kNode) return nodes_.size();
  return kind == ObjectKind::kTopology ? topologies_.size() : pods_.size();
}

std::vector<ClusterView::Parts> ClusterView::TakeChanged() {
  std::vector<Parts> all;
  for (const std::string& name : changed_) {
    Parts& parts = all.emplace_back();
    parts.name = name;
    const auto node = nodes_.find(name);
    parts.is_gone = node == nodes_.end();
    if (parts.is_gone) continue;
    parts.node = node->second;
    if (const auto topology = topologies_.find(name); topology != topologies_.end()) {
      parts.topology = topology->second.object;
    }
    const auto since = since_.find(name);
    if (since != since_.end() && !since->second.replaced.empty() &&
        !HasUids(parts.topology.get())) {
      parts.replaced = since->second.replaced.begin()->first;
    }
    const auto pods = pods_of_nodes_.find(name);
    if (pods == pods_of_nodes_.end()) continue;
    for (const std::string& key : pods->second) parts.pods.push_back(pods_.at(key).pod);
  }
  changed_.clear();
  return all;
}

Extender::NodeChange ClusterView::ChangeOf(const Parts& parts, const std::string& config) {
  Extender::NodeChange change{.name = parts.name, .is_gone = parts.is_gone};
  // Also of a node that cannot be planned with: its pods are where they are.
  for (const BoundPod& pod : parts.pods) {
    change.pods.push_back(pod.pod.pod.uid);
    change.pods.push_back(pod.pod.pod.name_space + "/" + pod.pod.pod.name);
  }
  if (parts.is_gone) return change;
  if (!parts.node->ok()) {
    change.problem = parts.node->error().In("Node " + parts.name);
    return change;
  }
  if (parts.topology != nullptr && !parts.topology->ok()) {
    change.problem = parts.topology->error();
    return change;
  }
  Result<placement::FleetNode> made =
      parts.topology == nullptr
          ? placement::NodeWithoutTopology(**parts.node, parts.pods)
          : placement::NodeOfObjects(**parts.topology, **parts.node, parts.pods, config);
  if (!made.ok()) {
    change.problem = made.error();
    return change;
  }
  if (!parts.replaced.empty() && made->input.object_view) {
    made->input.object_view->unknown = "pod " + parts.replaced +
                                       " has replaced another pod of its name, and the "
                                       "NodeResourceTopology object is from before; "
                                       "see whether alignd can publish the object if this lasts";
  }
  Result<placement::PlannedNode> planned = placement::MakePlannedNode(*made);
  if (planned.ok()) {
    change.node = std::make_shared<const placement::PlannedNode>(*std::move(planned));
  } else {
    change.problem = planned.error();
  }
  return change;
}

}  // namespace alignd::extender
