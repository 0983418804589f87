#include "alignd/admission/why_not.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/pod/resource_name.h"
#include "core/admission/own_defaults.h"
#include "core/admission/remedy.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

constexpr size_t kMaxSinglePods = 5;  // that are named

std::string ListOf(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// What a pod has, and how much that is.
struct Holding {
  std::string uid;
  std::string what;
  uint64_t size = 0;
};

Holding HoldingOf(const NodeState& state, const std::string& uid) {
  Holding holding{.uid = uid, .what = {}, .size = 0};
  const CpuSet cpus = state.cpu.HeldBy(uid);
  holding.size = static_cast<uint64_t>(cpus.Count());
  if (!cpus.empty()) holding.what = "CPUs " + cpus.ToString();
  for (const auto& [resource, devices] : state.devices.resources) {
    const std::set<std::string> ids = state.devices.PodIds(uid, resource);
    if (ids.empty()) continue;
    holding.size += ids.size();
    holding.what += (holding.what.empty() ? "" : ", ") + resource + " " + ListOf(ids);
  }
  std::map<std::string, uint64_t> memory;
  for (const memorymanager::Block& block : state.memory.BookedFor(uid)) {
    memory[block.type] = SaturatingSum(memory[block.type], block.size);
  }
  for (const auto& [type, bytes] : memory) {
    holding.what += (holding.what.empty() ? "" : ", ") + MemoryAmount(bytes) + " of " + type;
  }
  return holding;
}

// What a container requests of a resource, in units of so many: CPUs, devices or bytes.
struct Request {
  size_t container = 0;
  std::string resource;
  int64_t unit = 1;
};

// Of memory and huge pages, in bytes: what is smaller is no useful step.
int64_t UnitOf(const std::string& resource) {
  constexpr std::string_view kHugePages = "hugepages-";
  constexpr int64_t kMebibyte = int64_t{1} << 20;
  if (!resource.starts_with(kHugePages)) return kMebibyte;
  const Result<Quantity> page = Quantity::Parse(resource.substr(kHugePages.size()));
  return page.ok() && page->Value() > 0 ? page->Value() : 1;
}

// As a quantity of Kubernetes.
std::string AmountOf(const Request& request, int64_t units) {
  return IsMemoryName(request.resource) ? MemoryAmount(static_cast<uint64_t>(units * request.unit))
                                        : std::to_string(units);
}

// One search for the changes of one pod.
class ChangeSearch {
 public:
  ChangeSearch(const Node& node, const NodeState& state, const Pod& pod,
               const std::function<std::string(const std::string&)>& name_of,
               const std::function<bool()>& may_go_on, WhyNot& found)
      : node_(node),
        state_(state),
        pod_(pod),
        name_of_(name_of),
        may_go_on_(may_go_on),
        found_(found) {}

  void Run() {
    for (size_t i = 0; i < pod_.containers.size(); ++i) ReduceContainer(i);
    EndPods();
    std::ranges::stable_sort(found_.changes, {}, &Change::size);
    ChangePolicy();
  }

 private:
  // False also when the search has ended.
  bool FitsNow(const Node& node, const NodeState& state, const Pod& pod) {
    if (!may_go_on_()) found_.is_complete = false;
    return found_.is_complete && Fits(node, state, pod);
  }

  // The strictest policy with which the pod fits now; of a pod with a policy of its own, another
  // one of those that it can ask for.
  void ChangePolicy() {
    PreferBindPolicy();
    if (const std::optional<NumaTopologyPolicy> own = OwnPolicy(node_, pod_)) {
      return ChangeOwnPolicy(*own);
    }
    for (const TopologyManagerPolicy policy : WeakerPolicies(node_)) {
      const std::optional<Node> weaker = WithPolicy(node_, policy);
      if (!weaker || !FitsNow(*weaker, state_, pod_)) continue;
      found_.changes.push_back(
          {ChangeKind::kChangePolicy, "set topologyManagerPolicy " + std::string(ToString(policy)) +
                                          WithoutDefaultTopology(node_.config) +
                                          ": the pod is then admitted without this alignment"});
      return;
    }
  }

  // The bind policy that the pod requires, as far as possible.
  void PreferBindPolicy() {
    const std::optional<CpuBindPolicy> required = ChosenPolicies(node_, pod_).required_bind;
    if (!required) return;
    const bool is_default = DefaultsOf(node_, pod_).required_bind.has_value();
    const bool is_asked =
        pod_.policies.required_bind && MayChoose(node_, pod_, PodPolicy::kCpuBindPolicy);
    const std::string annotation = "annotation " + std::string(kResourceSpecAnnotation);
    Pod pod = WithDefaults(node_, pod_, [&](PlacementPolicies& defaults) {
      defaults.required_bind.reset();
      defaults.preferred_bind = required;
    });
    pod.policies.required_bind.reset();
    pod.policies.preferred_bind.reset();
    if (!FitsNow(node_, state_, pod)) return;
    found_.changes.push_back(
        {ChangeKind::kChangePolicy,
         "write preferredCPUBindPolicy in place of requiredCPUBindPolicy into " +
             (is_default ? DefaultsText(pod_) + " in namespacePolicies" +
                               (is_asked ? ", and into " + annotation : std::string())
                         : annotation) +
             ": the pod is then admitted without this alignment with cores"});
  }

  void ChangeOwnPolicy(NumaTopologyPolicy own) {
    for (const NumaTopologyPolicy weaker :
         {NumaTopologyPolicy::kRestricted, NumaTopologyPolicy::kBestEffort}) {
      if (weaker >= own) continue;
      // What the pod asks for itself can be no weaker than its default.
      const std::optional<NumaTopologyPolicy> by_default = DefaultsOf(node_, pod_).numa_topology;
      const bool is_default = by_default && weaker < *by_default;
      const bool is_asked =
          pod_.policies.numa_topology && MayChoose(node_, pod_, PodPolicy::kNumaTopologyPolicy);
      const std::string annotation = "annotation " + std::string(kNumaTopologyAnnotation);
      Pod pod = WithDefaults(node_, pod_,
                             [&](PlacementPolicies& defaults) { defaults.numa_topology = weaker; });
      pod.policies.numa_topology.reset();
      if (!FitsNow(node_, state_, pod)) continue;
      found_.changes.push_back(
          {ChangeKind::kChangePolicy,
           "write numaTopologyPolicy " + std::string(ToString(weaker)) + " into " +
               (is_default ? DefaultsText(pod_) + " in namespacePolicies" +
                                 (is_asked ? ", and remove it from " + annotation : std::string())
                           : annotation) +
               ": the pod is then admitted without this alignment"});
      return;
    }
  }

  void ReduceContainer(size_t index) {
    const Container& container = pod_.containers[index];
    if (ExclusiveCpuCount(pod_, container) > 1) Reduce({index, "cpu"}, "CPUs");
    const bool assigns_memory = AssignsMemory(node_, pod_);
    for (const auto& [resource, amount] : container.resources.limits) {
      if (IsExtendedResource(resource) && state_.devices.resources.contains(resource)) {
        Reduce({index, resource}, resource);
      } else if (assigns_memory && IsMemoryName(resource)) {
        Reduce({index, resource, UnitOf(resource)}, resource);
      }
    }
  }

  bool FitsWith(const Request& request, int64_t units) {
    const Result<Quantity> less = Quantity::Parse(AmountOf(request, units));
    if (!less.ok()) return false;
    Pod smaller = pod_;
    Resources& resources = smaller.containers[request.container].resources;
    for (ResourceList* list : {&resources.requests, &resources.limits}) {
      const auto entry = list->find(request.resource);
      // A request below the limit stays where it is low enough.
      if (entry != list->end() && entry->second > *less) entry->second = *less;
    }
    return FitsNow(node_, state_, smaller);
  }

  // The largest amount from `low`, which fits, to below `high`, which does not. Not every amount
  // in between that is small enough fits: whole cores may be required. Hence the steps.
  int64_t LargestBetween(const Request& request, int64_t low, int64_t high) {
    constexpr int64_t kThreadsPerCore = 8;  // no machine has more
    while (high - low > 1 && found_.is_complete) {
      const int64_t middle = low + (high - low) / 2;
      const int64_t end = std::min(high, middle + kThreadsPerCore);
      int64_t amount = middle;
      while (amount < end && !FitsWith(request, amount)) ++amount;
      (amount < end ? low : high) = amount < end ? amount : middle;
    }
    return low;
  }

  // The largest amount below the requested one with which the pod fits. The first ones are tried
  // one by one, then by halves.
  void Reduce(const Request& request, const std::string& what) {
    constexpr int64_t kOneByOne = 64;
    const Container& container = pod_.containers[request.container];
    const Quantity* const limit = Find(container.resources.limits, request.resource);
    if (limit == nullptr) return;
    const int64_t bytes_or_count = limit->Value();
    const int64_t wanted = bytes_or_count / request.unit + (bytes_or_count % request.unit > 0);
    int64_t too_many = wanted;
    for (int64_t amount = wanted - 1; amount > 0;
         amount = wanted - amount < kOneByOne ? amount - 1 : amount / 2) {
      if (!FitsWith(request, amount)) {
        if (!found_.is_complete) return;
        too_many = amount;
        continue;
      }
      amount = LargestBetween(request, amount, too_many);
      const bool is_memory = IsMemoryName(request.resource);
      found_.changes.push_back({ChangeKind::kReduceRequest,
                                "request " + AmountOf(request, amount) + " instead of " +
                                    (is_memory ? limit->ToString() : std::to_string(wanted)) + " " +
                                    what + " for container " + container.name,
                                is_memory ? 1 : static_cast<uint64_t>(wanted - amount)});
      return;
    }
  }

  void EndPods() {
    std::vector<Holding> others;
    NodeState without_all = state_;
    for (const std::string& uid : PodsIn(state_)) {
      if (uid == pod_.uid) continue;
      others.push_back(HoldingOf(state_, uid));
      ReleasePod(uid, without_all);
    }
    std::ranges::stable_sort(others, {}, &Holding::size);
    if (!FitsNow(node_, without_all, pod_)) return;
    size_t singles = 0;
    for (const Holding& other : others) {
      NodeState without = state_;
      ReleasePod(other.uid, without);
      if (!FitsNow(node_, without, pod_)) continue;
      AddEnd({other});
      if (++singles == kMaxSinglePods) break;
    }
    if (singles == 0) EndSeveral(others);
  }

  // A set of which no pod can stay: the largest ones stay first.
  void EndSeveral(const std::vector<Holding>& others) {
    std::vector<Holding> ending = others;
    for (size_t i = ending.size(); i-- > 0 && found_.is_complete;) {
      NodeState without = state_;
      for (size_t other = 0; other < ending.size(); ++other) {
        if (other != i) ReleasePod(ending[other].uid, without);
      }
      if (FitsNow(node_, without, pod_)) {
        ending.erase(ending.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (!found_.is_complete) return;  // some may be able to stay
    if (!ending.empty()) AddEnd(ending);
  }

  void AddEnd(const std::vector<Holding>& ending) {
    std::string what = ending.size() == 1 ? "end pod " : "end these pods: ";
    uint64_t size = 0;
    for (size_t i = 0; i < ending.size(); ++i) {
      const std::string name = name_of_(ending[i].uid);
      what +=
          (i > 0 ? "; " : "") + (name.empty() ? ending[i].uid : name) + " (" + ending[i].what + ")";
      size += ending[i].size;
    }
    found_.changes.push_back({ChangeKind::kEndPods, what, std::max<uint64_t>(size, 1)});
  }

  const Node& node_;
  const NodeState& state_;
  const Pod& pod_;
  const std::function<std::string(const std::string&)>& name_of_;
  const std::function<bool()>& may_go_on_;
  WhyNot& found_;
};

}  // namespace

std::string_view ToString(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kRepairDevices:
      return "repair-devices";
    case ChangeKind::kReduceRequest:
      return "reduce-request";
    case ChangeKind::kEndPods:
      return "end-pods";
    case ChangeKind::kChangePolicy:
      break;
  }
  return "change-policy";
}

WhyNot FindChanges(const Node& node, const NodeState& state, const Pod& pod,
                   const std::set<std::string>& unknown,
                   const std::function<std::string(const std::string& uid)>& name_of,
                   const std::function<bool()>& may_go_on) {
  WhyNot found;
  for (const std::string& resource : unknown) {
    if (!found.refusal) {
      found.refusal = UnexpectedAdmissionError("cannot allocate unregistered device " + resource +
                                               ": no device plugin has registered it with alignd");
    }
    found.changes.push_back(
        {ChangeKind::kRepairDevices,
         "start the device plugin of " + resource +
             ", or, if none serves it, start alignd with --not-devices=" + resource,
         0});
  }
  if (found.refusal) return found;
  const Admission admission =
      Admit(node, state, pod, [](const devicemanager::PreferenceQuery&) { return std::nullopt; });
  if (admission.admitted()) return found;
  found.refusal = Explain(node, state, pod, *admission.refusal);
  if (found.refusal->reason == kPodPolicyError) {
    found.changes.push_back({ChangeKind::kChangePolicy, found.refusal->remedy});
    return found;
  }
  if (std::string problem = ProblemOfDevices(state, pod); !problem.empty()) {
    found.changes.push_back({ChangeKind::kRepairDevices, std::move(problem), 0});
    return found;
  }
  ChangeSearch(node, state, pod, name_of, may_go_on, found).Run();
  return found;
}

}  // namespace alignd::admission
