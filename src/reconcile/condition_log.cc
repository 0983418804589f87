#include "reconcile/condition_log.h"

#include <spdlog/spdlog.h>

#include <string>

#include "host/log_event.h"

namespace alignd::reconcile {
namespace {

std::string About(const Condition& condition) {
  const std::string subject = NameOf(condition.subject);
  return (subject.empty() ? "" : subject + ": ") + condition.message;
}

bool IsError(ConditionType type) {
  return type == ConditionType::kConflictingCpuManager ||
         type == ConditionType::kStateNotWritable ||
         type == ConditionType::kConflictingDevicePlugin || type == ConditionType::kBypass ||
         type == ConditionType::kStateRebuilt || type == ConditionType::kAssignmentUnknown ||
         type == ConditionType::kKubeletNotAttached ||
         type == ConditionType::kConfigurationNotApplied ||
         type == ConditionType::kMetricsUnavailable;
}

host::LogFields FieldsOf(const Condition& condition) {
  host::LogFields fields = {{"CONDITION", std::string(ToString(condition.type))},
                            {"POD_UID", condition.subject.key.pod_uid},
                            {"CONTAINER", condition.subject.key.container}};
  host::AddPodName(condition.subject.pod, fields);
  return fields;
}

}  // namespace

void LogActive(const Condition& condition) {
  static host::LineLimit limit("conditions of containers and pods");
  if (!condition.subject.key.pod_uid.empty() && !limit.Allow()) return;
  const auto level = IsError(condition.type) ? spdlog::level::err : spdlog::level::warn;
  host::LogEvent(host::kLogCondition, level, FieldsOf(condition),
                 std::string(ToString(condition.type)) + ": " + About(condition) +
                     (condition.remedy.empty() ? "" : "; ") + condition.remedy);
}

void LogResolved(const Condition& condition) {
  const bool has_list = condition.type == ConditionType::kUnsupportedAnnotation;  // of any length
  host::LogEvent(host::kLogResolved, spdlog::level::info, FieldsOf(condition),
                 std::string(ToString(condition.type)) + " resolved" +
                     (has_list ? "" : ". It was: " + About(condition)));
}

}  // namespace alignd::reconcile
