// Builds the messages of the control service from the state of the daemon. These messages are the
// only representation of a report: the server sends them, and alignctl prints them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"
#include "alignd/control/v1/topology.pb.h"
#include "alignd/machine/machine.h"
#include "allocation/allocation_manager.h"
#include "allocation/decision_log.h"
#include "control/decision_history.h"
#include "dra/container_claims.h"
#include "reconcile/bypass.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"

namespace alignd::control {

// The maximum per resource. `left_out` is the number of further ones.
inline constexpr int kMaxHints = 64;

// Names of pods (namespace/name) by UID.
using PodNames = std::map<std::string, std::string>;

// What does not change while the daemon runs. A value.
struct DaemonFacts {
  std::string version;
  std::string node;  // the machine's host name
  std::chrono::system_clock::time_point started{};
  std::string state_dir{};
  std::string config{};  // empty: none
  std::string runtime_endpoint{};
  std::string device_plugin_dir{};
  std::vector<v1::Setting> settings{};
};

// Changes of the configuration. Thread-safe.
class ConfigChanger {
 public:
  virtual ~ConfigChanger() = default;

  // This machine with the configuration that the request names. Errors: with a remedy.
  virtual Result<admission::Node> NodeFor(const Machine& machine,
                                          const v1::ChangeRequest& request) const = 0;
  // Has the change be carried out when its outcome is asked for: alignd does not answer meanwhile,
  // so the caller must have its number. Replaces a change that has not begun. Gives the number.
  // Errors: kInvalidArgument: it cannot be; kUnavailable: another one is under way.
  virtual Result<uint64_t> Apply(const v1::ChangeRequest& request) = 0;
  // Whether containers may move in this change: as it says, or as the daemon's own file allows it.
  virtual bool MayMove(const v1::ChangeRequest& request) const = 0;
  // The file could not be applied: NotApplied says so from now on.
  virtual void Refused(const Error& error) = 0;
  virtual v1::GetChangeResponse Outcome(uint64_t change) = 0;
  // Why a reload of the file has failed, as long as the file says something else than what applies.
  // Reads the file.
  virtual std::optional<Error> NotApplied() = 0;
};

// Where the reports come from. The references outlive the reports; the functions are called on any
// thread.
struct ReportSources {
  using Pods = std::vector<reconcile::ContainerRegistry::Pod>;

  DaemonFacts facts;
  const admission::Node& node;
  const allocation::AllocationManager& allocation;
  const reconcile::Conditions& conditions;
  // Of the pods on the node. Other names are taken from the decisions.
  std::function<PodNames()> names;
  // Containers that are left out, because others have what they were assigned
  // (reconcile::ReusedContainers). May be empty.
  std::function<std::set<ContainerKey>()> reused = {};
  // The pods that run, and of those that have stopped the `holding` ones. May be empty.
  std::function<Pods(const std::set<std::string>& holding)> running = {};
  reconcile::Bypass* bypass = nullptr;  // null: it cannot be switched
  bool mirrors_devices = false;
  const DecisionHistory* history = nullptr;  // null: decisions are not saved
  std::set<std::string> not_devices = {};    // as AllocationManager's
  ConfigChanger* changer = nullptr;          // null: the configuration cannot be changed
  // Whether the state has all that running containers have (Reconciler::Recovered). Empty: it has.
  std::function<bool()> has_adopted = {};
  // The resources whose plugin was registered and is disconnected, and since when. Empty: not
  // known.
  std::function<std::map<std::string, std::chrono::steady_clock::time_point>()> disconnected = {};
  // The prepared claims, and where devices are found. May block. Empty: there are none.
  std::function<Result<dra::ContainerClaims>()> claims = {};
  dra::Places claim_places = {};
  // What alignd-events says of the topology object that it publishes. Empty: not of interest.
  std::function<void(const v1::TopologyPublication&)> published = {};
};

// The maximum per resource that ReportStatus lists; further ones are counted.
inline constexpr int kMaxListedDevices = 256;

// `list_devices`: with the devices of each resource.
v1::GetStatusResponse ReportStatus(const ReportSources& sources, bool list_devices = false);

// Only the NUMA nodes of the status.
v1::GetStatusResponse ReportNuma(const admission::Node& node, const admission::NodeState& state);

v1::ListPodsResponse ReportPods(const ReportSources& sources);

// The name of the pod (namespace/name); empty: not known.
PodNames AllPodNames(const ReportSources& sources);

// What the pod is assigned as a whole; nullopt: nothing. `pod`: namespace/name.
std::optional<v1::WholePod> ReportWholePod(const admission::NodeState& state,
                                           const std::string& pod_uid, const std::string& pod);

// The assignment, with the ids that the kubelet allocated and the problems of the devices.
v1::ContainerAssignment ReportAssignment(const ReportSources& sources,
                                         const admission::NodeState& state,
                                         const checkpoint::Bindings& bindings,
                                         const ContainerKey& key, const std::string& pod);

// Merges the hints again to find why the other candidates lost; this can take long. `node` and
// `topology` are those with which they were merged.
v1::ContainerDecision ExplainContainer(const admission::Node& node,
                                       const topologymanager::Policy& topology,
                                       const admission::ContainerDecision& decision);

// Calls ExplainContainer for each container.
v1::PodDecision ReportDecision(const admission::Node& node,
                               const allocation::PodDecision& decision);

}  // namespace alignd::control
