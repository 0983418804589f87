// Devices that the kubelet allocates through the mirror, as the decision needs them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/config/kubelet_config.h"
#include "allocation/kubelet_allocation.h"
#include "mirror/binding_modes.h"
#include "mirror/binding_table.h"
#include "mirror/kubelet_checkpoint.h"
#include "mirror/pod_completion.h"
#include "sync/task_queue.h"

namespace alignd::mirror {

// Without modes (--mirror off) containers that still come with kubelet-allocated ids are decided
// as with kPreferred, and bindings from before are kept. Of the kubelet's checkpoint, only
// the devices of its own plugins are then looked up (Learn).
class MirroredDevices final : public allocation::KubeletAllocation {
 public:
  // The references outlive this object. `io` reads the kubelet's checkpoint, since that may block.
  MirroredDevices(const std::optional<BindingModes>& modes, TopologyManagerScope scope,
                  BindingTable& bindings, KubeletCheckpoint kubelet, TaskQueue& io);
  // A reading that is under way ends later, without effect.
  ~MirroredDevices() override;

  Result<std::optional<admission::NodeState>> TakeOver(const ContainerKey& key,
                                                       const admission::NodeState& state) override;
  bool AreBound(const std::string& pod_uid, const KubeletAllocatedPod& allocated) const override;
  bool MustLearn(const admission::NodeState& state,
                 const allocation::AdmissionRequest& request) const override;
  void Learn(const std::string& pod_uid, std::function<void(Learned)> done) override;
  Result<Done> Complete(const admission::NodeState& state, const std::optional<Learned>& learned,
                        allocation::AdmissionRequest& request) override;
  std::optional<Error> Unallocated(const admission::NodeState& state,
                                   const allocation::AdmissionRequest& request) const override;
  std::optional<Refusal> Refuse(const admission::NodeState& state, const Pod& pod,
                                const KubeletAllocatedPod& allocated) const override;
  admission::Admission Admit(const admission::Node& node, const admission::NodeState& state,
                             const Pod& pod, const KubeletAllocatedPod& allocated,
                             const devicemanager::PreferredAllocationFn& preferred) const override;
  std::string Explain(const admission::Node& node, const admission::NodeState& state,
                      const Pod& pod, const KubeletAllocatedPod& allocated,
                      const checkpoint::Bindings& bindings) const override;
  Result<Done> Bind(const admission::NodeState& state, const std::string& pod_uid,
                    const KubeletAllocatedPod& allocated) override;
  void DropUnassigned(const admission::NodeState& state, const std::string& pod_uid) override;
  void Forget(const std::set<std::string>& pod_uids) override;
  Result<Done> SaveNewBindings(const checkpoint::Bindings& now) override;
  Result<Done> SaveBindings(const checkpoint::Bindings& now) override;
  std::shared_ptr<const checkpoint::Bindings> bindings() const override;
  // Until the checkpoint can be read, the resources are not shown: devices that containers use
  // would look free.
  bool Prepare(const std::set<std::string>& resources, std::function<void()> ready) override;
  Result<Done> Arrive(const std::string& resource, admission::NodeState& state) override;

 private:
  class Reader;

  const bool mirrors_;
  const BindingModes modes_;
  BindingTable& bindings_;
  PodCompletion completion_;
  const std::shared_ptr<Reader> reader_;  // shared with its tasks
};

}  // namespace alignd::mirror
