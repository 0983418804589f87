#include "cri/system_partition.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "cgroup/cgroup_path.h"
#include "cgroup/system_partition.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

// The name of one of the containers that is not to run on just any CPUs of the shared pool.
std::optional<std::string> NeedsCpus(const admission::Node& node, const Pod& asking,
                                     const std::set<std::string>& containers) {
  const Pod pod = admission::OnThisNode(node, asking);
  const auto needs = std::ranges::find_if(pod.containers, [&](const Container& container) {
    return containers.contains(container.name) && (admission::RequestsCpus(node, pod, container) ||
                                                   admission::AsksForOneNode(node, pod, container));
  });
  return needs == pod.containers.end() ? std::nullopt : std::optional(needs->name);
}

PartitionLack TooFew(std::string container, const std::string& partition, const CpuSet& cpus) {
  return {std::move(container),
          "requests CPUs of its own, but its pod is in cgroup " + partition +
              ", the kubelet's system partition, which has CPUs " + cpus.ToString() + " only",
          "remove its namespace from systemPartition.namespaces of the kubelet, or let its pods "
          "share CPUs (namespacePolicies: prefer-shared-cpus)"};
}

}  // namespace

void FindPartitionLack(const HandlerContext& context, const std::string& cgroup_parent,
                       const Pod& pod, const std::set<std::string>& containers,
                       std::function<void(Result<std::optional<PartitionLack>>)> done) {
  const Result<std::string> path = cgroup::PathOfParent(cgroup_parent);
  const std::optional<std::string> partition =
      path.ok() ? cgroup::SystemPartitionOf(*path) : std::nullopt;
  const auto& policy = context.node.cpu;
  if (!partition || !policy) return done(std::optional<PartitionLack>());
  const std::optional<std::string> container = NeedsCpus(context.node, pod, containers);
  if (!container) return done(std::optional<PartitionLack>());
  const CpuSet assigned = policy->Managed(context.node.machine) - policy->reserved -
                          context.allocation.snapshot()->state.cpu.offline;
  context.io.Post([&cgroups = context.cgroups, path = *path, partition = *partition,
                   container = *container, assigned, done = std::move(done)] {
    const Result<std::optional<CpuSet>> cpus = cgroup::ReadPartitionCpus(cgroups, path);
    if (!cpus.ok()) return done(cpus.error());
    const bool lacks = *cpus && !(*cpus)->Contains(assigned);
    done(lacks ? std::optional(TooFew(container, partition, **cpus)) : std::nullopt);
  });
}

void RequirePartitionHasCpus(const HandlerContext& context, const std::string& cgroup_parent,
                             PodAsk ask, std::function<void(Result<PodAsk>)> done) {
  std::set<std::string> all;
  for (const Container& container : ask.pod.containers) all.insert(container.name);
  const auto asked = std::make_shared<PodAsk>(std::move(ask));
  FindPartitionLack(
      context, cgroup_parent, asked->pod, all,
      [asked, done = std::move(done)](const Result<std::optional<PartitionLack>>& lack) {
        if (!lack.ok()) return done(lack.error());
        if (!*lack) return done(std::move(*asked));
        done(Error{ErrorCode::kUnavailable,
                   "container " + (*lack)->container + " " + (*lack)->fault, (*lack)->remedy});
      });
}

}  // namespace alignd::cri
