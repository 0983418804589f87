#include "cri/claimed_devices.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "dra/claimed_devices.h"
#include "host/log_event.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

// Whether the pod has CPUs, memory or devices of plugins that could be beside a claimed device.
bool HasToAlign(const admission::NodeState& state, const Pod& pod) {
  if (IsPinned(pod)) return true;
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

// Without a name of the question, a device is another container's.
void KeepNamed(const ClaimQuestion& question, std::vector<dra::PreparedDevice>& devices) {
  std::erase_if(devices, [&](const dra::PreparedDevice& device) {
    return std::ranges::none_of(
        device.cdi_names, [&](const std::string& name) { return question.names.contains(name); });
  });
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
  owner = *std::move(located);
  return Done{};
}

}  // namespace

void FindClaimed(const HandlerContext& context, PodAsk ask,
                 const runtime::v1::ContainerConfig* config,
                 std::function<void(Result<PodAsk>)> done) {
  if (context.claimed_devices == nullptr || ask.pod.containers.empty() ||
      admission::TopologyOf(context.node, ask.pod).kind() == TopologyManagerPolicy::kNone) {
    return done(std::move(ask));
  }
  ClaimQuestion question{
      .node = context.node, .places = *context.claimed_devices, .is_sandbox = config == nullptr};
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  bool is_decided = false;
  if (config != nullptr) {
    question.wanted = config->metadata().name();
    for (const auto& device : config->cdi_devices()) question.names.insert(device.name());
    is_decided = IsAssigned(snapshot->state, {ask.pod.uid, question.wanted});
  }
  if (is_decided || !HasToAlign(snapshot->state, ask.pod)) return done(std::move(ask));
  context.io.Post([question, ask = std::move(ask), done = std::move(done)] {
    PodAsk found = ask;
    const Result<Done> added = AddDevices(question, found.pod);
    if (added.ok()) return done(std::move(found));
    const bool is_best_effort =
        admission::TopologyOf(question.node, ask.pod).kind() == TopologyManagerPolicy::kBestEffort;
    if (question.is_sandbox || !is_best_effort) return done(added.error());
    static host::LineLimit limit("claimed devices that are not found");
    if (limit.Allow()) {
      spdlog::warn("pod {}/{}: {}; its CPUs and memory do not follow its devices",
                   ask.pod.name_space, ask.pod.name, added.error().Text());
    }
    done(ask);
  });
}

}  // namespace alignd::cri
