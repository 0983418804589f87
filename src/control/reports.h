// What the control service tells, as plain values: made from the state here, carried over the
// socket by control_server and control_client, printed by alignctl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/explanation.h"
#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "allocation/decision_log.h"
#include "control/condition_report.h"

namespace alignd::control {

struct Policies {
  std::string cpu_manager;
  std::string memory_manager;
  std::string topology_manager;
  std::string topology_scope;
  std::string compatibility;
  std::map<std::string, std::string> cpu_manager_options;
  std::map<std::string, std::string> topology_manager_options;

  friend bool operator==(const Policies&, const Policies&) = default;
};

// All devices of one resource, with and without NUMA node.
struct DeviceResource {
  std::string name;
  bool registered = false;  // its plugin is there
  admission::Availability healthy;
  uint64_t unhealthy = 0;

  friend bool operator==(const DeviceResource&, const DeviceResource&) = default;
};

struct AssignedDevice {
  std::string id;
  std::vector<int64_t> numa;  // NUMA node ids; empty: none
  std::string kubelet_id{};   // the id that the kubelet counted, where it is another one
  std::string problem{};      // why its container can hardly use it; empty: it is well

  friend bool operator==(const AssignedDevice&, const AssignedDevice&) = default;
};

// What one container holds.
struct ContainerReport {
  std::string pod_uid;
  std::string pod;  // namespace/name, where it is still known
  std::string container;
  CpuSet exclusive;
  std::vector<int> memory_nodes;
  std::map<std::string, std::vector<AssignedDevice>> devices;  // by resource

  friend bool operator==(const ContainerReport&, const ContainerReport&) = default;
};

struct StatusReport {
  std::string version;
  uint64_t generation = 0;
  Policies policies;
  CpuSet default_set;
  CpuSet reserved_cpus;
  std::vector<admission::NumaAvailability> numa;
  std::vector<DeviceResource> devices;
  std::vector<ContainerReport> containers;  // by pod UID and name
  ConditionReports conditions;

  friend bool operator==(const StatusReport&, const StatusReport&) = default;
};

// A hint with NUMA node ids in place of positions.
struct HintReport {
  std::optional<std::vector<int>> numa;  // nullopt: any
  bool preferred = false;

  friend bool operator==(const HintReport&, const HintReport&) = default;
};

struct ResourceHints {
  static constexpr size_t kMaxHints = 64;

  std::string resource;
  bool no_opinion = false;        // any NUMA node, preferred
  std::vector<HintReport> hints;  // no more than kMaxHints
  uint64_t left_out = 0;

  friend bool operator==(const ResourceHints&, const ResourceHints&) = default;
};

struct CandidateReport {
  HintReport hint;
  std::string verdict;

  friend bool operator==(const CandidateReport&, const CandidateReport&) = default;
};

// How the answer for one container came about.
struct ContainerExplanation {
  std::string container;
  std::vector<ResourceHints> hints;
  std::optional<HintReport> merged;  // nullopt with topology policy none
  std::vector<CandidateReport> candidates;
  uint64_t candidates_left_out = 0;
  std::vector<std::string> notes;

  friend bool operator==(const ContainerExplanation&, const ContainerExplanation&) = default;
};

struct DecisionReport {
  int64_t time_unix_ms = 0;  // 0: not a decision of a daemon
  uint64_t times = 1;
  std::string pod_uid;
  std::string name_space;
  std::string name;
  std::string source;
  std::string asked;
  std::string outcome;  // "granted", "refused" or "failed"
  std::string reason;
  std::string message;
  std::string left;
  std::vector<ContainerExplanation> containers;
  std::vector<ContainerReport> assignments;

  friend bool operator==(const DecisionReport&, const DecisionReport&) = default;
};

// Names of pods (namespace/name) by UID.
using PodNames = std::map<std::string, std::string>;

// `names`: of the pods that are there. `decisions` names others, as far as it goes back.
StatusReport ReportStatus(const std::string& version, const admission::Node& node,
                          const allocation::Snapshot& snapshot, PodNames names,
                          const allocation::DecisionLog& decisions,
                          const checkpoint::Bindings& bindings = {});

// The losing candidates are found by merging the hints again; `node` is the one on which they were
// merged.
ContainerExplanation ExplainContainer(const admission::Node& node,
                                      const admission::ContainerDecision& decision);

// `node` as in ExplainContainer.
DecisionReport ReportDecision(const admission::Node& node, const allocation::PodDecision& decision);

}  // namespace alignd::control
