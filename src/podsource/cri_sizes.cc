#include "podsource/cri_sizes.h"

#include <cstdint>
#include <string>

namespace alignd::podsource {
namespace {

using runtime::v1::LinuxContainerResources;
using runtime::v1::PodSandboxConfig;

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

CriSizes SizesIn(const LinuxContainerResources& resources) {
  return {.cpu_shares = resources.cpu_shares(),
          .cpu_period = resources.cpu_period(),
          .cpu_quota = resources.cpu_quota(),
          .memory_limit = resources.memory_limit_in_bytes(),
          .hugepages = Hugepages(resources)};
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
