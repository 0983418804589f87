#include "allocation/decision_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/counted.h"
#include "host/log_event.h"

namespace alignd::allocation {
namespace {

// Two refusals of which one is not explained differ in that, and are the same otherwise.
bool SameRefusal(const PodDecision& a, const PodDecision& b) {
  if (a.is_explained && b.is_explained) return a.refusal == b.refusal && a.available == b.available;
  return a.refusal && b.refusal && a.refusal->reason == b.refusal->reason;
}

std::string Describe(const admission::Assignment& assignment) {
  std::string text = !assignment.exclusive.empty() ? "CPUs " + assignment.exclusive.ToString()
                     : assignment.cpuset.empty()   ? "any CPUs"
                     : assignment.shares_pod_cpus
                         ? "CPUs " + assignment.cpuset.ToString() + " shared in its pod"
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
    return (decision.waits ? "waits, " : "refused, ") + decision.refusal->reason + ": " +
           decision.refusal->message;
  }
  if (decision.error) {
    // What is not there yet, such as a device plugin, is no failure.
    const bool waits = decision.waits || decision.error->code == ErrorCode::kUnavailable;
    return (waits ? "waits: " : "failed: ") + decision.error->Text();
  }
  std::string text = "admitted";
  for (const auto& [container, assignment] : decision.assignments) {
    text += (text == "admitted" ? ", assigned " : "; ") + container + ": " + Describe(assignment);
  }
  return text;
}

// The limits of what is kept. Peers write most of these texts: a plugin's error may have a
// megabyte.
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxLogBytes = size_t{8} * 1024 * 1024;

void Cut(std::string& text) {
  if (text.size() <= kMaxTextBytes) return;
  size_t end = kMaxTextBytes;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
  const std::string more = " (and " + Counted(text.size() - end, "more byte") + ")";
  text = text.substr(0, end) + more;
}

void CutTexts(PodDecision& decision) {
  for (std::string* const text :
       {&decision.pod_uid, &decision.name_space, &decision.name, &decision.source, &decision.asked,
        &decision.available, &decision.wanted}) {
    Cut(*text);
  }
  if (decision.refusal) Cut(decision.refusal->message);
  if (decision.error) Cut(decision.error->message);
  if (decision.error) Cut(decision.error->remedy);
}

// About what it takes in memory.
size_t BytesOf(const PodDecision& decision) {
  constexpr size_t kNode = 64;  // of a map, or an element of a list
  size_t bytes = sizeof(PodDecision) + decision.pod_uid.size() + decision.name_space.size() +
                 decision.name.size() + decision.source.size() + decision.asked.size() +
                 decision.available.size();
  if (decision.refusal) bytes += decision.refusal->message.size();
  if (decision.error) bytes += decision.error->message.size() + decision.error->remedy.size();
  for (const admission::ContainerDecision& container : decision.containers) {
    bytes += sizeof container + container.container.size();
    for (const auto& [resource, hints] : container.hints) {
      bytes += kNode + resource.size();
      if (hints) bytes += hints->listed().size() * sizeof(topologymanager::TopologyHint);
    }
  }
  for (const auto& [container, assignment] : decision.assignments) {
    bytes += kNode + sizeof assignment + container.size();
    for (const auto& [resource, allocation] : assignment.devices) {
      bytes += kNode + sizeof allocation + resource.size();
      for (const auto& [node, ids] : allocation.devices) {
        for (const std::string& id : ids) bytes += kNode + id.size();
      }
    }
  }
  return bytes;
}

size_t BytesOf(const std::deque<std::shared_ptr<const PodDecision>>& decisions) {
  size_t bytes = 0;
  for (const auto& decision : decisions) bytes += BytesOf(*decision);
  return bytes;
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
  decision.own_policy = admission::OwnPolicy(node, pod);
  return decision;
}

bool NamesPod(std::string_view wanted, const std::string& uid, const std::string& name_space,
              const std::string& name) {
  return wanted.empty() || uid == wanted || name == wanted || name_space + "/" + name == wanted;
}

bool SameAnswer(const PodDecision& a, const PodDecision& b) {
  return a.pod_uid == b.pod_uid && a.source == b.source && a.asked == b.asked &&
         a.containers == b.containers && a.assignments == b.assignments && SameRefusal(a, b) &&
         a.error == b.error;
}

bool IsPlain(const PodDecision& decision) {
  return decision.containers.empty() && !decision.refusal && !decision.error;
}

std::string Describe(const PodDecision& decision) {
  std::string text = "pod " + decision.name_space + "/" + decision.name + " (" + decision.pod_uid +
                     ") " + DescribeOutcome(decision);
  // An explained refusal says both: on a large machine, a line of it is long enough.
  const auto add = [&text](const char* label, const std::string& value) {
    if (text.find(value) == std::string::npos) text += label + value;
  };
  add(" | requested ", decision.asked);
  if (!decision.source.empty()) text += " | source " + decision.source;
  add(" | available ", decision.available);
  return text;
}

namespace {

// Repeated answers, and pods that get nothing, are for debugging only.
void LogDecision(const PodDecision& decision, bool is_repeated) {
  const bool is_news = !is_repeated && !IsPlain(decision) && !decision.is_waiting_on;
  const bool is_bad = decision.refusal || decision.error;
  // What is not there yet, such as a device plugin, is no failure.
  const bool has_failed = decision.error && decision.error->code != ErrorCode::kUnavailable;
  static host::LineLimit limit("refused and failed pods");
  if (is_news && is_bad && !limit.Allow()) return;
  host::LogFields fields = {{"POD_UID", decision.pod_uid},
                            {"POD_NAMESPACE", decision.name_space},
                            {"POD_NAME", decision.name}};
  if (decision.containers.size() == 1) {
    fields.emplace_back("CONTAINER", decision.containers[0].container);
  }
  if (decision.refusal) fields.emplace_back("REASON", decision.refusal->reason);
  host::LogEvent(decision.error && !decision.waits ? host::kLogPodFailed
                 : is_bad                          ? host::kLogPodRefused
                                                   : host::kLogPodAdmitted,
                 !is_news                    ? spdlog::level::debug
                 : decision.waits || !is_bad ? spdlog::level::info
                 : has_failed                ? spdlog::level::err
                                             : spdlog::level::warn,
                 fields, Describe(decision));
}

// `decision` is the same answer as `last`.
void CountRepeated(const PodDecision& last, PodDecision& decision) {
  const bool is_first_of_containers = last.counted.empty() && !decision.wanted.empty();
  const bool is_next_attempt = !is_first_of_containers && decision.wanted == last.counted;
  decision.counted = is_first_of_containers ? decision.wanted : last.counted;
  decision.times = last.times + (is_next_attempt ? 1 : 0);
}

}  // namespace

bool DecisionLog::Add(PodDecision decision) {
  CutTexts(decision);
  decision.counted = decision.wanted;
  bool is_repeated = false;
  std::function<void()> observer;
  {
    const MutexLock lock(mutex_);
    const auto last = std::ranges::find_if(
        newest_first_, [&](const auto& other) { return other->pod_uid == decision.pod_uid; });
    if (last != newest_first_.end() && SameAnswer(**last, decision)) {
      is_repeated = true;
      CountRepeated(**last, decision);
      if (!decision.is_explained) {
        decision.refusal = (*last)->refusal;
        decision.available = (*last)->available;
        decision.is_explained = (*last)->is_explained;
      }
      newest_first_.erase(last);
    }
    newest_first_.push_front(std::make_shared<const PodDecision>(decision));
    if (newest_first_.size() > kCapacity) DropOne();
    while (newest_first_.size() > 1 && BytesOf(newest_first_) > kMaxLogBytes) DropOne();
    observer = observer_;
  }
  if (observer) observer();
  LogDecision(decision, is_repeated);
  return !is_repeated;
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

void DecisionLog::OnChange(std::function<void()> observer) {
  const MutexLock lock(mutex_);
  observer_ = std::move(observer);
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
    if (NamesPod(pod, decision->pod_uid, decision->name_space, decision->name)) {
      found.push_back(decision);
    }
  }
  return found;
}

}  // namespace alignd::allocation
