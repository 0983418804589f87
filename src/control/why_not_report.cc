#include "control/why_not_report.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/why_not.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/planned_node.h"
#include "allocation/plugin_needs.h"
#include "control/pending_report.h"
#include "control/readable.h"

namespace alignd::control {
namespace {

using allocation::PendingPod;

// Resources of the pod that no device plugin has registered.
std::set<std::string> Unregistered(const ReportSources& sources, const admission::NodeState& state,
                                   const Pod& pod) {
  std::set<std::string> resources;
  for (const auto& unknown :
       allocation::FindUnknownDevices(state, {.pod = pod}, sources.not_devices)) {
    resources.insert(unknown.resource);
  }
  return resources;
}

// The queue's answer about the pod of a manifest. It is that of the pod itself if that waits. The
// node learns a priority from the kubelet's Pods API alone: a place has it, and one which the
// manifest states does not bring the pod forward.
std::optional<allocation::QueueAnswer> AskQueueFor(const ReportSources& sources, Pod pod) {
  const auto waiting = sources.allocation.WaitingPods();
  if (!waiting) return std::nullopt;
  const std::string name = pod.name_space + "/" + pod.name;
  const bool has_uid = pod.uid != name;
  pod.priority = std::min(pod.priority, 0);
  for (const auto& place : waiting->Places()) {
    const bool is_its_own = has_uid ? place->pod.uid == pod.uid : place->pod.name == name;
    if (!is_its_own) continue;
    pod.uid = place->pod.uid;  // of several: the last one
    pod.priority = place->pod.priority;
  }
  // Its time can be over.
  const auto* const failed = pod.uid == name ? waiting->FindFailedNamed(name) : nullptr;
  if (failed != nullptr) pod.uid = (*failed)->pod.uid;
  return sources.allocation.AskQueue(pod);
}

// What the report is about.
struct WantedPod {
  Pod pod;
  // Without these resources alignd does not admit it.
  std::set<std::string> unknown;
  // The last answer, if that was not for a lack of free resources.
  std::optional<PendingPod> failed;
};

// The daemon refuses unknown devices before it asks the policies, and knows the devices of the
// kubelet's own plugins. So its last answer says which are missing.
WantedPod KnownPod(const ReportSources& sources, const admission::NodeState& state,
                   const PendingPod& pending) {
  WantedPod wanted{*pending.pod, {}, std::nullopt};
  if (pending.by_policy) return wanted;
  const std::string missing = allocation::UnknownDeviceIn(pending.message);
  if (missing.empty()) {
    wanted.failed = pending;
    return wanted;
  }
  wanted.unknown = Unregistered(sources, state, wanted.pod);
  // Of the other ones, the answer says nothing yet.
  if (wanted.unknown.contains(missing)) wanted.unknown = {missing};
  return wanted;
}

// Whether the last decision about the pod, before alignd's last start, did not admit it.
bool WasPendingBefore(const ReportSources& sources, const std::string& pod) {
  const KeptDecisions& before = DecisionsBefore(sources);  // newest first
  const auto newest = std::ranges::find_if(before, [&pod](const auto& decision) {
    return allocation::NamesPod(pod, decision->pod_uid(), decision->pod_namespace(),
                                decision->pod_name());
  });
  return newest != before.end() && (*newest)->outcome() != "admitted";
}

// Whether the pod is assigned something. A refused one has a sandbox only. A name is enough only
// where the manifest has no UID: a StatefulSet's pod can have the name of one that still ends.
bool RunsHere(const ReportSources& sources, const admission::NodeState& state, const Pod& pod) {
  const std::set<std::string> uids = admission::PodsIn(state);
  if (uids.contains(pod.uid)) return true;
  const std::string name = pod.name_space + "/" + pod.name;
  if (pod.uid != name) return false;  // ReadOnePod gives one without UID its name
  const PodNames names = AllPodNames(sources);
  return std::ranges::any_of(uids, [&](const std::string& uid) {
    const auto known = names.find(uid);
    return known != names.end() && known->second == name;
  });
}

Result<WantedPod> FindWanted(const ReportSources& sources, const admission::NodeState& state,
                             const v1::WhyNotRequest& request) {
  if (!request.manifest().empty()) {
    const Result<placement::PlannedPod> planned = placement::ReadOnePod(request.manifest(), "");
    if (!planned.ok()) return planned.error();
    if (RunsHere(sources, state, planned->pod)) {
      return Error{ErrorCode::kInvalidArgument,
                   "pod " + planned->pod.name_space + "/" + planned->pod.name +
                       " runs on this node, and has what it is assigned",
                   "see `alignctl pods`; for another pod like it, give it another name and no uid"};
    }
    const std::string undecided = placement::UndecidedByAnnotation(sources.node, state, *planned);
    if (!undecided.empty()) {
      return Error{ErrorCode::kInvalidArgument, "undecided: " + undecided,
                   "ask for a pod without that"};
    }
    Pod pod = placement::PodOn(sources.node.config, *planned);
    std::set<std::string> unknown = Unregistered(sources, state, pod);
    return WantedPod{std::move(pod), std::move(unknown), std::nullopt};
  }
  const std::vector<PendingPod> found = sources.allocation.pending_pods().Find(request.pod());
  if (found.empty() && WasPendingBefore(sources, request.pod())) {
    return Error{ErrorCode::kNotFound,
                 "pod " + request.pod() +
                     " was not admitted before alignd was started again, and its requests are not "
                     "kept",
                 "wait until the kubelet asks again, at most 5 minutes, or give its manifest with "
                 "-f"};
  }
  if (found.empty()) {
    return Error{
        ErrorCode::kNotFound, "no pod " + request.pod() + " was refused in the last 15 minutes",
        "name a pod that `alignctl status` shows as refused, or give its manifest with -f"};
  }
  if (found.size() > 1) {
    std::string names;
    for (const PendingPod& one : found) names += (names.empty() ? "" : ", ") + one.name;
    return Error{ErrorCode::kInvalidArgument,
                 request.pod() + " is the name of several pods: " + names,
                 "name one of them with its namespace"};
  }
  if (found.front().pod == nullptr) {
    return Error{ErrorCode::kNotFound,
                 "pod " + found.front().name + ": its description is too large to be kept",
                 "give its manifest with -f"};
  }
  return KnownPod(sources, state, found.front());
}

void AddWaits(const allocation::QueueAnswer& queue, v1::WhyNotResponse& report) {
  for (const auto& place : queue.before) {
    std::string kinds;
    for (const std::string& kind : place->pod.needs) kinds += (kinds.empty() ? "" : ", ") + kind;
    v1::Change& added = *report.add_changes();
    added.set_kind("wait-for-pods");
    added.set_what(Readable("wait until pod " + place->pod.name + ", which waits for " + kinds +
                            ", has started, or delete it"));
  }
}

}  // namespace

Result<v1::WhyNotResponse> ReportWhyNot(const ReportSources& sources,
                                        const v1::WhyNotRequest& request,
                                        const std::function<bool()>& may_go_on) {
  const auto known = sources.allocation.snapshot();
  const Result<WantedPod> wanted = FindWanted(sources, known->state, request);
  if (!wanted.ok()) return wanted.error();
  const Pod& pod = wanted->pod;
  // Before the snapshot: see AskQueue.
  const std::optional<allocation::QueueAnswer> queue =
      request.manifest().empty() ? sources.allocation.AskQueue(pod) : AskQueueFor(sources, pod);
  const auto snapshot = sources.allocation.snapshot();
  const PodNames names = AllPodNames(sources);
  const admission::WhyNot found = admission::FindChanges(
      sources.node, snapshot->state, pod, wanted->unknown,
      [&names](const std::string& uid) {
        const auto name = names.find(uid);
        return name == names.end() ? uid : name->second;
      },
      may_go_on);
  v1::WhyNotResponse report;
  report.set_pod(Readable(pod.name_space + "/" + pod.name));
  report.set_asked(Readable(admission::DescribeRequest(sources.node, snapshot->state, pod)));
  report.set_fits(!found.refusal && !wanted->failed && !queue);
  report.set_is_complete(found.is_complete);
  if (queue && queue->before.empty()) {
    report.set_reason(queue->why.reason);
    report.set_message(Readable(queue->why.message));
    return report;  // no change helps
  }
  if (found.refusal) {
    report.set_reason(found.refusal->reason);
    std::string message = found.refusal->message;
    if (wanted->failed) message += ". Last error: " + wanted->failed->message;
    report.set_message(Readable(message));
  } else if (wanted->failed) {
    report.set_reason("failed");
    report.set_message(Readable(wanted->failed->message));
  } else if (queue) {
    report.set_reason(queue->why.reason);
    report.set_message(Readable(queue->why.message));
  }
  if (queue) AddWaits(*queue, report);
  for (const admission::Change& change : found.changes) {
    v1::Change& added = *report.add_changes();
    added.set_kind(std::string(ToString(change.kind)));
    added.set_what(Readable(change.what));
  }
  return report;
}

}  // namespace alignd::control
