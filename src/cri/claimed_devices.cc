#include "cri/claimed_devices.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "cri/extended_resources.h"
#include "dra/claimed_devices.h"
#include "host/log_event.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

// Whether the pod has CPUs, memory or devices of plugins that could be beside a claimed device.
bool HasToAlign(const admission::Node& node, const admission::NodeState& state, const Pod& pod) {
  if (IsPinned(pod) || admission::AssignsMemory(node, pod)) return true;
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      return state.devices.resources.contains(limit.first) && !limit.second.IsZero();
    });
  });
}

bool IsAssigned(const admission::NodeState& state, const ContainerKey& key) {
  return state.cpu.Find(key) != nullptr || state.memory.Find(key) != nullptr ||
         state.devices.allocations.contains(key);
}

// One question about a pod. Copied to the thread that reads files.
struct ClaimQuestion {
  const admission::Node& node;
  const dra::Places& places;
  bool is_sandbox = false;
  std::string wanted = {};           // the container that is to be created
  std::set<std::string> names = {};  // its CDI names

  bool IsPodScope() const { return node.topology.scope() == TopologyManagerScope::kPod; }
};

bool HasName(const dra::PreparedDevice& device, const std::set<std::string>& names) {
  return std::ranges::any_of(device.cdi_names,
                             [&](const std::string& name) { return names.contains(name); });
}

// Without a name of the question, a device is another container's.
void KeepNamed(const ClaimQuestion& question, std::vector<dra::PreparedDevice>& devices) {
  std::erase_if(
      devices, [&](const dra::PreparedDevice& device) { return !HasName(device, question.names); });
}

void ReduceTo(const std::string& wanted, Pod& pod) {
  if (!pod.stated_qos) pod.stated_qos = QosOf(pod);
  std::erase_if(pod.containers, [&](const Container& one) { return one.name != wanted; });
}

Result<Done> RequireKnownPlaces(const Machine& machine, bool is_sandbox,
                                const std::vector<ClaimedDevice>& devices) {
  for (const ClaimedDevice& device : devices) {
    if (is_sandbox && device.numa.empty()) {
      return Error{ErrorCode::kUnavailable, "it is not known yet where " + device.name + " is",
                   "nothing: it is decided about again when its containers are created"};
    }
    for (const int64_t node : device.numa) {
      if (machine.NumaPosition(node)) continue;
      return Error{ErrorCode::kUnavailable,
                   device.name + " is on NUMA node " + std::to_string(node) +
                       ", which this machine does not have",
                   "see the documentation of its DRA driver"};
    }
  }
  return Done{};
}

void NoteServed(const std::vector<std::string>& resources, PodAsk& ask) {
  for (const std::string& resource : resources) ask.source += ", DRA serves " + resource;
}

// The devices that were allocated for extended resources of the pod. May block.
Result<std::vector<dra::PreparedDevice>> ServedDevices(const ClaimQuestion& question,
                                                       const PodAsk& ask) {
  Result<std::vector<dra::PreparedDevice>> devices = dra::PreparedFor(question.places, ask.pod.uid);
  if (!devices.ok()) {
    // Without CDI names, CRI shows nothing of DRA: the container may have devices of plugins alone.
    if (question.is_sandbox || !question.names.empty()) return devices.error();
    return std::vector<dra::PreparedDevice>();
  }
  std::erase_if(*devices,
                [](const dra::PreparedDevice& device) { return device.extended_requests.empty(); });
  return devices;
}

// The resources of the container that is to be created which DRA serves are removed from the pod;
// from the whole pod, if its source has all of its spec. May block.
Result<Done> RemoveServed(const ClaimQuestion& question, const devicemanager::DeviceState& plugins,
                          PodAsk& ask) {
  Result<std::vector<dra::PreparedDevice>> devices = ServedDevices(question, ask);
  if (!devices.ok()) return devices.error();
  if (devices->empty()) return Done{};
  if (!ask.spec.empty()) {
    const Result<std::vector<std::string>> served =
        ServedByDra(plugins, *devices,
                    {ask.pod.uid, ask.spec, ask.may_have_added, question.node.config.not_devices});
    if (!served.ok()) return served.error();
    for (Container& container : ask.pod.containers) RemoveResources(*served, container);
    NoteServed(*served, ask);
    return Done{};
  }
  if (question.is_sandbox) {
    return Error{ErrorCode::kUnavailable,
                 "DRA serves extended resources of it, and CRI shows at CreateContainer which",
                 "nothing: its containers are decided about one by one"};
  }
  const std::vector<Container> listed = ask.pod.containers;
  const auto is_other = [&](const Container& one) {
    return one.name != question.wanted && RequestsExtended(one);
  };
  if (std::ranges::any_of(listed, is_other)) {
    if (question.IsPodScope()) {
      return Error{ErrorCode::kUnavailable,
                   "DRA serves extended resources of several of its containers, and with "
                   "topologyManagerScope pod CRI does not show which",
                   "switch on the kubelet's Pods API"};
    }
    ReduceTo(question.wanted, ask.pod);
  }
  KeepNamed(question, *devices);
  const auto container = std::ranges::find(ask.pod.containers, question.wanted, &Container::name);
  if (container == ask.pod.containers.end()) return Done{};
  const Result<std::vector<std::string>> removed =
      RemoveServedByDra(plugins, *devices, listed, *container);
  if (!removed.ok()) return removed.error();
  NoteServed(*removed, ask);
  return Done{};
}

// CRI does not show which container has them: they are the pod's.
Result<Done> AddUnnamed(const dra::Places& places, std::vector<dra::PreparedDevice>& devices,
                        Pod& pod) {
  const auto unnamed = std::stable_partition(
      devices.begin(), devices.end(),
      [](const dra::PreparedDevice& device) { return !device.cdi_names.empty(); });
  Result<std::vector<ClaimedDevice>> located = dra::Locate(places, {unnamed, devices.end()});
  if (!located.ok()) return located.error();
  devices.erase(unnamed, devices.end());
  std::ranges::move(*located, std::back_inserter(pod.claimed_devices));
  return Done{};
}

// May block.
Result<Done> AddDevices(const ClaimQuestion& question, Pod& pod) {
  Result<std::vector<dra::PreparedDevice>> devices = dra::PreparedFor(question.places, pod.uid);
  const bool is_one_of_several = !question.IsPodScope() && pod.containers.size() > 1;
  if (!devices.ok()) {
    if (question.is_sandbox || !question.names.empty()) return devices.error();
    // This container has no device of DRA. What others have is found when they are created.
    if (is_one_of_several) ReduceTo(question.wanted, pod);
    return Done{};
  }
  if (const Result<Done> added = AddUnnamed(question.places, *devices, pod); !added.ok()) {
    return added;
  }
  if (devices->empty()) return Done{};
  if (is_one_of_several) {
    if (question.is_sandbox) {
      return Error{
          ErrorCode::kUnavailable,
          "it has ResourceClaims, and CRI shows at CreateContainer which of its containers "
          "have them",
          "nothing: its containers are decided about one by one"};
    }
    ReduceTo(question.wanted, pod);
  }
  if (!question.IsPodScope() && !question.is_sandbox) KeepNamed(question, *devices);
  Result<std::vector<ClaimedDevice>> located = dra::Locate(question.places, *devices);
  if (!located.ok()) return located.error();
  const Result<Done> known =
      RequireKnownPlaces(question.node.machine, question.is_sandbox, *located);
  if (!known.ok()) return known;
  auto& owner =
      question.IsPodScope() ? pod.claimed_devices : pod.containers.front().claimed_devices;
  owner.insert(owner.begin(), located->begin(), located->end());
  return Done{};
}

void WarnOfUnknown(const Pod& pod, const Error& error) {
  static host::LineLimit limit("claimed devices that are not found");
  if (!limit.Allow()) return;
  spdlog::warn("pod {}/{}: {}; its CPUs and memory do not follow its devices", pod.name_space,
               pod.name, error.Text());
}

// The CDI names of each of these containers of which they are known.
using NamesByContainer = std::map<std::string, std::set<std::string>>;

NamesByContainer KnownNames(const HandlerContext& context, const std::string& pod_uid,
                            const std::set<std::string>& containers) {
  NamesByContainer known;
  const bool by_container = context.node.topology.scope() == TopologyManagerScope::kContainer;
  if (!by_container || context.cdi_names == nullptr) return known;
  for (const std::string& container : containers) {
    if (auto names = context.cdi_names->Of({pod_uid, container}))
      known[container] = *std::move(names);
  }
  return known;
}

// `names_are_all`: of all containers that are asked about. Then devices of others are not located,
// so that no fault of those refuses the resize. May block.
Result<Done> AddAllDevices(const HandlerContext& context, const NamesByContainer& names,
                           bool names_are_all, Pod& pod) {
  Result<std::vector<dra::PreparedDevice>> devices =
      dra::PreparedFor(*context.claimed_devices, pod.uid);
  if (!devices.ok()) return devices.error();
  if (names_are_all) {
    std::erase_if(*devices, [&](const dra::PreparedDevice& device) {
      return !device.cdi_names.empty() && std::ranges::none_of(names, [&](const auto& container) {
        return HasName(device, container.second);
      });
    });
  }
  const Result<std::vector<ClaimedDevice>> located =
      dra::Locate(*context.claimed_devices, *devices);
  if (!located.ok()) return located.error();
  const Result<Done> known =
      RequireKnownPlaces(context.node.machine, /*is_sandbox=*/false, *located);
  if (!known.ok()) return known.error();
  pod.claimed_devices = *located;
  for (const auto& [name, its_names] : names) {
    Container& container = pod.containers.emplace_back();
    container.name = name;
    for (size_t i = 0; i < devices->size(); ++i) {
      // As at its creation: one without a CDI name counts for each container.
      const dra::PreparedDevice& device = (*devices)[i];
      if (!device.cdi_names.empty() && !HasName(device, its_names)) continue;
      container.claimed_devices.push_back((*located)[i]);
    }
  }
  return Done{};
}

// Whether the container has its assignment, and the call does not ask for more CPUs than that.
bool IsSettled(const admission::NodeState& state, const Pod& pod, const std::string& wanted) {
  const ContainerKey key{pod.uid, wanted};
  if (!IsAssigned(state, key)) return false;
  const CpuSet* const cpus = state.cpu.Find(key);
  const auto container = std::ranges::find(pod.containers, wanted, &Container::name);
  return container == pod.containers.end() ||
         ExclusiveCpus(pod, *container) <= (cpus == nullptr ? 0 : cpus->Count());
}

}  // namespace

void RecordCdiNames(const HandlerContext& context, const ContainerKey& key,
                    const runtime::v1::ContainerConfig& config) {
  if (context.cdi_names == nullptr) return;
  std::set<std::string> names;
  for (const auto& device : config.cdi_devices()) names.insert(device.name());
  context.cdi_names->Created(key, std::move(names));
}

void FindClaimed(const HandlerContext& context, PodAsk ask,
                 const runtime::v1::ContainerConfig* config,
                 std::function<void(Result<PodAsk>)> done) {
  if (context.claimed_devices == nullptr || ask.pod.containers.empty()) {
    return done(std::move(ask));
  }
  ClaimQuestion question{
      .node = context.node, .places = *context.claimed_devices, .is_sandbox = config == nullptr};
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  bool is_decided = false;
  if (config != nullptr) {
    question.wanted = config->metadata().name();
    for (const auto& device : config->cdi_devices()) question.names.insert(device.name());
    is_decided = IsSettled(snapshot->state, ask.pod, question.wanted);
  }
  const TopologyManagerPolicy policy = admission::TopologyOf(context.node, ask.pod).kind();
  const bool aligns = policy != TopologyManagerPolicy::kNone && !is_decided &&
                      HasToAlign(context.node, snapshot->state, ask.pod);
  // A source that has the whole spec also knows of devices without a CDI name.
  const bool may_be_served =
      !ask.knows_dra && (!ask.spec.empty() || question.is_sandbox || !question.names.empty()) &&
      std::ranges::any_of(ask.pod.containers, RequestsExtended);
  if (!aligns && !may_be_served) return done(std::move(ask));
  context.io.Post([question, snapshot, policy, aligns, may_be_served, ask = std::move(ask),
                   done = std::move(done)] {
    PodAsk found = ask;
    if (may_be_served) {
      const Result<Done> removed = RemoveServed(question, snapshot->state.devices, found);
      if (!removed.ok()) return done(removed.error());
    }
    if (!aligns) return done(std::move(found));
    const PodAsk without = found;
    const Result<Done> added = AddDevices(question, found.pod);
    if (added.ok()) return done(std::move(found));
    if (question.is_sandbox || policy != TopologyManagerPolicy::kBestEffort) {
      return done(added.error());
    }
    WarnOfUnknown(without.pod, added.error());
    done(without);
  });
}

void FindClaimedOfPod(const HandlerContext& context, Pod pod,
                      const std::set<std::string>& containers,
                      std::function<void(Result<Pod>)> done) {
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  // As the resize is decided: a pod without an assignment has its own policies only by then.
  const admission::NodeState state = admission::WithPoliciesOf(context.node, snapshot->state, pod);
  const TopologyManagerPolicy policy =
      admission::TopologyOf(context.node, admission::OwnPolicy(context.node, state, pod.uid))
          .kind();
  if (context.claimed_devices == nullptr || policy == TopologyManagerPolicy::kNone) {
    return done(std::move(pod));
  }
  NamesByContainer names = KnownNames(context, pod.uid, containers);
  const bool names_are_all = !names.empty() && names.size() == containers.size();
  context.io.Post([context, policy, names_are_all, names = std::move(names), pod = std::move(pod),
                   done = std::move(done)] {
    Pod found = pod;
    const Result<Done> added = AddAllDevices(context, names, names_are_all, found);
    if (!added.ok() && policy != TopologyManagerPolicy::kBestEffort) return done(added.error());
    if (!added.ok()) WarnOfUnknown(pod, added.error());
    done(std::move(found));
  });
}

}  // namespace alignd::cri
