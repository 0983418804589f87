#include "cri/system_partition.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "cgroup/cgroup_path.h"
#include "cgroup/system_partition.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

// The name of a container that is not to run on just any CPUs of the shared pool.
std::optional<std::string> NeedsCpus(const admission::Node& node, const Pod& asking) {
  const Pod pod = admission::OnThisNode(node, asking);
  const auto needs = std::ranges::find_if(pod.containers, [&](const Container& container) {
    return admission::RequestsCpus(node, pod, container) ||
           admission::AsksForOneNode(node, pod, container);
  });
  return needs == pod.containers.end() ? std::nullopt : std::optional(needs->name);
}

Error TooFew(const std::string& container, const std::string& partition, const CpuSet& cpus) {
  return {ErrorCode::kUnavailable,
          "container " + container + " requests CPUs of its own, but its pod is in cgroup " +
              partition + ", the kubelet's system partition, which has CPUs " + cpus.ToString() +
              " only",
          "remove its namespace from systemPartition.namespaces of the kubelet, or let its pods "
          "share CPUs (namespacePolicies: prefer-shared-cpus)"};
}

}  // namespace

void RequirePartitionHasCpus(const HandlerContext& context, const std::string& cgroup_parent,
                             PodAsk ask, std::function<void(Result<PodAsk>)> done) {
  const Result<std::string> path = cgroup::PathOfParent(cgroup_parent);
  const std::optional<std::string> partition =
      path.ok() ? cgroup::SystemPartitionOf(*path) : std::nullopt;
  const auto& policy = context.node.cpu;
  if (!partition || !policy) return done(std::move(ask));
  const std::optional<std::string> container = NeedsCpus(context.node, ask.pod);
  if (!container) return done(std::move(ask));
  const CpuSet assigned = policy->Managed(context.node.machine) - policy->reserved -
                          context.allocation.snapshot()->state.cpu.offline;
  context.io.Post([&cgroups = context.cgroups, path = *path, partition = *partition,
                   container = *container, assigned, ask = std::move(ask),
                   done = std::move(done)]() mutable {
    const Result<std::optional<CpuSet>> cpus = cgroup::ReadPartitionCpus(cgroups, path);
    if (!cpus.ok()) return done(cpus.error());
    if (*cpus && !(*cpus)->Contains(assigned)) return done(TooFew(container, partition, **cpus));
    done(std::move(ask));
  });
}

}  // namespace alignd::cri
