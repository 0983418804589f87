#include "cri/pod_from_cri.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "alignd/pod/annotated_resources.h"

namespace alignd::cri {
namespace {

using runtime::v1::ContainerConfig;
using runtime::v1::LinuxContainerResources;
using runtime::v1::PodSandboxConfig;

// Shares per CPU, the least that the kubelet writes, which also stands for no request at all, and
// the most, which is the kernel's; the least quota, which is the kernel's as well.
// Source: kubelet pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares and MilliCPUToQuota.
constexpr int64_t kSharesPerCpu = 1024;
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262'144;
constexpr int64_t kMinQuota = 1000;
constexpr int64_t kMillisPerCpu = 1000;

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Quantity Millis(int64_t millis) {
  Result<Quantity> quantity = Quantity::Parse(std::to_string(millis) + "m");
  return quantity.ok() ? *quantity : Quantity();
}

// The kubelet rounds down when it makes shares, so rounding up gives the request back.
int64_t MillisFromShares(int64_t shares) {
  if (shares <= kMinShares) return 0;
  return (std::min(shares, kMaxShares) * kMillisPerCpu + kSharesPerCpu - 1) / kSharesPerCpu;
}

int64_t SharesFromMillis(int64_t millis) {
  constexpr int64_t kMostMillis = kMaxShares * kMillisPerCpu / kSharesPerCpu;
  return std::max(kMinShares, std::min(millis, kMostMillis) * kSharesPerCpu / kMillisPerCpu);
}

// The factors as far as their product has room; no CPU limit is anywhere near.
int64_t Bounded(int64_t factor) {
  return std::min(factor, std::numeric_limits<int64_t>::max() / (2 * kMillisPerCpu));
}

// Rounded up, for the kubelet rounds down: quota = millis * period / 1000.
int64_t MillisFromQuota(const LinuxContainerResources& resources) {
  if (resources.cpu_quota() <= 0 || resources.cpu_period() <= 0) return 0;
  const int64_t period = Bounded(resources.cpu_period());
  return (Bounded(resources.cpu_quota()) * kMillisPerCpu + period - 1) / period;
}

// The quota that the kubelet makes of a limit; 0 for none.
int64_t QuotaFromMillis(int64_t millis, int64_t period) {
  if (millis <= 0 || period <= 0) return 0;
  constexpr int64_t kMostPeriod = 1'000'000;  // the kernel's, one second
  constexpr int64_t kMostMillis = std::numeric_limits<int64_t>::max() / kMostPeriod;
  const int64_t quota =
      std::min(millis, kMostMillis) * std::min(period, kMostPeriod) / kMillisPerCpu;
  return std::max(kMinQuota, quota);
}

// `2MB` of the cgroup files becomes `hugepages-2Mi`; empty for an unknown spelling.
std::string HugepageResource(std::string_view page_size) {
  if (!page_size.ends_with("KB") && !page_size.ends_with("MB") && !page_size.ends_with("GB")) {
    return "";
  }
  page_size.remove_suffix(1);
  const std::string_view number = page_size.substr(0, page_size.size() - 1);
  if (number.empty() || number.find_first_not_of("0123456789") != std::string_view::npos) return "";
  return "hugepages-" + std::string(page_size) + "i";
}

// By resource name; sizes without a limit are left out, as the kubelet lists all of the machine's.
ResourceList Hugepages(const LinuxContainerResources& cri) {
  ResourceList hugepages;
  for (const runtime::v1::HugepageLimit& pages : cri.hugepage_limits()) {
    const std::string resource = HugepageResource(pages.page_size());
    if (resource.empty() || pages.limit() == 0 || pages.limit() > uint64_t{INT64_MAX}) continue;
    hugepages[resource] = Quantity(static_cast<int64_t>(pages.limit()));
  }
  return hugepages;
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
  for (const auto& [resource, bytes] : Hugepages(cri)) {
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

int64_t Amount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->Value() : 0;
}

int64_t MilliAmount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->MilliValue() : 0;
}

// Both sides must name the same huge pages.
Result<Done> RequireHugepages(const Container& annotated, const LinuxContainerResources& cri,
                              const std::string& where) {
  const ResourceList created = Hugepages(cri);
  ResourceList all = created;
  for (const auto& [resource, limit] : annotated.resources.limits) {
    if (resource.starts_with("hugepages-")) all.emplace(resource, limit);
  }
  for (const auto& [resource, limit] : all) {
    const int64_t stated = Amount(annotated.resources.limits, resource);
    const int64_t bytes = Amount(created, resource);
    if (stated == bytes) continue;
    return Invalid(where + "limits." + resource + " is " + std::to_string(stated) +
                   " bytes, but the container is created with " + std::to_string(bytes));
  }
  return Done{};
}

// What the pod needs at its peak: all apps and sidecars together, or an init container with the
// sidecars before it. Saturates.
// Source: k8s.io/component-helpers/resource/helpers.go, AggregateContainerRequests.
template <typename AmountOf>
int64_t Peak(const Pod& pod, AmountOf amount_of) {
  const auto add = [](int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
  };
  int64_t lasting = 0;
  int64_t peak = 0;
  for (const Container& container : pod.containers) {
    const int64_t amount = amount_of(container);
    if (container.kind == ContainerKind::kInit) {
      peak = std::max(peak, add(lasting, amount));
    } else {
      lasting = add(lasting, amount);
    }
  }
  return std::max(peak, lasting);
}

// A pod whose sandbox shows what the kubelet counted for it cannot get more by its annotation.
// (Kubelets before 1.25 or so do not show it.)
Result<Done> RequireCounted(const Pod& pod, const LinuxContainerResources& counted) {
  const std::string where = "annotation " + std::string(kResourcesAnnotation) + ": the pod's ";
  const int64_t millis =
      Peak(pod, [](const Container& c) { return MilliAmount(c.resources.requests, "cpu"); });
  if (counted.cpu_shares() > 0 && SharesFromMillis(millis) > counted.cpu_shares()) {
    return Invalid(where + "requests.cpu are " + std::to_string(millis) + "m (" +
                   std::to_string(SharesFromMillis(millis)) +
                   " shares), but its sandbox is made with " +
                   std::to_string(counted.cpu_shares()) + " shares");
  }
  const int64_t bytes =
      Peak(pod, [](const Container& c) { return Amount(c.resources.limits, "memory"); });
  if (counted.memory_limit_in_bytes() > 0 && bytes > counted.memory_limit_in_bytes()) {
    return Invalid(where + "limits.memory are " + std::to_string(bytes) +
                   " bytes, but its sandbox is made with " +
                   std::to_string(counted.memory_limit_in_bytes()));
  }
  return Done{};
}

// What the kubelet made of cpu and memory must be what the annotation says. Only for containers
// that a kubelet sized; another client states what it likes. Errors: kInvalidArgument, naming both
// sides.
Result<Done> RequireAgreement(const Container& annotated, const LinuxContainerResources& cri) {
  const std::string where =
      "annotation " + std::string(kResourcesAnnotation) + ": " + annotated.name + ": ";
  const int64_t limit = MilliAmount(annotated.resources.limits, "cpu");
  const int64_t quota = QuotaFromMillis(limit, cri.cpu_period());
  // A quota of -1 means that the caller lifted it for exclusive CPUs.
  if (cri.cpu_quota() >= 0 && cri.cpu_quota() != quota) {
    return Invalid(where + "limits.cpu is " + std::to_string(limit) + "m (quota " +
                   std::to_string(quota) + "), but the container is created with a quota of " +
                   std::to_string(cri.cpu_quota()) + " (" + std::to_string(MillisFromQuota(cri)) +
                   "m)");
  }
  const int64_t request = MilliAmount(annotated.resources.requests, "cpu");
  const int64_t shares = SharesFromMillis(request);
  if (cri.cpu_shares() != 0 && cri.cpu_shares() != shares) {
    return Invalid(where + "requests.cpu is " + std::to_string(request) + "m (" +
                   std::to_string(shares) + " shares), but the container is created with " +
                   std::to_string(cri.cpu_shares()) + " shares");
  }
  const int64_t bytes = Amount(annotated.resources.limits, "memory");
  if (bytes != cri.memory_limit_in_bytes()) {
    return Invalid(where + "limits.memory is " + std::to_string(bytes) +
                   " bytes, but the container is created with " +
                   std::to_string(cri.memory_limit_in_bytes()));
  }
  return RequireHugepages(annotated, cri, where);
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
    // With --cgroup-root=/a the names begin with `a-`.
    const size_t start = last.starts_with("kubepods-") ? 0 : last.find("-kubepods-");
    if (start == std::string_view::npos) return std::nullopt;
    const std::string_view name = last.substr(last.find("kubepods-", start));
    if (name.starts_with("kubepods-burstable-pod")) return QosClass::kBurstable;
    if (name.starts_with("kubepods-besteffort-pod")) return QosClass::kBestEffort;
    if (name.starts_with("kubepods-pod")) return QosClass::kGuaranteed;
    return std::nullopt;
  }
  if (!last.starts_with("pod")) return std::nullopt;
  const auto above_is = [above](std::string_view path) {
    return above == path || above.ends_with("/" + std::string(path));
  };
  if (above_is("kubepods/burstable")) return QosClass::kBurstable;
  if (above_is("kubepods/besteffort")) return QosClass::kBestEffort;
  if (above_is("kubepods")) return QosClass::kGuaranteed;
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
  if (ask.pod.stated_qos) {
    const Result<Done> counted = RequireCounted(ask.pod, config.linux().resources());
    if (!counted.ok()) return counted.error();
  }
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
