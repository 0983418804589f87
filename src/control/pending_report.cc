#include "control/pending_report.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "control/readable.h"
#include "control/unix_ms.h"

namespace alignd::control {
namespace {

// A container that waits for its plugin fails when its caller has waited long enough, and the
// kubelet repeats it: its decision says that it waits.
std::string StateOf(const allocation::PendingPod& pod, const allocation::DecisionLog& decisions) {
  if (pod.state != "failed") return pod.state;
  const auto newest = decisions.Newest(pod.key.pod_uid, 1);
  return !newest.empty() && newest.front()->waits ? "waiting" : pod.state;
}

// The pods that were not admitted before alignd's last start, and of which the kubelet has not
// asked since. As PendingPods, they are shown for a limited time: a pod may have been deleted.
std::map<ContainerKey, v1::PendingPod> PendingBefore(const ReportSources& sources) {
  std::map<ContainerKey, v1::PendingPod> entries;
  const int64_t oldest = UnixMs(std::chrono::system_clock::now() - allocation::PendingPods::kShown);
  // Each has a sandbox until the pod is deleted.
  const bool is_listed = sources.has_adopted && sources.has_adopted();
  const PodNames on_node = sources.names();
  std::set<std::string> seen;
  for (const auto& decision : DecisionsBefore(sources)) {  // newest first
    if (!seen.insert(decision->pod_uid()).second || decision->outcome() == "admitted") continue;
    if (decision->time_unix_ms() < oldest) continue;
    if (is_listed && !on_node.contains(decision->pod_uid())) continue;
    if (!sources.allocation.decisions().Newest(decision->pod_uid(), 1).empty()) continue;
    v1::PendingPod& entry = entries[{decision->pod_uid(), ""}];
    entry.set_pod_uid(decision->pod_uid());
    entry.set_pod(decision->pod_namespace() + "/" + decision->pod_name());
    entry.set_state(decision->outcome());
    entry.set_reason(decision->reason());
    entry.set_message("before alignd was started again: " + decision->message());
    entry.set_first_unix_ms(decision->time_unix_ms());
    entry.set_last_unix_ms(decision->time_unix_ms());
    entry.set_times(decision->times());
  }
  return entries;
}

}  // namespace

void AddWaiting(const allocation::WaitQueue& waiting,
                std::map<ContainerKey, v1::PendingPod>& entries) {
  uint32_t position = 0;
  for (const allocation::WaitQueue::SharedPlace& place : waiting.Places()) {
    const allocation::WaitingPod& pod = place->pod;
    const auto first = entries.lower_bound({pod.uid, ""});
    const bool is_known = first != entries.end() && first->first.pod_uid == pod.uid;
    if (!is_known) entries[{pod.uid, ""}];
    ++position;
    for (auto entry = entries.lower_bound({pod.uid, ""});
         entry != entries.end() && entry->first.pod_uid == pod.uid; ++entry) {
      v1::PendingPod& report = entry->second;
      if (report.until_unix_ms() > 0) continue;  // waits for a device plugin now
      report.set_pod_uid(Readable(pod.uid));
      report.set_pod(Readable(pod.name));
      report.set_state("waiting");
      const Refusal& why = place->WhyOf(entry->first.container);
      report.set_reason(why.reason);
      report.set_message(Readable(why.message));
      report.set_first_unix_ms(UnixMs(place->since));
      report.set_position(position);
      report.set_priority(pod.priority);
    }
  }
}

const KeptDecisions& DecisionsBefore(const ReportSources& sources) {
  static const KeptDecisions none;
  return sources.history == nullptr ? none : sources.history->before();
}

std::vector<v1::PendingPod> ReportPending(const ReportSources& sources) {
  const allocation::AllocationManager& allocation = sources.allocation;
  std::map<ContainerKey, v1::PendingPod> entries = PendingBefore(sources);
  for (const allocation::PendingPod& pod : allocation.pending_pods().Report()) {
    v1::PendingPod& entry = entries[pod.key];
    entry.set_pod_uid(Readable(pod.key.pod_uid));
    entry.set_pod(Readable(pod.name));
    entry.set_container(Readable(pod.key.container));
    entry.set_state(StateOf(pod, allocation.decisions()));
    entry.set_reason(pod.reason);
    entry.set_message(Readable(pod.message));
    entry.set_first_unix_ms(UnixMs(pod.first));
    entry.set_last_unix_ms(UnixMs(pod.last));
    entry.set_times(pod.times);
  }
  if (const auto list = allocation.waits().list) {
    for (const allocation::HeldRequests::Wait& wait : *list) {
      v1::PendingPod& entry = entries[wait.key];
      entry.set_pod_uid(Readable(wait.key.pod_uid));
      entry.set_pod(Readable(wait.name));
      entry.set_container(Readable(wait.key.container));
      entry.set_state("waiting");
      entry.clear_reason();
      entry.set_message(Readable(wait.why));
      if (entry.times() == 0) entry.set_first_unix_ms(UnixMs(wait.since));
      entry.set_until_unix_ms(UnixMs(wait.until));
    }
  }
  if (const auto waiting = allocation.WaitingPods()) AddWaiting(*waiting, entries);
  std::vector<v1::PendingPod> report;
  for (auto& [key, entry] : entries) report.push_back(std::move(entry));
  std::ranges::stable_sort(report, {}, &v1::PendingPod::first_unix_ms);
  return report;
}

}  // namespace alignd::control
