// A node for planning: whether a pod passes the API server's validation, the scheduler's arithmetic
// and the kubelet's admission, in this order. Of the scheduler's other plugins, taints and
// spec.nodeSelector are considered if there is a Node object. Affinity, spread constraints and host
// ports are not (NotConsidered): the scheduler can refuse a pod with them that fits here.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/placement/guessed_places.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_files.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/scheduler.h"
#include "alignd/pod/refusal.h"
#include "alignd/scenario/simulation.h"

namespace alignd::placement {

// Where a pod is refused.
enum class Stage { kValidation, kScheduler, kKubelet };

// "validation", "scheduler", "kubelet".
std::string_view ToString(Stage stage);

enum class Outcome {
  kFits,
  kRefused,
  kUndecided,  // too little is known of the pod, of the node, or of a pod placed before
};

// "fits", "refused", "undecided".
std::string_view ToString(Outcome outcome);

// What becomes of one pod.
struct Verdict {
  Outcome outcome = Outcome::kFits;
  Stage stage = Stage::kKubelet;   // the last stage that was asked
  std::optional<Refusal> refusal;  // also why it is undecided; of the kubelet, without explanation
  // The kubelet's decision, if it was asked.
  std::optional<admission::Admission> admission;
  // The same text for all nodes that refuse alike: the refusal without amounts. Empty: it fits.
  std::string cause = {};
};

// What follows if a pod runs that the node would not admit now, and of which no state file has all.
enum class IfRefused {
  kOpen,   // later pods that need what it can have are undecided
  kError,  // the node cannot have that configuration
};

// Owns its state. Copies share the machine and the configuration. Not thread-safe.
class PlannedNode {
 public:
  // `pod_limit`: PodLimitOf. Pods of the files are counted with the CPUs, memory and devices that
  // they are assigned: the files do not have what they request beyond that.
  // Errors: kInvalidArgument: the configuration cannot manage the node, a device is on a NUMA node
  // that does not exist, the files do not match the node.
  static Result<PlannedNode> Make(NodeInput input, const KubeletConfig& config, int64_t pod_limit,
                                  const NodeFiles& files);

  // Decides about the pod, and places it if it fits. The stages are asked in order, and only as
  // long as none refuses. A refused pod requests nothing from the scheduler afterwards. What an
  // undecided pod takes is not known: a pod after it is refused before the kubelet is
  // asked, or undecided, too. A pod whose annotation contradicts its spec is refused or undecided;
  // a pod after it is undecided if its answer depends on which of both the node follows. So is one
  // after a pod that the node takes with or without devices (PlannedPod::without_devices), which is
  // itself undecided only if the answers differ. And one whose answer depends on whether the init
  // containers of a pod before it have ended.
  Verdict Place(const PlannedPod& pod);

  // Whether the node has the pod is not known: no later pod can be decided. If its annotation
  // contradicts its spec, those can whose answer is the same in all cases.
  void LeaveOpen(const PlannedPod& pod);

  // What Place would answer. Changes nothing. Different threads may call it.
  Verdict Ask(const PlannedPod& pod) const;

  // A pod that runs on the node: it is counted, and assigned what it requests unless it has it.
  // Where a pod is that no state file has is a guess: later pods are undecided if it matters. Of a
  // pod that the node would not admit now, what the state files have counts. After one of which
  // they do not have all, or that is resized in place and that they do not have, later pods are
  // undecided that need what it can have. After one whose annotation contradicts its spec, later
  // pods are undecided if it matters which of both the node has followed. One that waits for a node
  // is ignored.
  // Errors: kInvalidArgument if too little is known of the pod; with kError, also if the node would
  // not admit it, whatever other pods there are that no state file has.
  Result<Done> AddRunning(const PlannedPod& pod, IfRefused if_refused = IfRefused::kOpen);

  // A pod that runs on the node, and whose assignments the object has (NodeInput::object_view):
  // only what it requests is counted.
  void CountRunning(const PlannedPod& pod);

  // A pod that is bound to the node, and whose assignments the object does not have yet. If it is
  // not known how the node decides about it, later pods that need what it can have are undecided.
  void AddArriving(const PlannedPod& pod);

  // Fields of the pod that the scheduler looks at, and that Place does not consider; and that a pod
  // which the kubelet's stage has refused waits for what this one needs, and is served before it.
  std::vector<std::string> NotConsidered(const PlannedPod& pod) const;
  // Whether a DaemonSet has a pod on the node, as far as the Node object says it.
  bool IsNodeOf(const PlannedPod& pod) const;
  // Of the Node object; empty: there is none.
  std::string name() const { return input_->object ? input_->object->name : std::string(); }
  // What a user should know about the description of the node.
  const std::vector<std::string>& notes() const { return notes_; }
  // Whether the node is known from a NodeResourceTopology object: ids of CPUs and devices are made
  // up then.
  bool is_of_object() const { return input_->object_view.has_value(); }
  // Whether pods run on it of which no state file has what they are assigned.
  bool has_guesses() const { return !guessed_.empty(); }
  // Whether no other pod can be decided: nothing is known of one before it.
  bool has_undecided() const;
  // The UIDs and the names (NAMESPACE/NAME) of all pods of the node, as far as they are known.
  std::vector<std::string> KnownPods() const;

  const admission::Node& node() const { return simulation_.node(); }
  const admission::NodeState& state() const { return simulation_.state(); }
  const Allocatable& allocatable() const { return allocatable_; }
  const RequestedResources& requested() const { return requested_; }

 private:
  PlannedNode(scenario::Simulation simulation, Allocatable allocatable, NodeInput input);

  void SetUndecided(const Pod& pod, bool is_by_annotation = false);
  // If the kubelet's stage has refused the pod, as one reading has it, and it would fit without
  // others, it can wait on the node; also if it fits, behind others that wait.
  void NoteWait(const PlannedPod& pod, const Verdict& answer);
  // The functions of these names, by what this node alone knows. `counted`: what the scheduler
  // counts for the pod, which is what its spec requests.
  Verdict PlaceHere(const PlannedPod& pod, const ResourceList& counted);
  Verdict AskHere(const PlannedPod& pod, const ResourceList& counted) const;
  // How a node decides about a pod that it takes as the annotation has it.
  enum class Decided { kWhole, kInParts };
  void ArriveHere(const PlannedPod& pod, const ResourceList& counted, Decided decided);
  // `reading`: the pod as this node takes it.
  Result<Done> RunHere(const PlannedPod& reading, const PlannedPod& pod, IfRefused if_refused);
  // A pod that runs, and of which it is only known that it has at most what `reading` requests.
  void RunUnclear(const PlannedPod& reading, const PlannedPod& pod);
  // What the description of the node says of a pod that runs is placed with it.
  void ForgetOwned(const Pod& pod);
  // The pod with the annotations that this node follows; nullopt: as it is.
  std::optional<PlannedPod> AsAnnotatedHere(const PlannedPod& pod) const;
  // Of a pod that the node takes as its spec has it, or as its annotation has it; and, if the node
  // may refuse it for its annotation, not at all.
  Verdict PlaceAnnotated(const PlannedPod& pod, bool may_refuse);
  Verdict PlacePlain(const PlannedPod& pod);  // of another one
  Verdict AskAnnotated(const PlannedPod& pod, bool may_refuse) const;
  // kInParts: the annotation does not name all containers. The node decides about the others when
  // they are created, each alone: it can admit some of the containers, and others elsewhere than a
  // node that knows the whole pod.
  Decided DecidedByAnnotation(const PlannedPod& pod) const;
  // The init containers of a pod that was placed have ended: what no other container of it reuses
  // is free again. The node as it was before, unless that changes nothing.
  std::optional<PlannedNode> EndInitContainers(const PlannedPod& pod);
  // The same of this node and of `others_`, which get the nodes as they were.
  void MayEndInitContainers(const PlannedPod& pod);
  void NoteInitContainers(const Pod& pod);
  void MayStart(const PlannedPod& pod);
  // `others_` and these, each once. Whether there are new ones among `more`. nullopt: they are too
  // many, and `more` are left out.
  std::optional<bool> AddOthers(std::vector<PlannedNode> others, std::vector<PlannedNode> more);
  // A pod whose annotation differs from its spec, of which there are several readings now.
  void NoteReadings(const PlannedPod& pod);
  // Changes the verdict to undecided if the answer of another reading is another one.
  void Compare(Verdict other, Verdict& verdict) const;
  // Whether each pod gets the same answer.
  bool IsAlike(const PlannedNode& other) const;

  void CountPodsOfFiles();
  // What a pod that runs has been assigned is a guess, unless it comes last: those that come before
  // it are guesses too, unless they are alike. `before`: the state without it. False: it is none.
  bool Guess(const PlannedPod& pod, bool comes, const admission::NodeState& before);
  // guessed_, to add a pod that runs: those that came before it are guesses then.
  GuessedPlaces& Guesses();
  // The part of AddRunning that assigns. `name`: of the pod, for errors and notes.
  Result<Done> PlaceRunning(const PlannedPod& pod, const std::string& name, IfRefused if_refused);
  // Whether the pod has an assignment.
  bool IsInState(const PlannedPod& pod) const;
  // The resources of which the pod can have devices by its annotation alone, which no state file
  // has.
  std::set<std::string> UnlistedDevices(const PlannedPod& pod) const;
  // Resources of the node of which the pod requests more devices than the scheduler counts for it.
  std::set<std::string> UncountedDevices(const PlannedPod& pod, const ResourceList& counted) const;
  // The pod as the node's managers have it.
  Pod Managed(const PlannedPod& pod) const;
  // The answer, if a stage before the kubelet has it.
  std::optional<Verdict> BeforeKubelet(const PlannedPod& pod, const ResourceList& counted) const;
  std::optional<Verdict> RefusedByScheduler(const PlannedPod& pod,
                                            const ResourceList& requests) const;
  // Why the pod cannot be decided, whatever was placed before it.
  std::vector<std::string> UndecidedItself(const PlannedPod& pod) const;
  // Why it is not known which CPUs are free for the pod; empty: it is.
  std::string UnknownShares(const PlannedPod& pod) const;
  // What the pod needs that containers of the node had, without a state file that has them.
  std::vector<std::string> OwnedByOthers(const PlannedPod& pod) const;
  // Resources of the pod of which too little is known.
  std::vector<std::string> UnknownIn(const ResourceList& requests) const;
  // Why nothing can be said because of a pod that was placed before; empty: there is none.
  std::vector<std::string> UndecidedBefore(const std::string& uid) const;
  Verdict TryKubelet(const PlannedPod& pod) const;
  // What the decision means for a node of which an object is known; changes the verdict to
  // undecided if the node can decide otherwise. `blurred`: what is blurred after the pod.
  void InterpretByObject(const PlannedPod& pod, Verdict& verdict, BlurredResources* blurred) const;
  // Changes the verdict to undecided if pods that run can be elsewhere, and it matters.
  void CheckGuesses(const PlannedPod& pod, Verdict& verdict) const;
  Verdict AskKubelet(const PlannedPod& pod);
  void Count(const Pod& pod, const ResourceList& requests);

  scenario::Simulation simulation_;
  Allocatable allocatable_;
  std::shared_ptr<const NodeInput> input_;  // without the description
  // Why it is not known which containers of the shared pool stay on one NUMA node; empty: it is.
  std::string why_lacks_shares_;
  bool has_shares_ = false;         // a state file says which
  bool has_pods_of_files_ = false;  // the state files have pods
  // NodeInput::owned without what state files have, and without pods that run; `memory` too, if
  // containers can have some.
  std::map<std::string, std::set<std::string>> unlisted_owned_;
  RequestedResources requested_;
  std::set<std::string> names_;  // NAMESPACE/NAME of pods that are counted
  // In the order of Place.
  struct UndecidedPod {
    std::string uid;
    std::string name;               // NAMESPACE/NAME
    bool is_by_annotation = false;  // how the node takes it is not known

    friend bool operator==(const UndecidedPod&, const UndecidedPod&) = default;
  };
  std::vector<UndecidedPod> undecided_;
  BlurredResources blurred_;  // with NodeInput::object_view
  GuessedPlaces guessed_;
  // Pods that come after all that the state files have, in whatever order as they are alike. One of
  // them.
  GuessedPlaces coming_;
  std::optional<Pod> coming_pod_;
  // The name of the first of these pods, if it was planned: its containers are decided about one by
  // one, or there are too many ways in which the node can take such pods, or in which their init
  // containers can have ended.
  std::string in_parts_;
  std::string by_many_;
  std::string by_many_inits_;
  // The node after the same pods, with other readings of those whose annotation differs from their
  // spec: as the annotation has them, or refused. This one takes each as its spec has it. And
  // before the init containers of some have ended, which have in this one. None of them has others,
  // and no two are alike.
  std::vector<PlannedNode> others_;
  // Of this node and those: as many as two pods have that can be refused, or three that cannot.
  static constexpr size_t kMaxReadings = 9;
  // The names of these pods: whose annotation contradicts their spec, and whose annotation differs
  // in the order of containers, in those that it names, or in devices that the node ignores.
  std::vector<std::string> contradicted_;
  std::vector<std::string> otherwise_;
  // Those whose init containers have more than the others reuse.
  std::vector<std::string> with_inits_;
  std::vector<std::string> notes_;
  // By kind of resource (admission::ExclusiveNeeds) the name of the first pod that waits for it.
  std::map<std::string, std::string> waiting_;
};

// Whether where the pod fits depends on NUMA nodes, and later pods on where it is: it is
// Guaranteed, has pod-level resources, requests devices, or asks to stay on one NUMA node.
bool DependsOnNumaNodes(const PlannedPod& pod);
// The same on a node with that configuration, under which the pods of the namespace can have that
// by default.
bool DependsOnNumaNodes(const PlannedPod& pod, const KubeletConfig& config);
// The same of a pod as its spec states it, whatever its annotations say.
bool DependsOnNumaNodes(const Pod& pod, const KubeletConfig& config);
// Whether only a node with that configuration can say if it takes the pod: where it fits depends on
// NUMA nodes, or it must have exclusive CPUs by its label, and is refused without them.
bool DependsOnNode(const PlannedPod& pod, const KubeletConfig& config);

// Why the pod cannot be decided on the node because of an annotation with resources; empty: it can.
std::string UndecidedByAnnotation(const admission::Node& node, const admission::NodeState& state,
                                  const PlannedPod& pod);

// The pod on a node with that configuration: what depends on its runtime handler, and its QoS
// class, which the managers would find out anew for each of its containers.
Pod PodOn(const KubeletConfig& config, const PlannedPod& pod);

// The pod without UID, names and owner: pods that are equal then are treated alike.
PlannedPod WithoutNames(PlannedPod pod);

}  // namespace alignd::placement
