// The scheduler's arithmetic: what a node can allocate, what its pods request, and whether one more
// pod fits. It knows nothing of NUMA nodes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// What the node reports as status.allocatable. A value.
struct Allocatable {
  ResourceList amounts;
  int64_t pods = 110;
  // Resources of which the amount is not known.
  std::set<std::string> unknown = {"ephemeral-storage"};

  friend bool operator==(const Allocatable&, const Allocatable&) = default;
};

// What a kubelet reports for the machine, without devices: its capacity less kubeReserved,
// systemReserved and the hard eviction threshold; of memory also less all huge pages. `pods` is the
// kubelet's limit.
// Errors: as NodeReservation and cpumanager::ReservedSystemCpus.
// Source: kubelet pkg/kubelet/nodestatus/setters.go, MachineInfo; container_manager_linux.go,
// GetNodeAllocatableReservation.
Result<Allocatable> AllocatableOf(const Machine& machine, const KubeletConfig& config,
                                  int64_t pods);

// The kubelet's limit of pods: maxPods, or podsPerCore times the CPUs if that is less. `config` is
// the JSON form of a KubeletConfiguration.
// Errors: kInvalidArgument with the field, if it is no whole number in range.
// Source: kubelet pkg/kubelet/nodestatus/setters.go; config/v1beta1/defaults.go: 110.
Result<int64_t> PodLimitOf(std::string_view config, int cpus);

// A resource of which the node has too little.
struct Shortage {
  std::string resource;  // "pods" for too many pods
  Quantity requested;    // by the pod
  Quantity used;         // requested by the other pods
  Quantity allocatable;

  friend bool operator==(const Shortage&, const Shortage&) = default;
};

// "Insufficient cpu", "Too many pods": without the amounts.
std::string CauseOf(const Shortage& shortage);

// "Insufficient cpu: 100 requested, 39500m of 39500m free"; "Too many pods: ...".
std::string Describe(const Shortage& shortage);

// The pods that a node has, and what they request. A value.
class RequestedResources {
 public:
  // Replaces what a pod of that UID requested before.
  void Add(const std::string& pod_uid, const ResourceList& requests);

  // Empty: the pod fits. A pod of the same UID is not counted: it is the same pod.
  // Source: kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go, fitsRequest.
  std::vector<Shortage> ShortagesOf(const Allocatable& allocatable, const std::string& pod_uid,
                                    const ResourceList& requests) const;

  const ResourceList& total() const { return total_; }
  const std::map<std::string, ResourceList>& by_pod() const { return by_pod_; }  // by UID
  int64_t pods() const { return static_cast<int64_t>(by_pod_.size()); }

 private:
  std::map<std::string, ResourceList> by_pod_;  // by UID
  ResourceList total_;
};

// Adds the devices that count for the scheduler: the healthy ones.
void AddDeviceCounts(const devicemanager::DeviceState& devices, ResourceList& amounts);

}  // namespace alignd::placement
