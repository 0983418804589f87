// What AllocationManager::Admit is asked.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "alignd/pod/pod.h"

namespace alignd::allocation {

// The device ids that the kubelet allocated to a container, by resource name.
using KubeletAllocatedIds = std::map<std::string, std::set<std::string>>;
// By container name. Containers of which the kubelet's allocation is not known are absent.
using KubeletAllocatedPod = std::map<std::string, KubeletAllocatedIds>;

// Returns the UIDs of pods that have stopped and may be released. Runs on the decision thread; must
// not block.
using StoppedPods = std::function<std::set<std::string>()>;

// What refusals say about another pod.
struct PodStanding {
  std::string name = {};   // "namespace/name"; empty: not known
  bool is_ending = false;  // it has been stopped, and containers of it still run
};
// By UID. Runs on the thread that explains refusals; must not block.
using DescribePod = std::function<PodStanding(const std::string& pod_uid)>;

// With the kubelet's feature gate DRANodeAllocatableResources, the memory limit of a container in
// CRI may contain memory of ResourceClaims, which no source but CRI adds to what it requests.
struct MemoryInCri {
  std::optional<uint64_t> limit = {};  // of the wanted container; nullopt: CRI was not seen
  bool is_estimate = false;            // AdmissionRequest::pod has it from CRI
  bool is_annotated = false;           // it has it from an annotation, which may have been changed
};

struct AdmissionRequest {
  // All containers of the pod, or one, if no more of the pod is known.
  Pod pod;
  // Names the source of the pod's resources in the decision log.
  std::string source = {};
  // Which init containers of `pod` are sidecars was concluded from their sizes.
  bool roles_are_concluded = false;
  // The container that is about to be created. If it has its assignment already, it gets the same
  // one again, whatever the others need: a restart is never refused because of an init container
  // that has ended. Empty: the pod as a whole.
  std::string wanted = {};
  MemoryInCri memory_in_cri = {};
  // Its ids count as many devices as the limits of these containers ask for.
  KubeletAllocatedPod kubelet_allocated = {};
  // If the pod fits only without some stopped pods, these are released in the same change, so that
  // no container is moved onto their CPUs in between. May be empty.
  StoppedPods stopped = {};
  DescribePod describe = {};  // may be empty
  // How long the answer may wait for a device plugin that has not registered yet; nullopt: not at
  // all.
  std::optional<std::chrono::steady_clock::time_point> wait_until = {};
  // The caller releases the pod after a refusal: its place in the queue ends with the answer.
  bool releases_when_refused = false;
  // What the caller keeps in memory while it waits: the size of its message, in bytes.
  size_t message_bytes = 0;
  // Set when the caller cancels the call, or its connection ends; null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled = {};

  bool IsCancelled() const { return cancelled != nullptr && *cancelled; }
};

}  // namespace alignd::allocation
