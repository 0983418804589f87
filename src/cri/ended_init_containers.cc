#include "cri/ended_init_containers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/cri_sizes.h"

namespace alignd::cri {
namespace {

using allocation::Snapshot;
using runtime::v1::LinuxContainerResources;

constexpr int64_t kMillisPerCpu = 1000;

// The resources of a container of which its pod can have too much. Sizes may be as large as a
// caller likes, so sums saturate.
struct Share {
  int64_t cpus = 0;  // exclusive ones
  int64_t memory = 0;
};

Share operator+(const Share& a, const Share& b) {
  return {SaturatingSum(a.cpus, b.cpus), SaturatingSum(a.memory, b.memory)};
}

struct Assigned {
  Container container;
  Share share;
};

// The pod's other containers that are assigned CPUs or memory, by name.
using Others = std::map<std::string, Assigned>;

// A container of the pod, taken for an init container, whose requests are exactly what it is
// assigned.
Assigned AssignedTo(const Snapshot& snapshot, const ContainerKey& key) {
  Assigned assigned{{key.container, ContainerKind::kInit, {}}, {}};
  ResourceList& limits = assigned.container.resources.limits;
  if (const CpuSet* cpus = snapshot.state.cpu.Find(key)) {
    assigned.share.cpus = cpus->Count();
    limits["cpu"] = Quantity(assigned.share.cpus);
  }
  if (const auto* blocks = snapshot.state.memory.Find(key)) {
    constexpr uint64_t kMaxSize = std::numeric_limits<int64_t>::max();
    std::map<std::string, int64_t> sizes;
    for (const memorymanager::Block& block : *blocks) {
      int64_t& size = sizes[block.type];
      size = SaturatingSum(size, static_cast<int64_t>(std::min(block.size, kMaxSize)));
    }
    for (const auto& [type, bytes] : sizes) limits[type] = Quantity(bytes);
    assigned.share.memory = sizes["memory"];
  }
  const auto devices = snapshot.state.devices.allocations.find(key);
  if (devices != snapshot.state.devices.allocations.end()) {
    for (const auto& [resource, allocation] : devices->second) {
      limits[resource] = Quantity(static_cast<int64_t>(allocation.Ids().size()));
    }
  }
  assigned.container.resources.requests = limits;
  return assigned;
}

Others OthersOf(const Snapshot& snapshot, const ContainerKey& self) {
  Others others;
  const auto add = [&](const auto& assignments) {
    const auto pod = assignments.find(self.pod_uid);
    if (pod == assignments.end()) return;
    for (const auto& [name, assignment] : pod->second) {
      if (name != self.container) others[name] = AssignedTo(snapshot, {self.pod_uid, name});
    }
  };
  add(snapshot.state.cpu.assignments);
  add(snapshot.state.memory.assignments);
  return others;
}

// Moves the app containers that have something to the request.
void MoveApps(Others& others, podsource::PodAsk& ask) {
  for (const std::string& name : ask.apps) {
    auto app = others.extract(name);
    if (app.empty()) continue;
    Container& container = ask.pod.containers.emplace_back(std::move(app.mapped().container));
    container.kind = ContainerKind::kApp;
  }
}

// What the container is going to be assigned.
Share ShareOf(const admission::Node& node, const Pod& pod, const Container& container) {
  Share share;
  if (node.cpu) share.cpus = ExclusiveCpus(pod, container);
  if (admission::AssignsMemory(node, pod)) {
    share.memory = Amount(container.resources.requests, "memory");
  }
  return share;
}

// `self` and all others but those named.
Share Together(Share self, const Others& others, const std::vector<std::string>& but = {}) {
  for (const auto& [name, assigned] : others) {
    if (std::ranges::find(but, name) == but.end()) self = self + assigned.share;
  }
  return self;
}

// Whether the sandbox shows what the kubelet allocated for the pod.
bool IsShown(const LinuxContainerResources& pod) { return pod.cpu_shares() > 0; }

bool Exceeds(const Share& share, const LinuxContainerResources& pod) {
  const int64_t quota = MillisFromQuota(pod.cpu_quota(), pod.cpu_period());
  const int64_t millis = quota > 0 ? quota : MillisFromShares(pod.cpu_shares());
  const int64_t memory = pod.memory_limit_in_bytes();
  return share.cpus > millis / kMillisPerCpu || (memory > 0 && share.memory > memory);
}

// The names of those that must have been init containers, in the order of the header's comment.
// `not_init`: those that are none.
std::vector<std::string> Ended(const Others& others, const Share& self,
                               const LinuxContainerResources& pod,
                               const std::set<std::string>& not_init,
                               const std::vector<reconcile::SandboxContainer>& containers) {
  std::map<std::string, const reconcile::SandboxContainer*> last;  // of each name
  for (const reconcile::SandboxContainer& container : containers) {
    const reconcile::SandboxContainer*& known = last[container.name];
    if (known == nullptr || known->created_at < container.created_at) known = &container;
  }
  std::vector<std::pair<int64_t, std::string>> ended;  // with the time of their creation
  std::vector<std::string> of_earlier_sandboxes;
  for (const auto& [name, assigned] : others) {
    if (not_init.contains(name)) continue;
    const auto found = last.find(name);
    if (found == last.end()) {
      of_earlier_sandboxes.push_back(name);
    } else if (found->second->exit_code == 0) {
      ended.emplace_back(found->second->created_at, name);
    }
  }
  std::ranges::sort(ended);
  std::vector<std::string> candidates;
  for (auto& [created_at, name] : ended) candidates.push_back(std::move(name));
  if (!IsShown(pod)) return candidates;
  candidates.insert(candidates.end(), of_earlier_sandboxes.begin(), of_earlier_sandboxes.end());
  std::vector<std::string> names;
  for (std::string& name : candidates) {
    if (!Exceeds(Together(self, others, names), pod)) break;
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

void AddEndedInitContainers(const HandlerContext& context,
                            const runtime::v1::CreateContainerRequest& request,
                            podsource::PodAsk ask, std::function<void(podsource::PodAsk)> done) {
  if (ask.pod.containers.size() != 1) return done(std::move(ask));
  const std::shared_ptr<const Snapshot> snapshot = context.allocation.snapshot();
  const ContainerKey key{ask.pod.uid, ask.pod.containers.front().name};
  // The parts of such a pod's containers are known, and stay.
  if (snapshot->state.cpu.pods.contains(key.pod_uid)) return done(std::move(ask));
  const Share self = ShareOf(context.node, ask.pod, ask.pod.containers.front());
  if (self.cpus == 0 && self.memory == 0) return done(std::move(ask));

  // A source that knows other containers of the pod knows its own resources, too.
  const bool may_have_own = PodLevelResourceManagersOn(context.node.config) && ask.apps.empty();
  Others others = OthersOf(*snapshot, key);
  std::set<std::string> not_init = ask.apps;
  for (const auto& [name, assigned] : others) {
    const std::optional<ContainerKind> role = context.allocation.RoleOf({key.pod_uid, name});
    if (role && *role != ContainerKind::kInit) not_init.insert(name);
    if (role == ContainerKind::kApp) ask.apps.insert(name);
  }
  const bool is_init = ask.pod.containers.front().kind == ContainerKind::kInit ||
                       context.allocation.RoleOf(key) == ContainerKind::kInit;
  if (is_init) MoveApps(others, ask);
  if (others.empty()) return done(std::move(ask));
  const LinuxContainerResources& pod = request.sandbox_config().linux().resources();
  if (IsShown(pod) && !Exceeds(Together(self, others), pod)) return done(std::move(ask));

  auto add = [ask = std::move(ask), done = std::move(done), others = std::move(others), self, pod,
              not_init = std::move(not_init), may_have_own](
                 const Result<std::vector<reconcile::SandboxContainer>>& containers) mutable {
    if (!containers.ok()) {
      spdlog::warn("pod {}: which of its containers have ended is not known: {}", NameOf(ask.pod),
                   containers.error().Text());
      return done(std::move(ask));
    }
    std::vector<Container> ended;
    const std::vector<std::string> names = Ended(others, self, pod, not_init, *containers);
    if (may_have_own && IsShown(pod) && Exceeds(Together(self, others, names), pod)) {
      // CRI shows the sizes of the pod for such a container, and it is entitled to none.
      ask.source +=
          "; with its CPUs and memory, the pod would have more than it is allocated: it "
          "has resources of its own";
      ask.pod.pod_level = ask.pod.containers.front().resources;
      return done(std::move(ask));
    }
    for (const std::string& name : names) {
      ask.source += (ended.empty() ? "; ended init containers: " : ", ") + name;
      ended.push_back(std::move(others.at(name).container));
    }
    ask.pod.containers.insert(ask.pod.containers.begin(), ended.begin(), ended.end());
    done(std::move(ask));
  };
  context.runtime.ListSandbox(
      context.registry.SandboxNamed(request.pod_sandbox_id()).value_or(request.pod_sandbox_id()),
      [&events = context.events,
       add = std::move(add)](Result<std::vector<reconcile::SandboxContainer>> containers) {
        events.Post([add, containers = std::move(containers)]() mutable { add(containers); });
      });
}

}  // namespace alignd::cri
