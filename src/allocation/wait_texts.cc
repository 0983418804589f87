#include "allocation/wait_texts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "alignd/admission/explanation.h"

namespace alignd::allocation {
namespace {

// A text for people: the pods beyond these are left out.
constexpr size_t kMaxNamed = 4;

std::string Joined(const std::set<std::string>& kinds) {
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  return text;
}

std::chrono::milliseconds Since(WaitQueue::Time since, WaitQueue::Time now) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - since);
}

}  // namespace

std::string WaitText(std::chrono::milliseconds duration) {
  if (duration < std::chrono::seconds(1)) return std::to_string(duration.count()) + " ms";
  return std::to_string(duration.count() / 1000) + " s";
}

Refusal WaitsBehind(const WaitingPod& pod, const WaitQueue::Place& first) {
  std::set<std::string> shared;
  std::ranges::set_intersection(pod.needs, first.pod.needs, std::inserter(shared, shared.end()));
  return {kWaitsForEarlierPods,
          "pod " + first.pod.name + " waits for " + Joined(shared) + ", is before pod " + pod.name +
              " in the queue, and is served first" + std::string(admission::kWhatWouldHelp) +
              "wait until pod " + first.pod.name +
              " has started, or delete it; a pod with a higher priority is served before it"};
}

std::string DescribePlace(const WaitQueue& queue, const std::string& uid, WaitQueue::Time now,
                          bool is_kept) {
  const size_t position = queue.PositionOf(uid);
  if (position == 0) return "";
  const std::vector<WaitQueue::SharedPlace> places = queue.Places();
  const WaitQueue::Place& place = *places[position - 1];
  std::string text = ". Waits: position " + std::to_string(position) + " of " +
                     std::to_string(places.size()) + " in the queue, for " +
                     WaitText(Since(place.since, now));
  for (size_t i = 0; i + 1 < position && i < kMaxNamed; ++i) {
    text += (i == 0 ? ", after pods " : ", ") + places[i]->pod.name;
  }
  if (position - 1 > kMaxNamed) {
    text += " and " + std::to_string(position - 1 - kMaxNamed) + " more";
  }
  if (place.pod.has_part) {
    text += ". It has a part of its resources already, so that other pods wait for it for " +
            WaitText(queue.limits().part_reserves) +
            " only: if two such pods wait for each other, delete one";
  }
  if (!is_kept) return text + ". The place ends with this answer";
  return text + ". The place is kept for " + WaitText(queue.limits().kept) + " after this answer";
}

std::string DescribeFull(const WaitQueue& queue) {
  return ". It gets no place in the queue: " + std::to_string(queue.size()) +
         " pods wait already. Delete pods that wait; the kubelet retries";
}

// The facts of the last refusal are of that time: later calls get the same answer.
Refusal WaitTimeout(const WaitQueue::Place& place, std::chrono::milliseconds fail_after) {
  return {place.why.reason,
          "the pod has waited for " + WaitText(fail_after) +
              ", as long as --on-refusal allows, and is refused from now on, whatever is free: "
              "delete the pod, so that its controller replaces it. Its last refusal before that: " +
              place.why.message};
}

}  // namespace alignd::allocation
