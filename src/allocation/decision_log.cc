#include "allocation/decision_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "alignd/admission/explanation.h"

namespace alignd::allocation {
namespace {

bool IsOf(const PodDecision& decision, std::string_view pod) {
  return pod.empty() || decision.pod_uid == pod || decision.name == pod ||
         decision.name_space + "/" + decision.name == pod;
}

bool SameAnswer(const PodDecision& a, const PodDecision& b) {
  return a.pod_uid == b.pod_uid && a.source == b.source && a.asked == b.asked &&
         a.containers == b.containers && a.assignments == b.assignments && a.refusal == b.refusal &&
         a.error == b.error && a.available == b.available;
}

std::string Describe(const admission::Assignment& assignment) {
  std::string text = !assignment.exclusive.empty() ? "CPUs " + assignment.exclusive.ToString()
                     : assignment.cpuset.empty()   ? "any CPUs"
                                                   : "shared CPUs";
  if (!assignment.memory_nodes.empty()) {
    text += ", memory of NUMA";
    for (const int id : assignment.memory_nodes) text += " " + std::to_string(id);
  }
  for (const auto& [resource, allocation] : assignment.devices) {
    text += ", " + resource;
    for (const std::string& id : allocation.Ids()) text += " " + id;
  }
  return text;
}

std::string DescribeOutcome(const PodDecision& decision) {
  if (decision.refusal) {
    return "refused, " + decision.refusal->reason + ": " + decision.refusal->message;
  }
  if (decision.error) return "failed: " + decision.error->Text();
  std::string text = "admitted";
  for (const auto& [container, assignment] : decision.assignments) {
    text += (text == "admitted" ? ", assigned " : "; ") + container + ": " + Describe(assignment);
  }
  return text;
}

}  // namespace

void PodDecision::Set(const Outcome& outcome) {
  time = std::chrono::system_clock::now();
  if (const auto* allocated = std::get_if<Allocated>(&outcome)) {
    assignments = allocated->assignments;
    for (auto& [container, assignment] : assignments) {
      for (auto& [resource, allocation] : assignment.devices) allocation.response.clear();
    }
  }
  if (const auto* why = std::get_if<Refusal>(&outcome)) refusal = *why;
  if (const auto* why = std::get_if<Error>(&outcome)) error = *why;
}

PodDecision DecisionAbout(const admission::Node& node, const admission::NodeState& state,
                          const Pod& pod, std::string source) {
  PodDecision decision;
  decision.pod_uid = pod.uid;
  decision.name_space = pod.name_space;
  decision.name = pod.name;
  decision.source = std::move(source);
  decision.asked = admission::DescribeRequest(node, state, pod);
  return decision;
}

bool IsPlain(const PodDecision& decision) {
  return decision.containers.empty() && !decision.refusal && !decision.error;
}

std::string Describe(const PodDecision& decision) {
  std::string text = "pod " + decision.name_space + "/" + decision.name + " (" + decision.pod_uid +
                     ") " + DescribeOutcome(decision);
  if (!decision.asked.empty()) text += " | requested " + decision.asked;
  if (!decision.source.empty()) text += " | source " + decision.source;
  if (!decision.available.empty()) text += " | available " + decision.available;
  return text;
}

void DecisionLog::Add(PodDecision decision) {
  {
    const MutexLock lock(mutex_);
    const auto last = std::ranges::find_if(
        newest_first_, [&](const auto& other) { return other->pod_uid == decision.pod_uid; });
    if (last != newest_first_.end() && SameAnswer(**last, decision)) {
      decision.times = (*last)->times + 1;
      newest_first_.erase(last);
    }
    newest_first_.push_front(std::make_shared<const PodDecision>(decision));
    if (newest_first_.size() > kCapacity) DropOne();
  }
  const bool is_news = decision.times == 1 && !IsPlain(decision);
  spdlog::log(is_news ? spdlog::level::info : spdlog::level::debug, "{}", Describe(decision));
}

// The oldest plain one, or the oldest of all where the newest is the only plain one.
void DecisionLog::DropOne() {
  const auto oldest_plain = std::find_if(newest_first_.rbegin(), newest_first_.rend(),
                                         [](const auto& decision) { return IsPlain(*decision); });
  const bool only_newest =
      oldest_plain == newest_first_.rend() || std::next(oldest_plain) == newest_first_.rend();
  newest_first_.erase(only_newest ? std::prev(newest_first_.end())
                                  : std::prev(oldest_plain.base()));
}

void DecisionLog::AddUndecided(PodDecision decision, const Outcome& outcome) {
  decision.Set(outcome);
  const auto* allocated = std::get_if<Allocated>(&outcome);
  const bool is_known =
      allocated != nullptr && std::ranges::all_of(allocated->assignments, [&](const auto& entry) {
        return HasAssignment({decision.pod_uid, entry.first});
      });
  if (is_known) return;
  Add(std::move(decision));
}

bool DecisionLog::HasAssignment(const ContainerKey& key) const {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(newest_first_, [&key](const auto& decision) {
    return decision->pod_uid == key.pod_uid && decision->assignments.contains(key.container);
  });
}

std::vector<std::shared_ptr<const PodDecision>> DecisionLog::Newest(std::string_view pod,
                                                                    size_t limit) const {
  std::vector<std::shared_ptr<const PodDecision>> found;
  const MutexLock lock(mutex_);
  for (const auto& decision : newest_first_) {
    if (found.size() >= limit) break;
    if (IsOf(*decision, pod)) found.push_back(decision);
  }
  return found;
}

}  // namespace alignd::allocation
