#include "events/pod_event.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "host/node_name.h"
#include "host/utc_time.h"

namespace alignd::events {
namespace {

using nlohmann::json;

constexpr size_t kMaxNameBytes = 253;  // of an API object
constexpr size_t kMaxMessageBytes = 1024;
// The kubelet repeats a request that is refused; each time is an occurrence.
constexpr std::chrono::seconds kBetweenAnswers{60};
// A condition lasts; the API server keeps an Event for an hour.
constexpr std::chrono::minutes kWhileItLasts{30};

// FNV-1a with 64 bits: the same name after a restart, on every machine.
std::string Digest(std::string_view text) {
  uint64_t hash = 14695981039346656037U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits(16, '0');
  for (char& digit : digits) {
    digit = kDigits[hash & 0xF];
    hash >>= 4;
  }
  return digits;
}

// At most kMaxMessageBytes, cut between two characters.
std::string Shortened(const std::string& message) {
  if (message.size() <= kMaxMessageBytes) return message;
  constexpr std::string_view kMore = "...";
  size_t end = kMaxMessageBytes - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return message.substr(0, end) + std::string(kMore);
}

// Whether it is an init container is not known: so the message names it, and no fieldPath.
std::string Text(const PodEvent& event) {
  return Shortened(event.container.empty() ? event.message
                                           : "container " + event.container + ": " + event.message);
}

std::string ApiTime(int64_t unix_ms) {
  return host::UtcTime(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

// "namespace/name" into the event; false if it is none.
bool SetPod(std::string_view pod, const std::string& uid, PodEvent& event) {
  const size_t slash = pod.find('/');
  if (slash == std::string_view::npos || uid.empty()) return false;
  event.pod_namespace = pod.substr(0, slash);
  event.pod_name = pod.substr(slash + 1);
  event.pod_uid = uid;
  return host::IsObjectName(event.pod_namespace) && host::IsObjectName(event.pod_name);
}

std::string Described(const control::v1::ContainerAssignment& assigned) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (!assigned.exclusive_cpus().empty()) add("exclusive CPUs " + assigned.exclusive_cpus());
  if (!assigned.pod_cpus().empty()) add("CPUs " + assigned.pod_cpus() + " shared in its pod");
  if (assigned.has_shared_on_node()) {
    add("shared CPUs of NUMA node " + std::to_string(assigned.shared_on_node().numa()));
  }
  if (assigned.memory_nodes_size() > 0) {
    std::string nodes;
    for (const int32_t node : assigned.memory_nodes()) {
      nodes += (nodes.empty() ? "" : ",") + std::to_string(node);
    }
    add((assigned.memory_nodes_size() == 1 ? "memory of NUMA node " : "memory of NUMA nodes ") +
        nodes);
  }
  for (const control::v1::AssignedDevices& devices : assigned.devices()) {
    std::string ids;
    for (const control::v1::Device& device : devices.devices()) {
      ids += (ids.empty() ? "" : ",") + device.id();
    }
    add(devices.resource() + " " + ids);
  }
  return text;
}

void AddPending(const control::v1::GetStatusResponse& report, std::vector<PodEvent>& events) {
  for (const control::v1::PendingPod& pod : report.pending()) {
    PodEvent event;
    if (!SetPod(pod.pod(), pod.pod_uid(), event)) continue;
    const bool waits = pod.state() == "waiting";
    event.container = pod.container();
    event.is_warning = !waits;
    event.reason = pod.position() > 0 ? "WaitingForResources"
                   : waits            ? "WaitingForDevicePlugin"
                                      : pod.reason();
    if (event.reason.empty()) event.reason = "AllocationFailed";
    event.message = pod.message();
    if (pod.position() > 0) {  // the position is not in it: each change would be a new text
      event.message = "waits in alignd's queue: " + pod.reason() + ": " + pod.message();
    }
    event.first_unix_ms = pod.first_unix_ms();
    event.last_unix_ms =
        waits || pod.last_unix_ms() == 0 ? pod.first_unix_ms() : pod.last_unix_ms();
    event.times = waits ? 1 : std::max<uint64_t>(pod.times(), 1);
    if (!waits) event.repeated_after = kBetweenAnswers;
    events.push_back(std::move(event));
  }
}

void AddConditions(const control::v1::GetStatusResponse& report, std::vector<PodEvent>& events) {
  for (const control::v1::Condition& condition : report.conditions()) {
    PodEvent event;
    if (!SetPod(condition.pod(), condition.pod_uid(), event)) continue;
    event.container = condition.container();
    event.is_warning = true;
    event.reason = condition.type();
    event.message = condition.message();
    if (!condition.remedy().empty()) event.message += ". What to do: " + condition.remedy();
    event.first_unix_ms = condition.first_unix_ms();
    event.last_unix_ms = condition.last_unix_ms();
    event.repeated_after = kWhileItLasts;
    events.push_back(std::move(event));
  }
}

void AddAssignments(const control::v1::GetStatusResponse& report, std::vector<PodEvent>& events) {
  for (const control::v1::ContainerAssignment& assigned : report.containers()) {
    PodEvent event;
    if (!SetPod(assigned.pod(), assigned.pod_uid(), event)) continue;
    event.container = assigned.container();
    event.reason = "Assigned";
    event.message = Described(assigned);
    event.first_unix_ms = event.last_unix_ms = report.time_unix_ms();
    if (!event.message.empty()) events.push_back(std::move(event));
  }
}

}  // namespace

std::string PodEvent::ObjectName() const {
  const std::string suffix = ".alignd-" + Digest(pod_uid + '\0' + container + '\0' + reason);
  std::string name = pod_name.substr(0, kMaxNameBytes - suffix.size());
  while (name.ends_with('-') || name.ends_with('.')) name.pop_back();
  return name + suffix;
}

std::string PodEvent::Object(const std::string& node) const {
  const json object = {{"apiVersion", "v1"},
                       {"kind", "Event"},
                       {"metadata", {{"name", ObjectName()}, {"namespace", pod_namespace}}},
                       {"involvedObject",
                        {{"apiVersion", "v1"},
                         {"kind", "Pod"},
                         {"namespace", pod_namespace},
                         {"name", pod_name},
                         {"uid", pod_uid}}},
                       {"type", is_warning ? "Warning" : "Normal"},
                       {"reason", reason},
                       {"message", Text(*this)},
                       {"source", {{"component", "alignd"}, {"host", node}}},
                       {"reportingComponent", "alignd"},
                       {"reportingInstance", node},
                       {"firstTimestamp", ApiTime(first_unix_ms)},
                       {"lastTimestamp", ApiTime(last_unix_ms)},
                       {"count", std::min<uint64_t>(times, INT32_MAX)}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string PodEvent::Repetition(uint64_t count) const {
  const json change = {{"message", Text(*this)},
                       {"lastTimestamp", ApiTime(last_unix_ms)},
                       {"count", std::min<uint64_t>(count, INT32_MAX)}};
  return change.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<PodEvent> EventsOf(const control::v1::GetStatusResponse& report) {
  std::vector<PodEvent> events;
  AddPending(report, events);
  AddConditions(report, events);
  AddAssignments(report, events);
  std::map<std::string, PodEvent> by_name;
  for (PodEvent& event : events) {
    const std::string name = event.pod_namespace + "/" + event.ObjectName();
    const auto known = by_name.find(name);
    if (known == by_name.end() || known->second.last_unix_ms < event.last_unix_ms) {
      by_name.insert_or_assign(name, std::move(event));
    }
  }
  events.clear();
  for (auto& [name, event] : by_name) events.push_back(std::move(event));
  std::ranges::stable_sort(events, {}, &PodEvent::first_unix_ms);
  return events;
}

}  // namespace alignd::events
