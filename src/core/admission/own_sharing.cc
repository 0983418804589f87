#include "core/admission/own_sharing.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/pod/cpu_sharing.h"
#include "core/admission/own_defaults.h"

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
  const bool may_prefer = MayPreferShared(node, pod) && !sharing.annotations.empty();
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

std::optional<Objection> ObjectionToSharing(const Node& node, const Pod& pod) {
  const CpuSharing& sharing = pod.policies.sharing;
  if (MayPreferShared(node, pod)) {
    const std::string annotation(kPreferShared);
    if (!sharing.fault.empty()) {
      return Objection{sharing.fault, R"(correct the annotation, for example )" + annotation +
                                          R"(.resource-policy.nri.io/container.NAME: "true", )"
                                          R"(or remove it)"};
    }
    for (const std::string& name : ContainersNamed(sharing)) {
      // Of a pod that is not complete, it can be another container.
      const bool is_known =
          std::ranges::find(pod.containers, name, &Container::name) != pod.containers.end();
      if (!pod.is_complete || is_known) continue;
      return Objection{"the pod has an annotation " + annotation + " for container " + name +
                           ", and no container of that name",
                       "correct the name in the annotation, or remove the annotation"};
    }
  }
  if (!MayLabel(node, pod)) return std::nullopt;
  if (!sharing.label_fault.empty()) {
    return Objection{sharing.label_fault, "correct the label, or remove it"};
  }
  if (LabelShares(sharing) != false || !pod.is_complete || HasExclusiveCpus(node, pod)) {
    return std::nullopt;
  }
  return Objection{
      "the pod asks for exclusive CPUs by " + LabelText(pod) +
          (node.cpu ? ", and none of its containers gets them" : ", and this node assigns no CPUs"),
      "let the pod be Guaranteed, with a whole number of CPUs, on a node with cpuManagerPolicy "
      "static; or write LS into the label"};
}

void DescribeSharing(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const CpuSharing& sharing = pod.policies.sharing;
  if (!sharing.fault.empty() || !sharing.annotations.empty()) {
    const std::string annotation = "annotation " + std::string(kPreferShared);
    if (!MayPreferShared(node, pod)) {
      texts.push_back(IgnoredBy(node, pod, annotation, ToString(PodPolicy::kPreferSharedCpus)));
    } else if (!sharing.fault.empty()) {
      texts.push_back(sharing.fault);
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
    texts.push_back(LabelText(pod) + (LabelShares(sharing) == true ? ": shared CPUs" : ""));
  }
}

}  // namespace alignd::admission
