#include "cri/claimed_devices.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dra/claimed_devices.h"
#include "host/log_event.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

Error ClaimsNotKnown() {
  return {ErrorCode::kUnavailable,
          "the pod has ResourceClaims, and its source of resources does not say which of its "
          "containers use them",
          "enable the kubelet's Pods API; until then, each container is decided about alone"};
}

// `named`: the CDI names of the container that is to be created. May block.
Result<Done> AddDevices(const dra::Places& places, const std::string* wanted,
                        const std::vector<std::string>& named, PodAsk& ask) {
  if (ask.claims) {
    if (Result<Done> added = dra::AddClaimed(places, *ask.claims, ask.pod); !added.ok()) {
      return added;
    }
  } else {
    bool has_claims = !named.empty();
    if (!has_claims) {
      const Result<bool> prepared = dra::HasClaims(places, ask.pod.uid);
      if (!prepared.ok()) return prepared.error();
      has_claims = *prepared;
    }
    if (!has_claims) return Done{};
    if (wanted == nullptr) return ClaimsNotKnown();
    std::erase_if(ask.pod.containers, [&](const Container& one) { return one.name != *wanted; });
  }
  if (wanted == nullptr) return Done{};
  for (Container& container : ask.pod.containers) {
    if (container.name != *wanted) continue;
    if (Result<Done> added = dra::AddNamed(places, named, container); !added.ok()) return added;
  }
  return Done{};
}

// Devices on a NUMA node that the machine does not have would align with nothing.
Result<Done> RequireKnownNodes(const Machine& machine, const Pod& pod) {
  for (const Container& container : pod.containers) {
    for (const ClaimedDevice& device : container.claimed_devices) {
      for (const int64_t node : device.numa) {
        if (machine.NumaPosition(node)) continue;
        return Error{ErrorCode::kUnavailable,
                     "container " + container.name + ": " + device.name + " is on NUMA node " +
                         std::to_string(node) + ", which this machine does not have",
                     "see the documentation of its DRA driver"};
      }
    }
  }
  return Done{};
}

}  // namespace

void FindClaimed(const HandlerContext& context, PodAsk ask,
                 const runtime::v1::ContainerConfig* config,
                 std::function<void(Result<PodAsk>)> done) {
  const bool aligns = context.node.topology.kind() != TopologyManagerPolicy::kNone;
  std::vector<std::string> named;
  if (config != nullptr) {
    for (const runtime::v1::CDIDevice& device : config->cdi_devices())
      named.push_back(device.name());
  }
  const bool is_sandbox = config == nullptr;
  // A source that knows one container only shows no claims of others.
  const bool is_alone = !is_sandbox && ask.pod.containers.size() <= 1;
  const bool has_none = named.empty() && (ask.claims ? ask.claims->empty() : is_alone);
  if (context.claimed_devices == nullptr || !aligns || has_none) return done(std::move(ask));
  context.io.Post([&node = context.node, &places = *context.claimed_devices, ask = std::move(ask),
                   wanted = is_sandbox ? std::string() : std::string(config->metadata().name()),
                   named = std::move(named), is_sandbox, done = std::move(done)]() mutable {
    PodAsk found = ask;
    Result<Done> added = AddDevices(places, is_sandbox ? nullptr : &wanted, named, found);
    if (added.ok()) added = RequireKnownNodes(node.machine, found.pod);
    if (added.ok()) return done(std::move(found));
    const bool may_miss = node.topology.kind() == TopologyManagerPolicy::kBestEffort;
    if (is_sandbox || !may_miss) return done(added.error());
    static host::LineLimit limit("claimed devices that are not found");
    if (limit.Allow()) {
      spdlog::warn("pod {}: {}; its CPUs and memory do not follow its devices",
                   ask.pod.name_space + "/" + ask.pod.name, added.error().Text());
    }
    done(std::move(ask));
  });
}

}  // namespace alignd::cri
