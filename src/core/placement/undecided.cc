// Why a node cannot decide about a pod.
#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "alignd/placement/planned_node.h"
#include "alignd/pod/pod_requests.h"
#include "alignd/pod/resource_name.h"

namespace alignd::placement {

std::vector<std::string> PlannedNode::UnknownIn(const ResourceList& requests) const {
  std::vector<std::string> unknown;
  for (const auto& [name, amount] : requests) {
    if (amount.IsZero()) continue;
    if (allocatable_.unknown.contains(name)) {
      unknown.push_back(name +
                        ": the description of the node does not have it; add the Node "
                        "object with --node");
    }
    const auto unlocated = input_->unlocated_devices.find(name);
    if (unlocated != input_->unlocated_devices.end()) {
      unknown.push_back(name + ": " + unlocated->second);
    }
  }
  return unknown;
}

std::string PlannedNode::UnknownShares(const PlannedPod& pod) const {
  if (why_lacks_shares_.empty()) return {};
  const Pod managed = Managed(pod);
  const bool takes_cpus = std::ranges::any_of(managed.containers, [&](const Container& one) {
    return admission::RequestsCpus(node(), managed, one) ||
           admission::AsksForOneNode(node(), managed, one);
  });
  if (!takes_cpus) return {};
  return "podPolicies or namespacePolicies of the node has sharedNUMANode or shared-cpus, and " +
         why_lacks_shares_ + " alignd on that node (alignctl why-not), or leave the files out";
}

std::vector<std::string> PlannedNode::OwnedByOthers(const PlannedPod& pod) const {
  if (unlisted_owned_.empty()) return {};
  const Pod managed = Managed(pod);
  std::set<std::string> needed;
  for (const Container& one : managed.containers) {
    if (admission::RequestsCpus(node(), managed, one) ||
        admission::AsksForOneNode(node(), managed, one)) {
      needed.insert("cpu");
    }
    if (admission::RequestsMemory(node(), managed, one)) needed.insert("memory");
    for (const auto& [name, amount] : one.resources.limits) {
      if (MayBeDevice(name) && !amount.IsZero()) needed.insert(name);
    }
  }
  std::vector<std::string> reasons;
  for (const std::string& resource : needed) {
    const bool is_owned = std::ranges::any_of(
        unlisted_owned_, [&resource](const auto& one) { return one.second.contains(resource); });
    if (!is_owned) continue;
    reasons.push_back(resource +
                      ": containers had some when the description of the node was made, and no "
                      "state file has which; add the state files (--state-dir)");
  }
  return reasons;
}

bool PlannedNode::has_undecided() const {
  return !undecided_.empty() && std::ranges::all_of(others_, &PlannedNode::has_undecided);
}

std::vector<std::string> PlannedNode::UndecidedBefore(const std::string& uid) const {
  for (const UndecidedPod& other : undecided_) {
    if (other.uid == uid) continue;
    if (other.is_by_annotation) {
      return {
          "pods of the node have annotations with resources that differ from their specs, the "
          "last of them pod " +
          other.name +
          ": there are too many ways in which the node can take them, and what they take is "
          "not known; make annotation and spec of each equal, or remove the annotations"};
    }
    return {"pod " + other.name +
            " before it cannot be decided, and what that pod takes is not known; plan this pod "
            "without that one"};
  }
  return {};
}

std::vector<std::string> PlannedNode::UndecidedItself(const PlannedPod& pod) const {
  if (!input_->unusable.empty()) return {input_->unusable};
  std::vector<std::string> reasons = pod.undecided;
  for (std::string& reason : UnknownIn(RequestsOfPod(pod.pod, pod.overhead))) {
    reasons.push_back(std::move(reason));
  }
  for (std::string& reason : OwnedByOthers(pod)) reasons.push_back(std::move(reason));
  std::string unknown = UnknownShares(pod);
  if (!unknown.empty()) reasons.push_back(std::move(unknown));
  if (!input_->object_view) return reasons;
  unknown = UndecidedBy(*input_->object_view, node(), state(), Managed(pod));
  if (!unknown.empty()) reasons.push_back(std::move(unknown));
  return reasons;
}

}  // namespace alignd::placement
