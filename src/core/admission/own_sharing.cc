#include "core/admission/own_sharing.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/pod/cpu_sharing.h"
#include "core/admission/own_defaults.h"
#include "core/admission/scoped_objection.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

bool MayPreferShared(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kPreferSharedCpus);
}

bool MayLabel(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kQosClass);
}

std::string LabelText(const Pod& pod) {
  return "label " + std::string(kQosClassLabel) + " " + pod.policies.sharing.qos_class;
}

template <typename Is>
std::string NamesWhere(const Pod& pod, const Is& is) {
  std::string names;
  for (const Container& container : pod.containers) {
    if (!is(container)) continue;
    names += (names.empty() ? "" : ", ") + container.name;
  }
  return names;
}

// Whether it ends before the containers that have as many exclusive CPUs as it requests.
// Koordinator counts the CPUs of the whole pod, to which it adds nothing then.
bool EndsBeforeOthers(const Node& node, const Pod& pod, const Container& container) {
  if (!pod.is_complete || container.kind != ContainerKind::kInit || !node.cpu) return false;
  int64_t millis = 0;
  for (const Container& other : pod.containers) {
    if (other.kind == ContainerKind::kInit || ExclusiveCpuCount(pod, other) == 0) continue;
    millis += ShareOf(other).millis;  // bounded: no sum overflows
  }
  return ShareOf(container).millis <= millis;
}

}  // namespace

bool SharesByDefault(const Node& node, const Pod& pod, const Container& container) {
  if (!DefaultsOf(node, pod).prefers_shared_cpus) return false;
  const CpuSharing& sharing = pod.policies.sharing;
  if (MayLabel(node, pod) && LabelShares(sharing)) return false;
  return !MayPreferShared(node, pod) || !PrefersShared(sharing, container.name);
}

void MarkSharing(const Node& node, Pod& pod) {
  const CpuSharing& sharing = pod.policies.sharing;
  const bool by_label = MayLabel(node, pod) && LabelShares(sharing) == true;
  const bool may_prefer = MayPreferShared(node, pod) && !sharing.annotations.values.empty();
  for (Container& container : pod.containers) {
    const bool asks = by_label || (may_prefer && PrefersShared(sharing, container.name) == true) ||
                      SharesByDefault(node, pod, container);
    container.shares_cpus = asks && !sharing.keeping.contains(container.name);
  }
}

Pod KeepingItsCpus(const Node& node, const NodeState& state, Pod pod) {
  const bool may_share =
      pod.policies.sharing != CpuSharing() || DefaultsOf(node, pod).prefers_shared_cpus;
  if (!may_share) return pod;
  for (const Container& container : pod.containers) {
    if (IsolationOf(state, ContainerKey{pod.uid, container.name}) != Isolation::kContainer) {
      continue;
    }
    pod.policies.sharing.keeping.insert(container.name);
  }
  return pod;
}

bool MustHaveExclusiveCpus(const Node& node, const Pod& pod) {
  return MayLabel(node, pod) && LabelShares(pod.policies.sharing) == false;
}

bool LacksExclusiveCpus(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container) {
  if (!MustHaveExclusiveCpus(node, pod)) return false;
  if (RequestsCpus(node, pod, container)) return false;
  // What it has, it keeps. So do the containers of a pod that has CPUs as a whole.
  if (state.cpu.pods.contains(pod.uid) || state.cpu.Find({pod.uid, container.name}) != nullptr) {
    return false;
  }
  // A container of `kubectl debug` requests nothing.
  const bool may_be_further = !pod.is_complete && QosOf(pod) == QosClass::kGuaranteed;
  if (may_be_further && ShareOf(container).millis == 0) return false;
  return !EndsBeforeOthers(node, pod, container);
}

std::optional<Objection> ObjectionToLabel(const Node& node, const NodeState& state,
                                          const Pod& pod) {
  const std::string names = NamesWhere(pod, [&](const Container& container) {
    return LacksExclusiveCpus(node, state, pod, container);
  });
  if (names.empty()) return std::nullopt;
  const std::string asks = "the pod asks for exclusive CPUs by " + LabelText(pod);
  const std::string instead = "; or write LS into the label";
  if (!node.cpu) {
    return Objection{asks + ", and this node assigns no CPUs",
                     "run the pod on a node with cpuManagerPolicy static" + instead};
  }
  if (!pod.shared_pool_handler.empty()) {
    return Objection{
        asks + ", and containers of runtime handler " + pod.shared_pool_handler + " get none",
        "run the pod with another RuntimeClass" + instead};
  }
  std::string remedy =
      "let the pod be Guaranteed, and each of its containers request a whole number of CPUs";
  if (!pod.is_complete && QosOf(pod) == QosClass::kGuaranteed) {
    remedy +=
        "; if it is an init container, let alignd know the whole pod, by the kubelet's feature "
        "gate PodsAPI or annotation alignd.io/resources";
  }
  if (pod.is_complete && !HasExclusiveCpus(node, pod)) {
    return Objection{asks + ", and none of its containers gets them", remedy + instead};
  }
  return Objection{asks + ", and these of its containers get none: " + names, remedy + instead};
}

std::optional<Objection> ObjectionToSharing(const Node& node, const NodeState& state,
                                            const Pod& pod) {
  const CpuSharing& sharing = pod.policies.sharing;
  if (MayPreferShared(node, pod)) {
    auto objection = ObjectionToScoped(kPreferShared, pod, sharing.annotations);
    if (objection) return objection;
  }
  if (!MayLabel(node, pod)) return std::nullopt;
  if (!sharing.label_fault.empty()) {
    return Objection{sharing.label_fault, "correct the label, or remove it"};
  }
  return ObjectionToLabel(node, state, pod);
}

void DescribeSharing(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const CpuSharing& sharing = pod.policies.sharing;
  if (!sharing.annotations.fault.empty() || !sharing.annotations.values.empty()) {
    const std::string annotation = "annotation " + std::string(kPreferShared);
    if (!MayPreferShared(node, pod)) {
      texts.push_back(IgnoredBy(node, pod, annotation, ToString(PodPolicy::kPreferSharedCpus)));
    } else if (!sharing.annotations.fault.empty()) {
      texts.push_back(sharing.annotations.fault);
    } else {
      const std::string names = NamesWhere(pod, [&sharing](const Container& one) {
        return PrefersShared(sharing, one.name) == true;
      });
      texts.push_back(annotation +
                      (names.empty() ? " asks for no shared CPUs" : ": shared CPUs for " + names));
    }
  }
  if (DefaultsOf(node, pod).prefers_shared_cpus) {
    const std::string names =
        NamesWhere(pod, [&](const Container& one) { return SharesByDefault(node, pod, one); });
    texts.push_back(OfDefaults(pod, kPreferShared, "true") +
                    (names.empty() ? " is not followed: the pod says otherwise"
                                   : ": shared CPUs for " + names));
  }
  if (sharing.label_fault.empty() && sharing.qos_class.empty()) return;
  if (!MayLabel(node, pod)) {
    texts.push_back(IgnoredBy(node, pod, "label " + std::string(kQosClassLabel),
                              ToString(PodPolicy::kQosClass)));
  } else if (!sharing.label_fault.empty()) {
    texts.push_back(sharing.label_fault);
  } else {
    std::string followed = LabelShares(sharing) == true ? ": shared CPUs" : "";
    const std::string names = NamesWhere(pod, [&](const Container& one) {
      return MustHaveExclusiveCpus(node, pod) && !RequestsCpus(node, pod, one) &&
             ShareOf(one).millis > 0 && EndsBeforeOthers(node, pod, one);
    });
    if (!names.empty()) {
      followed +=
          ": shared CPUs for " + names + ", which a node refuses that knows the pod from CRI alone";
    }
    texts.push_back(LabelText(pod) + followed);
  }
}

}  // namespace alignd::admission
