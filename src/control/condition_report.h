// The conditions log as a plain value, to and from the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/control/v1/control.pb.h"
#include "reconcile/conditions.h"

namespace alignd::control {

// What is meaningless for one kind of note is empty. Times are in milliseconds since 1970.
struct ConditionReport {
  int64_t first_unix_ms = 0;
  int64_t last_unix_ms = 0;
  uint64_t times = 1;
  std::string container_id;
  std::string pod_uid;
  std::string container;
  std::string was;
  std::string should;
  int64_t lasted_ms = 0;
  std::string text;
  std::string remedy;
  int64_t noticed_ms = 0;
  std::string pod;

  friend bool operator==(const ConditionReport&, const ConditionReport&) = default;
};

struct ConditionReports {
  uint64_t repairs = 0;
  std::vector<ConditionReport> last_repairs;
  std::vector<ConditionReport> failed_updates;
  std::vector<ConditionReport> throttled_pods;
  std::vector<ConditionReport> conflicting_managers;
  std::optional<ConditionReport> runtime_outage;
  std::vector<ConditionReport> unmanaged;
  std::vector<ConditionReport> past_mirror;

  friend bool operator==(const ConditionReports&, const ConditionReports&) = default;
};

ConditionReports ReportConditions(const reconcile::ConditionsSnapshot& report);

v1::ConditionReports ToWire(const ConditionReports& conditions);
ConditionReports FromWire(const v1::ConditionReports& message);

}  // namespace alignd::control
