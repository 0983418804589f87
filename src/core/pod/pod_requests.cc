#include "alignd/pod/pod_requests.h"

#include <algorithm>

namespace alignd {

ResourceList RequestsOfContainers(const std::vector<Container>& containers) {
  ResourceList running;
  ResourceList starting;
  ResourceList sidecars;
  for (const Container& container : containers) {
    for (const auto& [name, amount] : container.resources.requests) {
      if (container.kind == ContainerKind::kApp) running[name] += amount;
      if (container.kind == ContainerKind::kSidecar) sidecars[name] += amount;
    }
    if (container.kind == ContainerKind::kApp) continue;
    ResourceList now = sidecars;
    if (container.kind == ContainerKind::kInit) {
      for (const auto& [name, amount] : container.resources.requests) now[name] += amount;
    }
    for (const auto& [name, amount] : now) starting[name] = std::max(starting[name], amount);
  }
  for (const auto& [name, amount] : sidecars) running[name] += amount;
  for (const auto& [name, amount] : starting) running[name] = std::max(running[name], amount);
  return running;
}

ResourceList RequestsOfPod(const Pod& pod, const ResourceList& overhead) {
  ResourceList requests = RequestsOfContainers(pod.containers);
  if (pod.pod_level) {
    for (const auto& [name, amount] : pod.pod_level->requests) {
      if (name == "cpu" || name == "memory" || name.starts_with("hugepages-")) {
        requests[name] = amount;
      }
    }
  }
  for (const auto& [name, amount] : overhead) requests[name] += amount;
  return requests;
}

}  // namespace alignd
