#include "core/placement/annotated_sizes.h"

#include <algorithm>
#include <utility>

#include "alignd/pod/cri_agreement.h"
#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/init_roles.h"

namespace alignd::placement {
namespace {

// The pod that the node starts: it refuses one whose annotation has other sizes. A pod that was
// resized since has others in its spec only.
Pod AsStarted(Pod pod, const std::vector<Container>& annotated) {
  for (Container& own : pod.containers) {
    const auto stated = std::ranges::find(annotated, own.name, &Container::name);
    if (stated != annotated.end()) own.resources = stated->resources;
  }
  return pod;
}

// The order and the kinds of the containers decide how many are needed at the same time.
std::optional<std::string> MoreHugepages(const Pod& stated, const Pod& pod,
                                         const std::string& author) {
  const ResourceList allocated = HugepagePeaks(pod);
  for (const auto& [resource, peak] : HugepagePeaks(stated)) {
    const int64_t bytes = Amount(allocated, resource);
    if (peak.Value() <= bytes) continue;
    return author + ": the pod's limits." + resource + " are " + std::to_string(peak.Value()) +
           " bytes, but its cgroup may have " + std::to_string(bytes);
  }
  return std::nullopt;
}

// The estimate of a small limit is more than the limit: the smallest quota is that of 10m.
std::optional<std::string> FirstUnnamedRefused(const Pod& stated, const Pod& pod,
                                               const CriSizes& sandbox, const std::string& author) {
  for (const Container& own : pod.containers) {
    if (std::ranges::find(stated.containers, own.name, &Container::name) !=
        stated.containers.end()) {
      continue;
    }
    Pod together = stated;
    together.containers.push_back(
        {own.name, ContainerKind::kApp,
         EstimateResources(CriSizesOf(own.resources), QosOf(pod), /*claims_add_sizes=*/false)});
    const Result<Done> fits = RequireKubeletAllocated(together, sandbox, author);
    if (!fits.ok()) return fits.error().message + "; it does not name container " + own.name;
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<Container>> WithConcludedKinds(const std::vector<Container>& annotated,
                                                  const Pod& pod, const std::string& author) {
  Pod stated;  // this annotation has no pod-level resources
  stated.containers = annotated;
  const Result<Done> found =
      FindSidecars(stated, SandboxSizesOf(AsStarted(pod, annotated)), author);
  if (!found.ok()) return found.error();
  for (Container& container : stated.containers) {
    const auto own = std::ranges::find(pod.containers, container.name, &Container::name);
    const Resources& resources = container.resources;
    const bool requests_none = resources.requests.empty() && resources.limits.empty();
    if (requests_none && own != pod.containers.end()) container.kind = own->kind;
  }
  return std::move(stated.containers);
}

std::optional<std::string> RefusalBySizes(const Pod& stated, const Pod& pod,
                                          const std::string& author) {
  const CriSizes sandbox = SandboxSizesOf(pod);
  const Result<Done> fits = RequireKubeletAllocated(stated, sandbox, author);
  if (!fits.ok()) return fits.error().message;
  std::optional<std::string> refusal = MoreHugepages(stated, pod, author);
  return refusal ? refusal : FirstUnnamedRefused(stated, pod, sandbox, author);
}

}  // namespace alignd::placement
