#include "alignd/pod/init_roles.h"

#include <algorithm>
#include <set>
#include <utility>

#include "alignd/pod/cri_agreement.h"

namespace alignd {
namespace {

enum class Sidecars { kBeforeInitContainers, kAfterInitContainers };

// The pod with those init containers as sidecars. Its peak is smallest if they are after the init
// containers, and largest before them.
Pod WithSidecars(Pod pod, const std::set<std::string>& names, Sidecars order) {
  for (Container& container : pod.containers) {
    if (names.contains(container.name)) container.kind = ContainerKind::kSidecar;
  }
  std::ranges::stable_sort(pod.containers, {}, [order](const Container& one) {
    const bool is_first =
        one.kind == ContainerKind::kSidecar && order == Sidecars::kBeforeInitContainers;
    return std::pair(!is_first, one.kind);
  });
  return pod;
}

}  // namespace

Result<Done> FindSidecars(Pod& pod, const CriSizes& sandbox, const std::string& author) {
  if (sandbox.cpu_shares == 0) return Done{};
  const auto is_allocated = [&](const Pod& reading) {
    return RequireKubeletAllocated(reading, sandbox, author).ok();
  };
  const auto fits = [&](const std::set<std::string>& sidecars) {
    return is_allocated(WithSidecars(pod, sidecars, Sidecars::kAfterInitContainers));
  };
  std::set<std::string> sidecars;
  for (const Container& container : pod.containers) {
    if (container.kind == ContainerKind::kInit && fits({container.name})) {
      sidecars.insert(container.name);
    }
  }
  if (sidecars.size() > 1 && !fits(sidecars)) {
    std::string names;
    for (const std::string& name : sidecars) names += (names.empty() ? "" : ", ") + name;
    return Error{ErrorCode::kInvalidArgument,
                 author + ": does not say which of the init containers " + names + " are sidecars",
                 "use the annotation alignd.io/resources, which names the sidecars"};
  }
  Pod ordered = WithSidecars(pod, sidecars, Sidecars::kBeforeInitContainers);
  if (!is_allocated(ordered)) {
    ordered = WithSidecars(pod, sidecars, Sidecars::kAfterInitContainers);
  }
  pod = std::move(ordered);
  return Done{};
}

}  // namespace alignd
