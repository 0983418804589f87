#include "reconcile/sandbox_annotations.h"

#include <string>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/annotated_resources.h"
#include "host/printable.h"

namespace alignd::reconcile {

namespace v1 = runtime::v1;
using host::Escaped;

PodPolicies PoliciesOf(const v1::PodSandbox& sandbox) {
  PodPolicies read;
  PodPolicies status;  // only what it has that is not supported
  for (const auto& [name, value] : sandbox.annotations()) {
    ReadPodPolicies(Escaped(name), value, name == kResourceStatusAnnotation ? status : read);
  }
  PodPolicies policies;
  policies.numa_topology = read.numa_topology;
  policies.required_bind = read.required_bind;
  policies.preferred_bind = read.preferred_bind;
  policies.exclusive = read.exclusive;
  policies.unsupported = std::move(read.unsupported);
  policies.unsupported.merge(status.unsupported);
  policies.sharing = std::move(read.sharing);
  policies.shared_on_one_node = read.shared_on_one_node;
  for (const auto& [name, value] : sandbox.labels()) {
    ReadSharingLabel(Escaped(name), value, policies.sharing);
  }
  return policies;
}

std::optional<AnnotatedPod> AnnotatedPodOf(const v1::PodSandbox& sandbox) {
  const auto own = sandbox.annotations().find(std::string(kResourcesAnnotation));
  if (own == sandbox.annotations().end()) return std::nullopt;
  const Result<std::vector<Container>> containers = ParseAnnotatedResources(own->second);
  if (!containers.ok()) return std::nullopt;
  const auto pod_level = ParseAnnotatedPodLevel(own->second, *containers);
  if (!pod_level.ok()) return std::nullopt;
  AnnotatedPod pod{.has_pod_level = pod_level->has_value()};
  for (const Container& container : *containers) pod.containers.insert(container.name);
  return pod;
}

CpuSet DecidedCpus(const v1::PodSandbox& sandbox) {
  const auto found = sandbox.annotations().find(std::string(kResourceStatusAnnotation));
  PodPolicies read;
  if (found != sandbox.annotations().end()) {
    ReadPodPolicies(kResourceStatusAnnotation, found->second, read);
  }
  return read.cpuset;
}

}  // namespace alignd::reconcile
