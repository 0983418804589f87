#include "cri/ended_init_containers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "podsource/cri_sizes.h"

namespace alignd::cri {
namespace {

using allocation::Snapshot;
using runtime::v1::LinuxContainerResources;

constexpr int64_t kMillisPerCpu = 1000;

// What a container asks for, as far as a pod can have too much of it.
struct Share {
  int64_t cpus = 0;  // exclusive ones
  int64_t memory = 0;
};

Share operator+(const Share& a, const Share& b) { return {a.cpus + b.cpus, a.memory + b.memory}; }

struct Holder {
  Container container;
  Share share;
};

// A container of the pod, made to ask for exactly what it holds.
Holder HolderOf(const Snapshot& snapshot, const ContainerKey& key) {
  Holder holder{{key.container, ContainerKind::kInit, {}}, {}};
  ResourceList& limits = holder.container.resources.limits;
  if (const CpuSet* cpus = snapshot.state.cpu.Find(key)) {
    holder.share.cpus = cpus->Count();
    limits["cpu"] = Quantity(holder.share.cpus);
  }
  if (const auto* blocks = snapshot.state.memory.Find(key)) {
    std::map<std::string, int64_t> sizes;
    for (const memorymanager::Block& block : *blocks) {
      sizes[block.type] += static_cast<int64_t>(block.size);
    }
    for (const auto& [type, bytes] : sizes) limits[type] = Quantity(bytes);
    holder.share.memory = sizes["memory"];
  }
  const auto devices = snapshot.state.devices.allocations.find(key);
  if (devices != snapshot.state.devices.allocations.end()) {
    for (const auto& [resource, allocation] : devices->second) {
      limits[resource] = Quantity(static_cast<int64_t>(allocation.Ids().size()));
    }
  }
  holder.container.resources.requests = limits;
  return holder;
}

// The other containers of the pod that hold CPUs or memory, by name.
std::map<std::string, Holder> HoldersBeside(const Snapshot& snapshot, const ContainerKey& self) {
  std::map<std::string, Holder> holders;
  const auto add = [&](const auto& assignments) {
    const auto pod = assignments.find(self.pod_uid);
    if (pod == assignments.end()) return;
    for (const auto& [name, held] : pod->second) {
      if (name != self.container) holders[name] = HolderOf(snapshot, {self.pod_uid, name});
    }
  };
  add(snapshot.state.cpu.assignments);
  add(snapshot.state.memory.assignments);
  return holders;
}

// What the container is going to hold.
Share ShareOf(const admission::Node& node, const Pod& pod, const Container& container) {
  Share share;
  if (node.cpu) share.cpus = ExclusiveCpus(pod, container);
  if (node.memory && QosOf(pod) == QosClass::kGuaranteed) {
    share.memory = podsource::Amount(container.resources.limits, "memory");
  }
  return share;
}

bool IsShown(const LinuxContainerResources& counted) { return counted.cpu_shares() > 0; }

bool Exceeds(const Share& share, const LinuxContainerResources& counted) {
  const int64_t quota = podsource::MillisFromQuota(counted);
  const int64_t millis = quota > 0 ? quota : podsource::MillisFromShares(counted.cpu_shares());
  const int64_t memory = counted.memory_limit_in_bytes();
  return share.cpus * kMillisPerCpu > millis || (memory > 0 && share.memory > memory);
}

// The names of those that must have been init containers, in the order of `earlier_containers.h`.
std::vector<std::string> Ended(const std::map<std::string, Holder>& holders, Share together,
                               const LinuxContainerResources& counted,
                               const std::vector<reconcile::SandboxContainer>& containers) {
  std::map<std::string, const reconcile::SandboxContainer*> last;  // of each name
  for (const reconcile::SandboxContainer& container : containers) {
    const reconcile::SandboxContainer*& known = last[container.name];
    if (known == nullptr || known->created_at < container.created_at) known = &container;
  }
  std::vector<std::pair<int64_t, std::string>> ended;  // when it was created
  std::vector<std::string> of_earlier_sandboxes;
  for (const auto& [name, holder] : holders) {
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
  if (!IsShown(counted)) return candidates;
  candidates.insert(candidates.end(), of_earlier_sandboxes.begin(), of_earlier_sandboxes.end());
  std::vector<std::string> names;
  for (std::string& name : candidates) {
    if (!Exceeds(together, counted)) break;
    const Share& share = holders.at(name).share;
    together = together + Share{-share.cpus, -share.memory};
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
  const ContainerKey self{ask.pod.uid, ask.pod.containers.front().name};
  const Share wanted = ShareOf(context.node, ask.pod, ask.pod.containers.front());
  if (wanted.cpus == 0 && wanted.memory == 0) return done(std::move(ask));

  std::map<std::string, Holder> holders = HoldersBeside(*snapshot, self);
  if (holders.empty()) return done(std::move(ask));
  Share together = wanted;
  for (const auto& [name, holder] : holders) together = together + holder.share;
  const LinuxContainerResources& counted = request.sandbox_config().linux().resources();
  if (IsShown(counted) && !Exceeds(together, counted)) return done(std::move(ask));

  context.runtime.ListSandbox(
      context.registry.SandboxNamed(request.pod_sandbox_id()).value_or(request.pod_sandbox_id()),
      [ask = std::move(ask), done = std::move(done), holders = std::move(holders), together,
       counted](const Result<std::vector<reconcile::SandboxContainer>>& containers) mutable {
        if (!containers.ok()) {
          spdlog::warn("pod {}: which of its containers have ended is not known: {}",
                       NameOf(ask.pod), containers.error().Text());
          return done(std::move(ask));
        }
        std::vector<Container> ended;
        for (const std::string& name : Ended(holders, together, counted, *containers)) {
          ask.source += (ended.empty() ? "; ended before: " : ", ") + name;
          ended.push_back(std::move(holders.at(name).container));
        }
        ask.pod.containers.insert(ask.pod.containers.begin(), ended.begin(), ended.end());
        done(std::move(ask));
      });
}

}  // namespace alignd::cri
