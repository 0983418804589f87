#include "core/admission/own_isolation.h"

#include <algorithm>

#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/pod/pod_policies.h"
#include "core/admission/scoped_objection.h"
#include "core/cpumanager/core_use.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

constexpr PodPolicy kPolicy = PodPolicy::kPreferIsolatedCpus;

std::optional<bool> Prefers(const Pod& pod, const Container& container) {
  return ValueFor(container.name, kPreferIsolated, pod.policies.isolation);
}

bool HasCpusAsAWhole(const Pod& pod) { return pod.pod_level_managers == PodLevelManagers::kPod; }

bool HasOwnCpus(const Pod& pod, const Container& container) {
  return HasCpusAsAWhole(pod) || ExclusiveCpuCount(pod, container) > 0;
}

}  // namespace

bool AsksForIsolation(const Node& node, const Pod& pod) {
  if (!node.cpu || pod.policies.isolation.values.empty() || !MayChoose(node, pod, kPolicy)) {
    return false;
  }
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    return Prefers(pod, container).has_value() && HasOwnCpus(pod, container);
  });
}

CpusByContainer CpusToAvoid(const Node& node, const cpumanager::StaticPolicy& policy,
                            const Pod& pod) {
  const CpuSet& isolated = node.machine.isolated();
  if (isolated.empty() || !AsksForIsolation(node, pod)) return {};
  const CpuSet& all = node.machine.cpus();
  const bool is_whole = cpumanager::OptionsOf(policy).full_pcpus_only;
  CpusByContainer avoided;
  for (const Container& container : pod.containers) {
    const std::optional<bool> prefers = Prefers(pod, container);
    if (!prefers || !HasOwnCpus(pod, container)) continue;
    // Parts of cores are of no use where only whole ones are assigned.
    const CpuSet others = all - isolated;
    const CpuSet& wanted = *prefers ? isolated : others;
    avoided[container.name] =
        all - (is_whole ? cpumanager::WholeCoresIn(node.machine, wanted) : wanted);
  }
  // Its containers have their CPUs together.
  const bool is_of_all = avoided.size() == pod.containers.size() &&
                         std::ranges::all_of(avoided, [&](const auto& of_container) {
                           return of_container.second == avoided.begin()->second;
                         });
  if (HasCpusAsAWhole(pod) && !is_of_all) return {};
  return avoided;
}

void AvoidByContainer(const Pod& pod, const CpusByContainer& avoided,
                      cpumanager::StaticPolicy& policy) {
  if (avoided.empty()) return;
  const CpuSet& first = avoided.begin()->second;
  const bool is_of_all = std::ranges::all_of(pod.containers, [&](const Container& container) {
    if (!HasOwnCpus(pod, container)) return true;
    const auto found = avoided.find(container.name);
    return found != avoided.end() && found->second == first;
  });
  if (is_of_all) {
    policy.avoided |= first;
  } else {
    policy.avoided_by = avoided;
  }
}

bool LeavesAffinity(const Node& node, const Pod& pod, const Admission& before,
                    const Admission& after) {
  const auto leaves = [&](const Admission& admission, const ContainerDecision& decision) {
    if (!decision.affinity || !decision.affinity->affinity) return false;
    const CpuSet* const cpus = admission.next.cpu.Find({pod.uid, decision.container});
    return cpus != nullptr && !decision.affinity->affinity->Contains(node.machine.NumaOf(*cpus));
  };
  for (size_t i = 0; i < after.decisions.size() && i < before.decisions.size(); ++i) {
    if (leaves(after, after.decisions[i]) && !leaves(before, before.decisions[i])) return true;
  }
  return false;
}

std::optional<Objection> ObjectionToIsolation(const Node& node, const Pod& pod) {
  if (!MayChoose(node, pod, kPolicy)) return std::nullopt;
  return ObjectionToScoped(kPreferIsolated, pod, pod.policies.isolation);
}

void DescribeIsolation(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const ScopedAnnotations& asked = pod.policies.isolation;
  if (asked.fault.empty() && asked.values.empty()) return;
  const std::string annotation = "annotation " + std::string(kPreferIsolated);
  if (!MayChoose(node, pod, kPolicy)) {
    texts.push_back(IgnoredBy(node, pod, annotation, ToString(kPolicy)));
    return;
  }
  if (!asked.fault.empty()) {
    texts.push_back(asked.fault);
    return;
  }
  if (node.machine.isolated().empty()) {
    texts.push_back(annotation + " has no effect: the kernel isolates no CPUs of the node");
    return;
  }
  std::string text;
  for (const bool is_on : {true, false}) {
    std::string names;
    for (const Container& container : pod.containers) {
      if (!HasOwnCpus(pod, container) || Prefers(pod, container) != is_on) continue;
      names += (names.empty() ? "" : ", ") + container.name;
    }
    if (names.empty()) continue;
    text += (text.empty() ? ": " : "; ") +
            std::string(is_on ? "isolated CPUs, if they are enough, for "
                              : "other than isolated CPUs, if they are enough, for ") +
            names;
  }
  texts.push_back(annotation + (text.empty() ? " has no effect on the pod's containers" : text));
}

}  // namespace alignd::admission
