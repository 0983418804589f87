#include "control/upkeep.h"

#include <chrono>

#include "control/readable.h"

namespace alignd::control {
namespace {

using Notes = google::protobuf::RepeatedPtrField<v1::UpkeepNote>;

int64_t UnixMs(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

void ToWire(const UpkeepNote& note, v1::UpkeepNote& message) {
  message.set_first_unix_ms(note.first_unix_ms);
  message.set_last_unix_ms(note.last_unix_ms);
  message.set_times(note.times);
  message.set_container_id(note.container_id);
  message.set_pod_uid(note.pod_uid);
  message.set_container(note.container);
  message.set_was(note.was);
  message.set_should(note.should);
  message.set_lasted_ms(note.lasted_ms);
  message.set_text(Readable(note.text));
  message.set_cure(note.cure);
  message.set_noticed_ms(note.noticed_ms);
  message.set_pod(note.pod);
}

UpkeepNote FromWire(const v1::UpkeepNote& message) {
  return {.first_unix_ms = message.first_unix_ms(),
          .last_unix_ms = message.last_unix_ms(),
          .times = message.times(),
          .container_id = message.container_id(),
          .pod_uid = message.pod_uid(),
          .container = message.container(),
          .was = message.was(),
          .should = message.should(),
          .lasted_ms = message.lasted_ms(),
          .text = message.text(),
          .cure = message.cure(),
          .noticed_ms = message.noticed_ms(),
          .pod = message.pod()};
}

void ToWire(const std::vector<UpkeepNote>& notes, Notes& messages) {
  for (const UpkeepNote& note : notes) ToWire(note, *messages.Add());
}

std::vector<UpkeepNote> FromWire(const Notes& messages) {
  std::vector<UpkeepNote> notes;
  for (const v1::UpkeepNote& message : messages) notes.push_back(FromWire(message));
  return notes;
}

void Name(const allocation::Subject& container, UpkeepNote& note) {
  note.container_id = container.container_id;
  note.pod_uid = container.key.pod_uid;
  note.container = container.key.container;
  note.pod = container.pod;
}

UpkeepNote ReportOutage(const allocation::RuntimeOutage& outage, int64_t now) {
  UpkeepNote note;
  note.first_unix_ms = UnixMs(outage.since);
  note.last_unix_ms = now;
  note.text =
      outage.error.empty() ? "it was asked what runs, and has not answered yet" : outage.error;
  note.text +=
      outage.never_answered
          ? ". It has not answered since alignd started: what is shown as held is what "
            "the state files say, and may be gone; new pods and containers wait"
          : ". What is shown as held is as of its last answer: what has ended since may be in it";
  note.cure = "start the runtime, or see in its log why it does not answer; alignd goes on asking";
  return note;
}

}  // namespace

Upkeep ReportUpkeep(const allocation::UpkeepReport& report) {
  Upkeep upkeep;
  upkeep.repairs = report.repairs;
  const int64_t now = UnixMs(std::chrono::system_clock::now());
  for (const allocation::Repair& repair : report.last_repairs) {
    UpkeepNote& note = upkeep.last_repairs.emplace_back();
    note.last_unix_ms = UnixMs(repair.time);
    note.first_unix_ms = note.last_unix_ms - repair.lasted.count();
    Name(repair.container, note);
    note.was = repair.was;
    note.should = repair.should;
    note.lasted_ms = repair.lasted.count();
    note.noticed_ms = repair.noticed.count();
  }
  for (const allocation::FailedUpdate& failed : report.failed_updates) {
    UpkeepNote& note = upkeep.failed_updates.emplace_back();
    note.first_unix_ms = UnixMs(failed.since);
    note.last_unix_ms = now;
    note.times = failed.times;
    Name(failed.container, note);
    note.should = failed.should;
    note.text = failed.error;
  }
  for (const allocation::ThrottledPod& pod : report.throttled_pods) {
    UpkeepNote& note = upkeep.throttled_pods.emplace_back();
    note.first_unix_ms = UnixMs(pod.since);
    note.last_unix_ms = now;
    note.times = pod.times;
    note.pod_uid = pod.pod_uid;
    note.text = pod.error;
    note.cure = pod.cure;
  }
  for (const allocation::OtherManager& other : report.other_managers) {
    UpkeepNote& note = upkeep.other_managers.emplace_back();
    note.first_unix_ms = UnixMs(other.first);
    note.last_unix_ms = UnixMs(other.last);
    note.times = other.times;
    note.text = other.sign;
    note.cure = other.cure;
  }
  if (report.runtime_outage) upkeep.runtime_outage = ReportOutage(*report.runtime_outage, now);
  for (const allocation::Unplaced& unplaced : report.unplaced) {
    UpkeepNote& note = upkeep.unplaced.emplace_back();
    note.first_unix_ms = UnixMs(unplaced.since);
    note.last_unix_ms = now;
    Name(unplaced.container, note);
    note.text =
        "it was made at the runtime itself: whatever it asks for, it runs in the shared "
        "pool and has no memory nodes or devices of alignd's";
    note.cure =
        "give who makes containers (the kubelet: --container-runtime-endpoint) alignd's "
        "socket, and delete the pod";
  }
  for (const allocation::PastMirror& devices : report.past_mirror) {
    UpkeepNote& note = upkeep.past_mirror.emplace_back();
    note.first_unix_ms = UnixMs(devices.since);
    note.last_unix_ms = now;
    Name(devices.container, note);
    note.text = allocation::DescribePastMirror(devices);
    note.cure = allocation::kOneDevicePlugin;
  }
  return upkeep;
}

v1::Upkeep ToWire(const Upkeep& upkeep) {
  v1::Upkeep message;
  message.set_repairs(upkeep.repairs);
  ToWire(upkeep.last_repairs, *message.mutable_last_repairs());
  ToWire(upkeep.failed_updates, *message.mutable_failed_updates());
  ToWire(upkeep.throttled_pods, *message.mutable_throttled_pods());
  ToWire(upkeep.other_managers, *message.mutable_other_managers());
  if (upkeep.runtime_outage) ToWire(*upkeep.runtime_outage, *message.mutable_runtime_outage());
  ToWire(upkeep.unplaced, *message.mutable_unplaced());
  ToWire(upkeep.past_mirror, *message.mutable_past_mirror());
  return message;
}

Upkeep FromWire(const v1::Upkeep& message) {
  return {.repairs = message.repairs(),
          .last_repairs = FromWire(message.last_repairs()),
          .failed_updates = FromWire(message.failed_updates()),
          .throttled_pods = FromWire(message.throttled_pods()),
          .other_managers = FromWire(message.other_managers()),
          .runtime_outage = message.has_runtime_outage()
                                ? std::optional(FromWire(message.runtime_outage()))
                                : std::nullopt,
          .unplaced = FromWire(message.unplaced()),
          .past_mirror = FromWire(message.past_mirror())};
}

}  // namespace alignd::control
