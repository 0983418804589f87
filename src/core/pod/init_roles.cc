#include "alignd/pod/init_roles.h"

#include <algorithm>
#include <set>
#include <utility>

#include "alignd/pod/cri_agreement.h"

namespace alignd {
namespace {

// The pod with those init containers as sidecars, listed after the init containers. In this order
// the pod's peak is smallest.
Pod WithSidecars(Pod pod, const std::set<std::string>& names) {
  for (Container& container : pod.containers) {
    if (names.contains(container.name)) container.kind = ContainerKind::kSidecar;
  }
  std::ranges::stable_sort(pod.containers, {}, &Container::kind);
  return pod;
}

}  // namespace

Result<Done> FindSidecars(Pod& pod, const CriSizes& sandbox, const std::string& author) {
  if (sandbox.cpu_shares == 0) return Done{};
  const auto fits = [&](const std::set<std::string>& sidecars) {
    return RequireKubeletAllocated(WithSidecars(pod, sidecars), sandbox, author).ok();
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
  pod = WithSidecars(std::move(pod), sidecars);
  return Done{};
}

}  // namespace alignd
