#include "alignd/pod/init_roles.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "alignd/pod/cri_agreement.h"
#include "alignd/pod/pod_requests.h"

namespace alignd {
namespace {

// The pod with those init containers as sidecars, after the others. Its peak is smallest then.
Pod WithSidecars(Pod pod, const std::set<std::string>& names) {
  for (Container& container : pod.containers) {
    if (names.contains(container.name)) container.kind = ContainerKind::kSidecar;
  }
  std::ranges::stable_sort(pod.containers, {}, &Container::kind);
  return pod;
}

// Moves the container at `from` to `to`, and those between them by one.
void Move(std::vector<Container>& containers, size_t from, size_t to) {
  const auto at = [&containers](size_t position) {
    return containers.begin() + static_cast<std::ptrdiff_t>(position);
  };
  if (to < from) {
    std::rotate(at(to), at(from), at(from + 1));
  } else {
    std::rotate(at(from), at(from + 1), at(to + 1));
  }
}

// Moves each sidecar before as many init containers as possible. The pod's peak grows with it, so
// the first place can be searched for in halves. `is_possible`: of the pod as it is then.
void MoveSidecarsForward(Pod& pod, const std::function<bool()>& is_possible) {
  std::vector<Container>& containers = pod.containers;
  for (size_t sidecar = 0; sidecar < containers.size(); ++sidecar) {
    if (containers[sidecar].kind != ContainerKind::kSidecar) continue;
    size_t first = 0;
    for (size_t last = sidecar; first < last;) {
      const size_t middle = (first + last) / 2;
      Move(containers, sidecar, middle);
      const bool is_enough = is_possible();
      Move(containers, middle, sidecar);
      if (is_enough) {
        last = middle;
      } else {
        first = middle + 1;
      }
    }
    // Behind those that are there already.
    while (containers[first].kind == ContainerKind::kSidecar && first < sidecar) ++first;
    Move(containers, sidecar, first);
  }
}

// Huge pages and extended resources at the pod's peak. The sandbox's sizes do not show how many of
// these were allocated.
ResourceList OthersAtPeak(const Pod& pod) {
  ResourceList list = RequestsOfContainers(pod.containers);
  std::erase_if(list, [](const auto& one) { return one.first == "cpu" || one.first == "memory"; });
  return list;
}

}  // namespace

Result<Done> FindSidecars(Pod& pod, const CriSizes& sandbox, const std::string& author) {
  if (sandbox.cpu_shares == 0) return Done{};
  const auto is_allocated = [&](const Pod& reading) {
    return RequireKubeletAllocated(reading, sandbox, author).ok();
  };
  const auto fits = [&](const std::set<std::string>& sidecars) {
    return is_allocated(WithSidecars(pod, sidecars));
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
  const ResourceList others = OthersAtPeak(pod);
  MoveSidecarsForward(pod, [&] { return is_allocated(pod) && OthersAtPeak(pod) == others; });
  return Done{};
}

}  // namespace alignd
