#include "allocation/requested_resize.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"

namespace alignd::allocation {

std::string CpusText(int64_t millis) {
  std::string text = std::to_string(static_cast<double>(millis) / 1000);
  text.erase(text.find_last_not_of('0') + 1);  // "1.500000"
  if (text.ends_with('.')) text.pop_back();
  return text + (text == "1" ? " CPU" : " CPUs");
}

std::string NameOrUid(const Pod& pod) {
  return pod.name.empty() ? pod.uid : pod.name_space + "/" + pod.name;
}

namespace {

// "has 1 exclusive CPU (3)"
std::string HasExclusive(const CpuSet& exclusive) {
  if (exclusive.empty()) return "runs in the shared pool";
  return "has " + std::to_string(exclusive.Count()) +
         (exclusive.Count() == 1 ? " exclusive CPU (" : " exclusive CPUs (") +
         exclusive.ToString() + ")";
}

}  // namespace

Refusal ResizeRefusal(const std::string& pod, const std::string& container, const CpuSet& exclusive,
                      const std::string& asked, CpuResizes resizes) {
  const std::string count = std::to_string(exclusive.Count());
  const std::string has = HasExclusive(exclusive) + ", ";
  if (resizes != CpuResizes::kNone) {
    return RefusedResize(
        pod, container,
        has + "and only a whole number of CPUs can replace them: asked for " + asked,
        "request a whole number of CPUs; or delete the pod and create it with the CPUs that it "
        "needs");
  }
  return RefusedResize(
      pod, container,
      has + "and their number cannot change while its pod lives: asked for " + asked,
      "delete the pod and create it with the CPUs that it needs, or let the container ask for " +
          count + " again");
}

Refusal RefusedSharedByLabel(const Pod& pod, const std::string& container, const CpuSet& exclusive,
                             const std::string& asked) {
  return RefusedResize(
      NameOrUid(pod), container,
      HasExclusive(exclusive) + ", and label " + std::string(kQosClassLabel) + " " +
          pod.policies.sharing.qos_class + " asks for exclusive ones: asked for " + asked,
      "request a whole number of CPUs; or delete the pod and create it with label " +
          std::string(kQosClassLabel) + " LS");
}

Refusal RefusedIncompleteSizes(const std::string& pod, const std::string& container,
                               const CpuSet& exclusive, const std::string& asked) {
  return RefusedResize(pod, container,
                       HasExclusive(exclusive) +
                           ", and only an update with the CPU shares and the memory limit, as the "
                           "kubelet sends it, resizes it between exclusive and shared CPUs: asked "
                           "for " +
                           asked,
                       "resize the pod in the Kubernetes API; or let the update have the CPU "
                       "shares and the memory limit as well");
}

Refusal RefusedFirstCpus(const std::string& pod, const std::string& container, int64_t millis) {
  return RefusedResize(
      pod, container,
      "runs in the shared pool, and exclusive CPUs are allocated only when a container is created. "
      "The update requests " +
          CpusText(millis) + ", which are exclusive in a Guaranteed pod",
      "delete the pod and create it with the CPUs that it needs, or request a number of CPUs that "
      "is not whole, such as " +
          CpusText(millis - 100));
}

Refusal RefusedEphemeral(const std::string& pod, const std::string& container, int64_t millis) {
  return RefusedResize(
      pod, container,
      "has no CPU request and no limits, as an ephemeral container (`kubectl debug`), which "
      "runs in the shared pool. The update requests " +
          CpusText(millis) + ", which are exclusive in a Guaranteed pod",
      "request a number of CPUs that is not whole, such as " + CpusText(millis - 100));
}

Refusal RefusedPodLevelResize(const std::string& pod, const std::string& container,
                              const CpuSet& exclusive, const std::string& asked, bool is_known) {
  const std::string new_pod = "delete the pod and create it with the CPUs that it needs";
  if (is_known) {
    return RefusedResize(pod, container,
                         HasExclusive(exclusive) +
                             " in a pod with pod-level resources, and their number cannot change "
                             "while the pod lives: asked for " +
                             asked,
                         new_pod);
  }
  return RefusedResize(
      pod, container,
      HasExclusive(exclusive) +
          ", and whether its pod has pod-level resources is not known: asked for " + asked,
      "turn on the kubelet's feature gate PodsAPI, so that alignd can read the pod, or " + new_pod);
}

Refusal RefusedPodResize(const std::string& pod, const CpuSet& whole, const std::string& asked) {
  const std::string fault =
      "has CPUs " + whole.ToString() +
      " as a whole, and their number cannot change while it lives: asked for " + asked;
  const std::string remedy = "delete the pod and create it with the CPUs that it needs";
  return {kResizeRefused,
          "pod " + pod + " " + fault + ". Nothing was changed. D" + remedy.substr(1), fault,
          remedy};
}

Refusal RefusedResize(const std::string& pod, const std::string& container, std::string fault,
                      std::string remedy) {
  std::string sentence = remedy;
  sentence.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence.front())));
  return {kResizeRefused,
          "container " + container + " of pod " + pod + " " + fault + ". Nothing was changed. " +
              sentence,
          std::move(fault), std::move(remedy)};
}

std::optional<Refusal> RefuseOtherShare(const std::string& pod, const std::string& container,
                                        const cpumanager::NodeShare& share, int64_t millis) {
  // CRI shows it in 1024ths of a CPU.
  if (std::abs(millis - share.millis) <= 1) return std::nullopt;
  return RefusedResize(
      pod, container,
      "stays on NUMA node " + std::to_string(share.numa_id) + " with " + CpusText(share.millis) +
          ", and its cpu request cannot change while its pod lives: asked for " + CpusText(millis),
      "delete the pod and create it with the CPUs that it needs; its cpu limit can be resized");
}

Refusal RefusedRenewal(const std::string& pod, const Container& container,
                       const cpumanager::NodeShare& share, const std::string& lacks) {
  const Quantity* const memory = Find(container.resources.requests, "memory");
  return RefusedResize(
      pod, container.name,
      "stays on NUMA node " + std::to_string(share.numa_id) + " with " + CpusText(share.millis) +
          ", which has " + lacks + " for its new request: asked for " +
          CpusText(admission::ShareOf(container).millis) +
          (memory == nullptr ? std::string()
                             : " and " + std::to_string(memory->Value()) + " bytes of memory"),
      "end other pods of this NUMA node, or delete the pod: created again, it can stay on another "
      "one");
}

Refusal RefusedShareOnOneNode(const std::string& pod, const std::string& container,
                              const CpuSet& exclusive, const std::string& asked) {
  return RefusedResize(pod, container,
                       HasExclusive(exclusive) +
                           ", and its pod asks for shared CPUs of one NUMA node, which are found "
                           "only when a container is created: asked for " +
                           asked,
                       "request a whole number of CPUs; or delete the pod and create it with the "
                       "CPUs that it needs");
}

Refusal InPod(Refusal refusal, const std::string& pod, const std::string& container) {
  if (refusal.fault.empty() || refusal.remedy.empty()) return refusal;
  return RefusedResize(pod, container, std::move(refusal.fault), std::move(refusal.remedy));
}

namespace {

// The containers that a request is about and that have exclusive CPUs, but not as many as they ask
// for.
template <typename Take>
void ForEachOtherCount(const admission::NodeState& state, const Pod& pod, const std::string& wanted,
                       const Take& take) {
  // A pod with exclusive CPUs from before its handler was listed keeps them, so that its containers
  // can restart.
  if (!pod.shared_pool_handler.empty()) return;
  const bool one =
      std::ranges::find(pod.containers, wanted, &Container::name) != pod.containers.end();
  for (const Container& container : pod.containers) {
    if (one && container.name != wanted) continue;
    const ContainerKey key{pod.uid, container.name};
    const CpuSet* const assigned = state.cpu.Find(key);
    if (assigned == nullptr || assigned->Count() == ExclusiveCpus(pod, container)) continue;
    if (state.cpu.moving.contains(key)) continue;  // for the moment, it has more
    // The parts of a pod that has CPUs as a whole are not resized. One of its containers that now
    // asks for something else is refused, if the source knows the pod.
    const bool is_part = state.cpu.pods.contains(pod.uid);
    if (is_part && pod.pod_level_managers != PodLevelManagers::kPod) continue;
    if (is_part && !state.cpu.HasOwnCpus(key) && ExclusiveCpus(pod, container) == 0) continue;
    take(container, *assigned);
  }
}

}  // namespace

bool AsksForSharedCpus(const Container& container) {
  const Quantity* const cpus = Find(container.resources.requests, "cpu");
  constexpr int64_t kMillisPerCpu = cpumanager::kMillisPerCpu;
  return cpus != nullptr && cpus->MilliValue() > 0 && cpus->MilliValue() % kMillisPerCpu != 0;
}

namespace {

// Whether it is resized; otherwise it is refused. Parts of what a pod has as a whole are left to
// admission::Resize, which refuses them.
bool IsAmong(CpuResizes resizes, const admission::Node& node, const Pod& pod,
             const Container& container) {
  if (pod.pod_level_managers == PodLevelManagers::kContainers) return false;
  if (ExclusiveCpus(pod, container) > 0) return resizes != CpuResizes::kNone;
  return resizes == CpuResizes::kAll && AsksForSharedCpus(container) &&
         !admission::AsksForOneNode(node, pod, container) &&
         !admission::MustHaveExclusiveCpus(node, pod);
}

}  // namespace

std::optional<WantedResize> FindResize(const admission::Node& node,
                                       const admission::NodeState& state, const Pod& pod,
                                       const std::string& wanted, CpuResizes resizes) {
  std::optional<WantedResize> first;
  ForEachOtherCount(state, pod, wanted, [&](const Container& container, const CpuSet&) {
    if (first || !IsAmong(resizes, node, pod, container)) return;
    first = WantedResize{container.name, ExclusiveCpus(pod, container)};
  });
  return first;
}

std::optional<Refusal> RefuseResize(const admission::Node& node, const admission::NodeState& state,
                                    const Pod& pod, const std::string& wanted, CpuResizes resizes) {
  std::optional<Refusal> first;
  for (const Container& container : pod.containers) {
    const auto share = state.cpu.shares.find({pod.uid, container.name});
    if (first || container.name != wanted || share == state.cpu.shares.end()) continue;
    first = RefuseOtherShare(NameOrUid(pod), container.name, share->second,
                             admission::ShareOf(container).millis);
  }
  ForEachOtherCount(state, pod, wanted, [&](const Container& container, const CpuSet& assigned) {
    if (first || IsAmong(resizes, node, pod, container)) return;
    const bool is_exclusive = ExclusiveCpus(pod, container) > 0;
    const bool is_pod_level = pod.pod_level_managers == PodLevelManagers::kContainers;
    const Quantity* const cpus = Find(container.resources.requests, "cpu");
    // A whole number is not exclusive if the pod is not Guaranteed or has resources of its own.
    const std::string asked = CpusText(cpus == nullptr ? 0 : cpus->MilliValue()) +
                              (is_exclusive ? "" : ", which are not exclusive");
    const std::string name = NameOrUid(pod);
    if (is_pod_level) {
      first = RefusedPodLevelResize(name, container.name, assigned, asked, /*is_known=*/true);
    } else if (resizes == CpuResizes::kAll && admission::AsksForOneNode(node, pod, container)) {
      first = RefusedShareOnOneNode(name, container.name, assigned, asked);
    } else if (resizes == CpuResizes::kAll && admission::MustHaveExclusiveCpus(node, pod)) {
      first = RefusedSharedByLabel(pod, container.name, assigned, asked);
    } else {
      first = ResizeRefusal(name, container.name, assigned, asked, resizes);
    }
  });
  return first;
}

}  // namespace alignd::allocation
