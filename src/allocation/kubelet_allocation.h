// The interface between the decision and the devices that the kubelet allocates (alignd --mirror).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/refusal.h"
#include "allocation/admission_request.h"

namespace alignd::allocation {

// If the kubelet allocates devices, a container comes with the ids that the kubelet allocated to
// it. alignd binds each id to a device of its own choice. AllocationManager asks this interface at
// each of its steps; the methods stand in that order. All run on the decision thread, except
// `Explain`, `bindings` and those that save, and none of the others blocks.
class KubeletAllocation {
 public:
  KubeletAllocation() = default;
  KubeletAllocation(const KubeletAllocation&) = delete;
  KubeletAllocation& operator=(const KubeletAllocation&) = delete;
  virtual ~KubeletAllocation() = default;

  // --- A request has arrived.

  // `state` with the devices that the kubelet's own plugins assigned to the container, if `state`
  // lacks them. nullopt: nothing to add.
  // Errors: kUnavailable if another pod is assigned such a device now.
  virtual Result<std::optional<admission::NodeState>> TakeOver(const ContainerKey& key,
                                                               const admission::NodeState& state) {
    (void)key, (void)state;
    return std::optional<admission::NodeState>();
  }

  // Whether all of these ids are bound.
  virtual bool AreBound(const std::string& pod_uid, const KubeletAllocatedPod& allocated) const {
    (void)pod_uid, (void)allocated;
    return true;
  }

  // Whether the kubelet's checkpoint must be read before the request can be decided.
  virtual bool MustLearn(const admission::NodeState& state, const AdmissionRequest& request) const {
    (void)state, (void)request;
    return false;
  }

  // What the kubelet allocated to a pod.
  struct LearnedPod {
    KubeletAllocatedPod allocated;       // by any plugin
    KubeletAllocatedPod of_own_plugins;  // by plugins that are not alignd's: the container has them
  };
  // Reads it. `done` runs at most once, on any thread.
  using Learned = Result<LearnedPod>;
  virtual void Learn(const std::string& pod_uid, std::function<void(Learned)> done) {
    (void)pod_uid;
    done(LearnedPod());
  }

  // Why the wanted container must wait for the kubelet: it requests devices that the kubelet is to
  // allocate and has not allocated for it yet. A container keeps what it is assigned already.
  virtual std::optional<Error> Unallocated(const admission::NodeState& state,
                                           const AdmissionRequest& request) const {
    (void)state, (void)request;
    return std::nullopt;
  }

  // Adds what was learnt to the request, and drops the containers that are not decided now.
  // `learned`: nullopt if it did not have to be read.
  // Errors: kUnavailable, with the remedy; kInvalidArgument if the kubelet allocated another number
  // than the limits ask for.
  virtual Result<Done> Complete(const admission::NodeState& state,
                                const std::optional<Learned>& learned, AdmissionRequest& request) {
    (void)state, (void)learned, (void)request;
    return Done{};
  }

  // --- It is decided.

  // Why the container cannot get the devices, whatever the policy decides.
  virtual std::optional<Refusal> Refuse(const admission::NodeState& state, const Pod& pod,
                                        const KubeletAllocatedPod& allocated) const {
    (void)state, (void)pod, (void)allocated;
    return std::nullopt;
  }

  // As admission::Admit. Refuse has returned nullopt.
  virtual admission::Admission Admit(const admission::Node& node, const admission::NodeState& state,
                                     const Pod& pod, const KubeletAllocatedPod& allocated,
                                     const devicemanager::PreferredAllocationFn& preferred) const {
    (void)allocated;
    return admission::Admit(node, state, pod, preferred);
  }

  // Text to append to the policy's refusal; may be empty. `bindings`: at the decision. Thread-safe.
  virtual std::string Explain(const admission::Node& node, const admission::NodeState& state,
                              const Pod& pod, const KubeletAllocatedPod& allocated,
                              const checkpoint::Bindings& bindings) const {
    (void)node, (void)state, (void)pod, (void)allocated, (void)bindings;
    return {};
  }

  // --- It is saved, and later released.

  // Binds the ids to the devices that `state` assigns to the pod.
  // Errors: kInvalidArgument if the file of the bindings would be too long.
  virtual Result<Done> Bind(const admission::NodeState& state, const std::string& pod_uid,
                            const KubeletAllocatedPod& allocated) {
    (void)state, (void)pod_uid, (void)allocated;
    return Done{};
  }

  // Drops the bindings of the pod's containers that `state` assigns no such devices.
  virtual void DropUnassigned(const admission::NodeState& state, const std::string& pod_uid) {
    (void)state, (void)pod_uid;
  }

  // Drops the bindings of these pods.
  virtual void Forget(const std::set<std::string>& pod_uids) { (void)pod_uids; }

  // The first saves what is new in `now`, before the assignments are saved; the second removes from
  // the file what is not in `now`, after that. So an assignment never lacks its bindings. Bindings
  // without an assignment, which a crash in between leaves, are dropped at the next start. On the
  // thread that writes. Errors: kIo.
  virtual Result<Done> SaveNewBindings(const checkpoint::Bindings& now) {
    (void)now;
    return Done{};
  }
  virtual Result<Done> SaveBindings(const checkpoint::Bindings& now) {
    (void)now;
    return Done{};
  }

  // All bindings. Thread-safe.
  virtual std::shared_ptr<const checkpoint::Bindings> bindings() const {
    return std::make_shared<const checkpoint::Bindings>();
  }

  // --- Plugins register.

  // The plugins of these resources have registered for the first time, or again after the resource
  // was removed. False: they can be shown at once. True: `ready` runs once, on any thread, when
  // Arrive may be called for them. It does not run any more once this object is gone.
  virtual bool Prepare(const std::set<std::string>& resources, std::function<void()> ready) {
    (void)resources, (void)ready;
    return false;
  }

  // Adds to `state` the devices of this resource that the kubelet's own plugin assigned.
  // Errors: of Bind. The resource is not to be offered then.
  virtual Result<Done> Arrive(const std::string& resource, admission::NodeState& state) {
    (void)resource, (void)state;
    return Done{};
  }
};

// The null object: the kubelet allocates no devices.
KubeletAllocation& NoKubeletAllocation();

}  // namespace alignd::allocation
