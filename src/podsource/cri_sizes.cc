#include "podsource/cri_sizes.h"

#include <algorithm>
#include <limits>
#include <string>

namespace alignd::podsource {
namespace {

using runtime::v1::LinuxContainerResources;
using runtime::v1::PodSandboxConfig;

// Shares per CPU; the minimum that the kubelet writes, which also means no request; the kernel's
// maximum; the kernel's minimum quota.
// Source: kubelet pkg/kubelet/cm/helpers_linux.go, MilliCPUToShares and MilliCPUToQuota.
constexpr int64_t kSharesPerCpu = 1024;
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262'144;
constexpr int64_t kMinQuota = 1000;
constexpr int64_t kMillisPerCpu = 1000;

// Limits a factor so that the product does not overflow. Real CPU limits are far below.
int64_t Bounded(int64_t factor) {
  return std::min(factor, std::numeric_limits<int64_t>::max() / (2 * kMillisPerCpu));
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

}  // namespace

int64_t MillisFromShares(int64_t shares) {
  if (shares <= kMinShares) return 0;
  return (std::min(shares, kMaxShares) * kMillisPerCpu + kSharesPerCpu - 1) / kSharesPerCpu;
}

int64_t SharesFromMillis(int64_t millis) {
  constexpr int64_t kMaxMillis = kMaxShares * kMillisPerCpu / kSharesPerCpu;
  return std::max(kMinShares, std::min(millis, kMaxMillis) * kSharesPerCpu / kMillisPerCpu);
}

// Rounded up, for the kubelet rounds down: quota = millis * period / 1000.
int64_t MillisFromQuota(const LinuxContainerResources& resources) {
  if (resources.cpu_quota() <= 0 || resources.cpu_period() <= 0) return 0;
  const int64_t period = Bounded(resources.cpu_period());
  return (Bounded(resources.cpu_quota()) * kMillisPerCpu + period - 1) / period;
}

int64_t QuotaFromMillis(int64_t millis, int64_t period) {
  if (millis <= 0 || period <= 0) return 0;
  constexpr int64_t kMaxPeriod = 1'000'000;  // the kernel's, one second
  constexpr int64_t kMaxMillis = std::numeric_limits<int64_t>::max() / kMaxPeriod;
  const int64_t quota = std::min(millis, kMaxMillis) * std::min(period, kMaxPeriod) / kMillisPerCpu;
  return std::max(kMinQuota, quota);
}

ResourceList Hugepages(const LinuxContainerResources& cri) {
  ResourceList hugepages;
  for (const runtime::v1::HugepageLimit& pages : cri.hugepage_limits()) {
    const std::string resource = HugepageResource(pages.page_size());
    if (resource.empty() || pages.limit() == 0 || pages.limit() > uint64_t{INT64_MAX}) continue;
    hugepages[resource] =
        Quantity(static_cast<int64_t>(pages.limit()), Quantity::Format::kBinarySi);
  }
  return hugepages;
}

std::string PageSizeOf(std::string_view resource) {
  constexpr std::string_view kPrefix = "hugepages-";
  if (!resource.starts_with(kPrefix) || !resource.ends_with('i')) return "";
  std::string size(resource.substr(kPrefix.size()));
  size.back() = 'B';
  return HugepageResource(size) == resource ? size : "";
}

int64_t Amount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->Value() : 0;
}

int64_t MilliAmount(const ResourceList& list, std::string_view resource) {
  const Quantity* quantity = Find(list, resource);
  return quantity != nullptr ? quantity->MilliValue() : 0;
}

int64_t SaturatingSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

std::optional<QosClass> QosOfCgroupParent(std::string_view cgroup_parent) {
  const size_t slash = cgroup_parent.rfind('/');
  const std::string_view last =
      slash == std::string_view::npos ? cgroup_parent : cgroup_parent.substr(slash + 1);
  const std::string_view above =
      slash == std::string_view::npos ? std::string_view() : cgroup_parent.substr(0, slash);
  if (last.ends_with(".slice")) {
    // With --cgroup-root=/a the names begin with `a-`.
    constexpr std::string_view kPods = "kubepods-";
    constexpr std::string_view kSystemPartition = "system-";
    const size_t inner = last.find("-kubepods-");
    if (!last.starts_with(kPods) && inner == std::string_view::npos) return std::nullopt;
    std::string_view name = last.substr(last.find(kPods, last.starts_with(kPods) ? 0 : inner));
    name.remove_prefix(kPods.size());
    if (name.starts_with(kSystemPartition)) name.remove_prefix(kSystemPartition.size());
    if (name.starts_with("burstable-pod")) return QosClass::kBurstable;
    if (name.starts_with("besteffort-pod")) return QosClass::kBestEffort;
    if (name.starts_with("pod")) return QosClass::kGuaranteed;
    return std::nullopt;
  }
  if (!last.starts_with("pod")) return std::nullopt;
  const auto above_is = [above](std::string_view below) {
    for (const std::string_view pods : {"kubepods", "kubepods/system"}) {
      const std::string path = std::string(pods) + std::string(below);
      if (above == path || above.ends_with("/" + path)) return true;
    }
    return false;
  };
  if (above_is("/burstable")) return QosClass::kBurstable;
  if (above_is("/besteffort")) return QosClass::kBestEffort;
  if (above_is("")) return QosClass::kGuaranteed;
  return std::nullopt;
}

Pod PodWithoutContainers(const PodSandboxConfig& sandbox) {
  Pod pod;
  pod.uid = sandbox.metadata().uid();
  pod.name = sandbox.metadata().name();
  pod.name_space = sandbox.metadata().namespace_();
  pod.stated_qos = QosOfCgroupParent(sandbox.linux().cgroup_parent());
  for (const auto& [name, value] : sandbox.annotations()) {
    ReadPodPolicies(name, value, pod.policies);
  }
  for (const auto& [name, value] : sandbox.labels()) {
    ReadSharingLabel(name, value, pod.policies.sharing);
  }
  return pod;
}

}  // namespace alignd::podsource
