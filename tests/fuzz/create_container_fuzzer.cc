// Any CreateContainer request is refused or parsed, whatever bytes its strings have. All functions
// work on the resulting pod, and an assignment can be injected into the container: the runtime
// reads it, and every string as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "cri/injection.h"
#include "host/printable.h"
#include "podsource/annotation_source.h"
#include "podsource/cri_estimate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  runtime::v1::CreateContainerRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const std::string& name = request.config().metadata().name();
  const std::string shown = alignd::host::Escaped(name);
  if (!alignd::host::IsText(shown)) std::abort();
  if (alignd::host::IsText(name) != (shown == name)) std::abort();
  const alignd::podsource::Question question{
      std::make_shared<const runtime::v1::PodSandboxConfig>(request.sandbox_config()),
      std::make_shared<const runtime::v1::ContainerConfig>(request.config())};
  const auto look = [](const auto& known) {
    if (!known.ok() || !*known) return;
    for (const alignd::Container& container : (*known)->pod.containers) {
      if (alignd::ExclusiveCpus((*known)->pod, container) < 0) std::abort();
    }
  };
  alignd::podsource::AnnotationSource({}).Ask(question, look);
  alignd::podsource::CriEstimate(/*claims_add_sizes=*/true).Ask(question, look);
  alignd::admission::Assignment assignment;
  assignment.exclusive = alignd::CpuSet{1, 2, 3};
  assignment.cpuset = assignment.exclusive;
  assignment.memory_nodes = {0};
  assignment.devices["example.com/fuzz"].response = std::string(text);
  const bool has_resources = request.config().linux().has_resources();
  const google::protobuf::RepeatedPtrField<std::string> args = request.config().args();
  if (!alignd::cri::Inject(assignment, *request.mutable_config()).ok()) return 0;
  runtime::v1::CreateContainerRequest received;
  if (!received.ParseFromString(request.SerializeAsString())) std::abort();
  if (!std::ranges::equal(received.config().args(), args)) std::abort();
  if (received.config().metadata().name() != name) std::abort();
  // Without resources, the CPUs are applied before the container starts.
  if (request.config().linux().has_resources() != has_resources) std::abort();
  const runtime::v1::LinuxContainerResources& resources = received.config().linux().resources();
  if (!has_resources) return 0;
  if (resources.cpuset_cpus() != "1-3" || resources.cpu_quota() != -1) std::abort();
  return 0;
}
