// Reports of the control service as JSON, for programs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/control/v1/control.pb.h"
#include "alignd/placement/fit.h"

namespace alignd::cli {

// One JSON object on one line. Field names are those of control.proto. Exceptions: what has a name
// is keyed by it (devices by resource, hints by resource); `numa` is null for "any NUMA node";
// `hints` is null for a resource without an opinion. Times are ISO 8601 in UTC
// ("2026-11-22T12:03:11Z"), durations as "30s"; their names lack the `_unix_ms` of the message.
// `health` is "healthy" or "degraded", and `problems` has the reasons (ProblemsOf).
std::string StatusJson(const control::v1::GetStatusResponse& status);

// A JSON array on one line, newest decision first.
std::string DecisionsJson(const control::v1::ExplainResponse& explained);

// One JSON object on one line, with the list `pods`.
std::string PodsJson(const control::v1::ListPodsResponse& pods);

// One JSON object on one line.
std::string WhyNotJson(const control::v1::WhyNotResponse& why);

// One pod of a plan.
struct PlanEntry {
  control::v1::PodDecision decision;
  std::string outcome;  // "fits", "refused", "undecided"
  std::string stage;    // that refuses it or cannot decide; empty: it fits
  std::string owner;    // the object that makes the pod; empty: none
  std::vector<std::string> faults;
  std::vector<std::string> not_considered;
  // In place of the decision's assignments, on a node that is known from an object.
  placement::Placements amounts = {};
};

struct Plan {
  std::vector<PlanEntry> entries;
  // By resource: requested, allocatable.
  std::map<std::string, std::pair<std::string, std::string>> scheduler;
  std::vector<std::string> skipped;
  std::vector<std::string> notes;
};

// Where pods would be placed: an object with `decisions` and `numa`, as in the other reports, and
// `scheduler`, `skipped`, `notes`. `outcome` of a decision is that of its entry. On a node that is
// known from an object, `numa` is empty, and assignments have numbers in place of ids.
std::string PlanJson(const Plan& plan, const control::v1::GetStatusResponse& after);

}  // namespace alignd::cli
