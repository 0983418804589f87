#include "control/condition_report.h"

#include <chrono>

#include "control/readable.h"

namespace alignd::control {
namespace {

using Notes = google::protobuf::RepeatedPtrField<v1::ConditionReport>;

int64_t UnixMs(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

void ToWire(const ConditionReport& note, v1::ConditionReport& message) {
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
  message.set_remedy(note.remedy);
  message.set_noticed_ms(note.noticed_ms);
  message.set_pod(note.pod);
}

ConditionReport FromWire(const v1::ConditionReport& message) {
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
          .remedy = message.remedy(),
          .noticed_ms = message.noticed_ms(),
          .pod = message.pod()};
}

void ToWire(const std::vector<ConditionReport>& notes, Notes& messages) {
  for (const ConditionReport& note : notes) ToWire(note, *messages.Add());
}

std::vector<ConditionReport> FromWire(const Notes& messages) {
  std::vector<ConditionReport> notes;
  for (const v1::ConditionReport& message : messages) notes.push_back(FromWire(message));
  return notes;
}

void Name(const reconcile::Subject& container, ConditionReport& note) {
  note.container_id = container.container_id;
  note.pod_uid = container.key.pod_uid;
  note.container = container.key.container;
  note.pod = container.pod;
}

ConditionReport ReportOutage(const reconcile::RuntimeOutage& outage, int64_t now) {
  ConditionReport note;
  note.first_unix_ms = UnixMs(outage.since);
  note.last_unix_ms = now;
  note.text =
      outage.error.empty() ? "it was asked what runs, and has not answered yet" : outage.error;
  note.text +=
      outage.never_answered
          ? ". It has not answered since alignd started: what is shown as held is what "
            "the state files say, and may be gone; new pods and containers wait"
          : ". What is shown as held is as of its last answer: what has ended since may be in it";
  note.remedy =
      "start the runtime, or see in its log why it does not answer; alignd goes on asking";
  return note;
}

}  // namespace

ConditionReports ReportConditions(const reconcile::ConditionsSnapshot& report) {
  ConditionReports conditions;
  conditions.repairs = report.repairs;
  const int64_t now = UnixMs(std::chrono::system_clock::now());
  for (const reconcile::Repair& repair : report.last_repairs) {
    ConditionReport& note = conditions.last_repairs.emplace_back();
    note.last_unix_ms = UnixMs(repair.time);
    note.first_unix_ms = note.last_unix_ms - repair.lasted.count();
    Name(repair.container, note);
    note.was = repair.was;
    note.should = repair.should;
    note.lasted_ms = repair.lasted.count();
    note.noticed_ms = repair.noticed.count();
  }
  for (const reconcile::FailedUpdate& failed : report.failed_updates) {
    ConditionReport& note = conditions.failed_updates.emplace_back();
    note.first_unix_ms = UnixMs(failed.since);
    note.last_unix_ms = now;
    note.times = failed.times;
    Name(failed.container, note);
    note.should = failed.should;
    note.text = failed.error;
  }
  for (const reconcile::ThrottledPod& pod : report.throttled_pods) {
    ConditionReport& note = conditions.throttled_pods.emplace_back();
    note.first_unix_ms = UnixMs(pod.since);
    note.last_unix_ms = now;
    note.times = pod.times;
    note.pod_uid = pod.pod_uid;
    note.text = pod.error;
    note.remedy = pod.remedy;
  }
  for (const reconcile::ConflictingManager& other : report.conflicting_managers) {
    ConditionReport& note = conditions.conflicting_managers.emplace_back();
    note.first_unix_ms = UnixMs(other.first);
    note.last_unix_ms = UnixMs(other.last);
    note.times = other.times;
    note.text = other.sign;
    note.remedy = other.remedy;
  }
  if (report.runtime_outage) conditions.runtime_outage = ReportOutage(*report.runtime_outage, now);
  for (const reconcile::Unmanaged& unmanaged : report.unmanaged) {
    ConditionReport& note = conditions.unmanaged.emplace_back();
    note.first_unix_ms = UnixMs(unmanaged.since);
    note.last_unix_ms = now;
    Name(unmanaged.container, note);
    note.text =
        "it was made at the runtime itself: whatever it asks for, it runs in the shared "
        "pool and has no memory nodes or devices of alignd's";
    note.remedy =
        "give who makes containers (the kubelet: --container-runtime-endpoint) alignd's "
        "socket, and delete the pod";
  }
  for (const reconcile::PastMirror& devices : report.past_mirror) {
    ConditionReport& note = conditions.past_mirror.emplace_back();
    note.first_unix_ms = UnixMs(devices.since);
    note.last_unix_ms = now;
    Name(devices.container, note);
    note.text = reconcile::DescribePastMirror(devices);
    note.remedy = reconcile::kOneDevicePlugin;
  }
  return conditions;
}

v1::ConditionReports ToWire(const ConditionReports& conditions) {
  v1::ConditionReports message;
  message.set_repairs(conditions.repairs);
  ToWire(conditions.last_repairs, *message.mutable_last_repairs());
  ToWire(conditions.failed_updates, *message.mutable_failed_updates());
  ToWire(conditions.throttled_pods, *message.mutable_throttled_pods());
  ToWire(conditions.conflicting_managers, *message.mutable_conflicting_managers());
  if (conditions.runtime_outage)
    ToWire(*conditions.runtime_outage, *message.mutable_runtime_outage());
  ToWire(conditions.unmanaged, *message.mutable_unmanaged());
  ToWire(conditions.past_mirror, *message.mutable_past_mirror());
  return message;
}

ConditionReports FromWire(const v1::ConditionReports& message) {
  return {.repairs = message.repairs(),
          .last_repairs = FromWire(message.last_repairs()),
          .failed_updates = FromWire(message.failed_updates()),
          .throttled_pods = FromWire(message.throttled_pods()),
          .conflicting_managers = FromWire(message.conflicting_managers()),
          .runtime_outage = message.has_runtime_outage()
                                ? std::optional(FromWire(message.runtime_outage()))
                                : std::nullopt,
          .unmanaged = FromWire(message.unmanaged()),
          .past_mirror = FromWire(message.past_mirror())};
}

}  // namespace alignd::control
