// Any CreateContainer request is refused or read; the pod that is read can be asked every question,
// and a grant can be injected into the container.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "alignd/pod/annotated_resources.h"
#include "cri/injection.h"
#include "cri/pod_from_cri.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto containers = alignd::ParseAnnotatedResources(text); containers.ok()) {
    for (const alignd::Container& container : *containers) {
      if (container.resources.requests.size() < container.resources.limits.size()) std::abort();
    }
  }
  runtime::v1::CreateContainerRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const alignd::Result<alignd::cri::PodAsk> ask =
      alignd::cri::PodOfContainer(request.sandbox_config(), request.config());
  if (ask.ok()) {
    for (const alignd::Container& container : ask->pod.containers) {
      if (alignd::ExclusiveCpus(ask->pod, container) < 0) std::abort();
    }
  }
  alignd::admission::Grant grant;
  grant.exclusive = alignd::CpuSet{1, 2, 3};
  grant.cpuset = grant.exclusive;
  grant.memory_nodes = {0};
  grant.devices["example.com/fuzz"].response = std::string(text);
  if (!alignd::cri::Inject(grant, *request.mutable_config()).ok()) return 0;
  const runtime::v1::LinuxContainerResources& resources = request.config().linux().resources();
  if (resources.cpuset_cpus() != "1-3" || resources.cpu_quota() != -1) std::abort();
  return 0;
}
