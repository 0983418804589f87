#include "cri/pod_from_cri.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "alignd/pod/annotated_resources.h"

namespace alignd::cri {
namespace {

using runtime::v1::ContainerConfig;
using runtime::v1::LinuxContainerResources;
using runtime::v1::PodSandboxConfig;

// Shares per CPU and the least that the kubelet writes, which also stands for no request at all.
// Source: kubelet pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares.
constexpr int64_t kSharesPerCpu = 1024;
constexpr int64_t kMinShares = 2;
constexpr int64_t kMillisPerCpu = 1000;

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Quantity Millis(int64_t millis) {
  Result<Quantity> quantity = Quantity::Parse(std::to_string(millis) + "m");
  return quantity.ok() ? *quantity : Quantity();
}

// The kubelet rounds down when it makes shares, so rounding up gives the request back.
int64_t MillisFromShares(int64_t shares) {
  if (shares <= kMinShares) return 0;
  return (shares * kMillisPerCpu + kSharesPerCpu - 1) / kSharesPerCpu;
}

// Rounded to the nearest: the kubelet computes quota = millis * period / 1000, rounded down.
int64_t MillisFromQuota(const LinuxContainerResources& resources) {
  if (resources.cpu_quota() <= 0 || resources.cpu_period() <= 0) return 0;
  return (resources.cpu_quota() * kMillisPerCpu + resources.cpu_period() - 1) /
         resources.cpu_period();
}

// `2MB` of the cgroup files becomes `hugepages-2Mi`; empty for an unknown spelling.
std::string HugepageResource(std::string_view page_size) {
  if (page_size.size() < 3 || page_size.back() != 'B') return "";
  page_size.remove_suffix(1);
  const char unit = page_size.back();
  if (unit != 'K' && unit != 'M' && unit != 'G') return "";
  return "hugepages-" + std::string(page_size) + "i";
}

Resources EstimateResources(const LinuxContainerResources& cri, QosClass qos) {
  Resources estimate;
  const int64_t limit_millis = MillisFromQuota(cri);
  int64_t request_millis = MillisFromShares(cri.cpu_shares());
  // In a Guaranteed pod request and limit are equal, and the quota has the finer steps.
  if (qos == QosClass::kGuaranteed && limit_millis > 0) request_millis = limit_millis;
  if (limit_millis > 0) estimate.limits["cpu"] = Millis(limit_millis);
  if (request_millis > 0) estimate.requests["cpu"] = Millis(request_millis);
  if (cri.memory_limit_in_bytes() > 0) {
    estimate.limits["memory"] = Quantity(cri.memory_limit_in_bytes());
    if (qos == QosClass::kGuaranteed) {
      estimate.requests["memory"] = Quantity(cri.memory_limit_in_bytes());
    }
  }
  for (const runtime::v1::HugepageLimit& pages : cri.hugepage_limits()) {
    const std::string resource = HugepageResource(pages.page_size());
    if (resource.empty() || pages.limit() == 0 || pages.limit() > uint64_t{INT64_MAX}) continue;
    const Quantity bytes(static_cast<int64_t>(pages.limit()));
    estimate.limits[resource] = bytes;
    estimate.requests[resource] = bytes;
  }
  return estimate;
}

Pod PodWithoutContainers(const PodSandboxConfig& sandbox) {
  Pod pod;
  pod.uid = sandbox.metadata().uid();
  pod.name = sandbox.metadata().name();
  pod.name_space = sandbox.metadata().namespace_();
  pod.stated_qos = QosOfCgroupParent(sandbox.linux().cgroup_parent());
  return pod;
}

// What the kubelet made of cpu and memory must be what the annotation says. Only for containers
// that a kubelet sized; another client states what it likes. Errors: kInvalidArgument, naming both
// sides.
Result<Done> RequireAgreement(const Container& annotated, const LinuxContainerResources& cri) {
  const std::string where =
      "annotation " + std::string(kResourcesAnnotation) + ": " + annotated.name + ": ";
  const Quantity* cpu_limit = Find(annotated.resources.limits, "cpu");
  const int64_t annotated_limit = cpu_limit != nullptr ? cpu_limit->MilliValue() : 0;
  const int64_t limit = MillisFromQuota(cri);
  // A quota of -1 means that the caller lifted it for exclusive CPUs.
  if (cri.cpu_quota() >= 0 && annotated_limit != limit) {
    return Invalid(where + "limits.cpu is " + std::to_string(annotated_limit) +
                   "m, but the container is created with a quota of " + std::to_string(limit) +
                   "m");
  }
  const Quantity* cpu_request = Find(annotated.resources.requests, "cpu");
  const int64_t millis = cpu_request != nullptr ? cpu_request->MilliValue() : 0;
  const int64_t shares = std::max(kMinShares, millis * kSharesPerCpu / kMillisPerCpu);
  if (cri.cpu_shares() != 0 && cri.cpu_shares() != shares) {
    return Invalid(where + "requests.cpu is " + std::to_string(millis) + "m (" +
                   std::to_string(shares) + " shares), but the container is created with " +
                   std::to_string(cri.cpu_shares()) + " shares");
  }
  const Quantity* memory = Find(annotated.resources.limits, "memory");
  const int64_t bytes = memory != nullptr ? memory->Value() : 0;
  if (bytes != cri.memory_limit_in_bytes()) {
    return Invalid(where + "limits.memory is " + std::to_string(bytes) +
                   " bytes, but the container is created with " +
                   std::to_string(cri.memory_limit_in_bytes()));
  }
  return Done{};
}

// The cgroup parent is the kubelet's word about the pod's QoS class.
Result<Done> RequireQos(const Pod& pod) {
  if (!pod.stated_qos) return Done{};
  Pod unstated = pod;
  unstated.stated_qos.reset();
  const QosClass annotated = QosOf(unstated);
  if (annotated == *pod.stated_qos) return Done{};
  return Invalid("annotation " + std::string(kResourcesAnnotation) +
                 ": its resources make the pod " + std::string(ToString(annotated)) +
                 ", but its cgroup parent says " + std::string(ToString(*pod.stated_qos)));
}

}  // namespace

std::string_view ToString(Source source) {
  return source == Source::kAnnotation ? "annotation" : "CRI estimate";
}

std::optional<QosClass> QosOfCgroupParent(std::string_view cgroup_parent) {
  const size_t slash = cgroup_parent.rfind('/');
  const std::string_view last =
      slash == std::string_view::npos ? cgroup_parent : cgroup_parent.substr(slash + 1);
  const std::string_view above =
      slash == std::string_view::npos ? std::string_view() : cgroup_parent.substr(0, slash);
  if (last.ends_with(".slice")) {
    if (last.starts_with("kubepods-burstable-pod")) return QosClass::kBurstable;
    if (last.starts_with("kubepods-besteffort-pod")) return QosClass::kBestEffort;
    if (last.starts_with("kubepods-pod")) return QosClass::kGuaranteed;
    return std::nullopt;
  }
  if (!last.starts_with("pod")) return std::nullopt;
  if (above.ends_with("kubepods/burstable")) return QosClass::kBurstable;
  if (above.ends_with("kubepods/besteffort")) return QosClass::kBestEffort;
  if (above.ends_with("kubepods")) return QosClass::kGuaranteed;
  return std::nullopt;
}

Result<std::optional<PodAsk>> PodOfSandbox(const PodSandboxConfig& config) {
  const auto annotation = config.annotations().find(std::string(kResourcesAnnotation));
  if (annotation == config.annotations().end()) return std::optional<PodAsk>();
  Result<std::vector<Container>> containers = ParseAnnotatedResources(annotation->second);
  if (!containers.ok()) {
    return containers.error().In("annotation " + std::string(kResourcesAnnotation));
  }
  PodAsk ask{PodWithoutContainers(config), Source::kAnnotation};
  ask.pod.containers = *std::move(containers);
  const Result<Done> agrees = RequireQos(ask.pod);
  if (!agrees.ok()) return agrees.error();
  return std::optional(std::move(ask));
}

Result<PodAsk> PodOfContainer(const PodSandboxConfig& sandbox, const ContainerConfig& container) {
  Result<std::optional<PodAsk>> whole = PodOfSandbox(sandbox);
  if (!whole.ok()) return whole.error();
  const std::string& name = container.metadata().name();
  const LinuxContainerResources& cri = container.linux().resources();
  if (*whole) {
    PodAsk& ask = **whole;
    const auto annotated = std::ranges::find(ask.pod.containers, name, &Container::name);
    if (annotated != ask.pod.containers.end()) {
      if (ask.pod.stated_qos) {
        const Result<Done> agrees = RequireAgreement(*annotated, cri);
        if (!agrees.ok()) return agrees.error();
      }
      return std::move(ask);
    }
  }
  PodAsk ask{PodWithoutContainers(sandbox), Source::kEstimate};
  // Who is not in a kubelet's cgroup has no claim to exclusive CPUs.
  if (!ask.pod.stated_qos) ask.pod.stated_qos = QosClass::kBurstable;
  ask.pod.containers.push_back(
      {name, ContainerKind::kApp, EstimateResources(cri, *ask.pod.stated_qos)});
  return ask;
}

}  // namespace alignd::cri
