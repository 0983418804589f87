#include "simulator/kubelet_requests.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "alignd/pod/annotated_resources.h"
#include "host/file.h"

namespace alignd::simulator {
namespace {

namespace v1 = runtime::v1;

constexpr int64_t kSharesPerCpu = 1024;
constexpr int64_t kMinShares = 2;
constexpr int64_t kMaxShares = 262144;
constexpr int64_t kMinQuota = 1'000;
constexpr int64_t kMillisPerCpu = 1'000;

// Source: kubelet pkg/kubelet/qos/policy.go.
constexpr int64_t kGuaranteedOomScore = -997;
constexpr int64_t kBestEffortOomScore = 1000;

// Limits and requests as cgroup values; missing amounts are nullopt.
struct Amounts {
  std::optional<int64_t> cpu_request_millis;
  std::optional<int64_t> cpu_limit_millis;
  int64_t memory_limit_bytes = 0;  // 0: none
};

std::optional<int64_t> Millis(const ResourceList& list) {
  const Quantity* const cpu = Find(list, "cpu");
  return cpu == nullptr ? std::nullopt : std::optional(cpu->MilliValue());
}

Amounts AmountsOf(const Resources& resources) {
  const Quantity* const memory = Find(resources.limits, "memory");
  return {Millis(resources.requests), Millis(resources.limits),
          memory == nullptr ? 0 : memory->Value()};
}

// `period` in microseconds. Source: kuberuntime_container_linux.go, calculateLinuxResources.
void Fill(const Amounts& amounts, int64_t period, v1::LinuxContainerResources& to) {
  const int64_t limit = amounts.cpu_limit_millis.value_or(0);
  const int64_t request = amounts.cpu_request_millis.value_or(limit);
  to.set_cpu_shares(std::clamp(request * kSharesPerCpu / kMillisPerCpu, kMinShares, kMaxShares));
  to.set_cpu_period(period);
  if (limit > 0) to.set_cpu_quota(std::max(limit * period / kMillisPerCpu, kMinQuota));
  to.set_memory_limit_in_bytes(amounts.memory_limit_bytes);
}

// The pod's total: app containers and sidecars run together. Init containers run before them, one
// after the other, beside the sidecars that started earlier.
// Source: k8s.io/component-helpers/resource/helpers.go, PodRequests and PodLimits.
ResourceList Sum(const Pod& pod, ResourceList Resources::*list) {
  ResourceList running;
  ResourceList sidecars;
  ResourceList starting;
  for (const Container& container : pod.containers) {
    ResourceList now = sidecars;
    for (const auto& [name, amount] : container.resources.*list) {
      now[name] += amount;
      if (container.kind == ContainerKind::kSidecar) sidecars[name] += amount;
      if (container.kind != ContainerKind::kInit) running[name] += amount;
    }
    if (container.kind == ContainerKind::kApp) continue;
    for (const auto& [name, amount] : now) starting[name] = std::max(starting[name], amount);
  }
  for (const auto& [name, amount] : starting) running[name] = std::max(running[name], amount);
  if (pod.pod_level) {
    for (const auto& [name, amount] : *pod.pod_level.*list) running[name] = amount;
  }
  return running;
}

// A container without an amount gets the pod's.
Amounts AmountsOf(const Pod& pod, const Container& container) {
  Amounts amounts = AmountsOf(container.resources);
  if (!pod.pod_level) return amounts;
  const Amounts whole = AmountsOf(*pod.pod_level);
  if (!amounts.cpu_limit_millis) amounts.cpu_limit_millis = whole.cpu_limit_millis;
  if (amounts.memory_limit_bytes == 0) amounts.memory_limit_bytes = whole.memory_limit_bytes;
  return amounts;
}

int64_t OomScore(const Pod& pod, const Container& container, int64_t machine_memory) {
  const QosClass qos = QosOf(pod);
  if (qos == QosClass::kGuaranteed) return kGuaranteedOomScore;
  if (qos == QosClass::kBestEffort || machine_memory <= 0) return kBestEffortOomScore;
  const Quantity* const request = Find(container.resources.requests, "memory");
  const int64_t bytes = request == nullptr ? 0 : request->Value();
  const int64_t score = 1000 - static_cast<int64_t>(1000.0 * static_cast<double>(bytes) /
                                                    static_cast<double>(machine_memory));
  return std::clamp(score, 1000 + kGuaranteedOomScore, kBestEffortOomScore - 1);
}

// 2048 is `2MB` in the cgroup files and `2Mi` in a resource's name.
std::string PageSize(int64_t kb, const char* k, const char* m, const char* g) {
  constexpr int64_t kKbPerMb = 1024;
  constexpr int64_t kKbPerGb = kKbPerMb * 1024;
  if (kb % kKbPerGb == 0) return std::to_string(kb / kKbPerGb) + g;
  if (kb % kKbPerMb == 0) return std::to_string(kb / kKbPerMb) + m;
  return std::to_string(kb) + k;
}

void AddIdentity(const Pod& pod, google::protobuf::Map<std::string, std::string>& labels) {
  labels["io.kubernetes.pod.name"] = pod.name;
  labels["io.kubernetes.pod.namespace"] = pod.name_space;
  labels["io.kubernetes.pod.uid"] = pod.uid;
}

v1::NamespaceOption Namespaces(const PodManifest& manifest) {
  v1::NamespaceOption options;
  options.set_network(manifest.host_network ? v1::NODE : v1::POD);
  options.set_pid(manifest.host_pid ? v1::NODE : v1::CONTAINER);
  options.set_ipc(manifest.host_ipc ? v1::NODE : v1::POD);
  options.mutable_userns_options()->set_mode(v1::NODE);
  return options;
}

// The number in `hugepages-2048kB`.
std::optional<int64_t> PageKb(std::string_view name) {
  constexpr std::string_view kPrefix = "hugepages-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t kb = 0;
  const auto [end, fault] = std::from_chars(name.data(), name.data() + name.size(), kb);
  return fault == std::errc() && kb > 0 ? std::optional(kb) : std::nullopt;
}

}  // namespace

KubeletHost ReadKubeletHost() {
  KubeletHost host;
  host.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
  const auto sizes = host::ListDirectory("/sys/kernel/mm/hugepages");
  if (sizes.ok()) {
    for (const std::string& name : *sizes) {
      if (const auto kb = PageKb(name)) host.hugepage_sizes_kb.push_back(*kb);
    }
  }
  std::ranges::sort(host.hugepage_sizes_kb);
  std::error_code ignored;  // unreadable: treated as missing
  host.limits_swap =
      std::filesystem::exists("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", ignored);
  return host;
}

std::string CgroupParent(const Pod& pod, const KubeletSettings& settings) {
  std::string qos;
  if (QosOf(pod) == QosClass::kBurstable) qos = "burstable";
  if (QosOf(pod) == QosClass::kBestEffort) qos = "besteffort";
  if (!settings.systemd_cgroups) {
    if (!qos.empty()) qos += "/";
    return settings.cgroup_root + "/kubepods/" + qos + "pod" + pod.uid;
  }
  std::string path = "/kubepods.slice/";
  std::string name = "kubepods";
  if (!qos.empty()) {
    name += "-" + qos;
    path += name + ".slice/";
  }
  std::string uid = pod.uid;
  std::ranges::replace(uid, '-', '_');
  return path + name + "-pod" + uid + ".slice";
}

v1::PodSandboxConfig MakeSandboxConfig(const PodManifest& manifest,
                                       const KubeletSettings& settings) {
  const Pod& pod = manifest.pod;
  v1::PodSandboxConfig config;
  config.mutable_metadata()->set_name(pod.name);
  config.mutable_metadata()->set_uid(pod.uid);
  config.mutable_metadata()->set_namespace_(pod.name_space);
  if (!manifest.host_network) config.set_hostname(pod.name);
  if (!settings.log_directory.empty()) {
    const std::string directory = pod.name_space + "_" + pod.name + "_" + pod.uid;
    config.set_log_directory((settings.log_directory / directory).string());
  }
  for (const auto& [key, value] : manifest.labels) (*config.mutable_labels())[key] = value;
  AddIdentity(pod, *config.mutable_labels());
  auto& annotations = *config.mutable_annotations();
  for (const auto& [key, value] : manifest.annotations) annotations[key] = value;
  if (settings.annotate_resources) {
    const std::string annotation = ResourcesAnnotation(pod);
    if (!annotation.empty()) annotations.insert({std::string(kResourcesAnnotation), annotation});
  }
  v1::LinuxPodSandboxConfig& linux_config = *config.mutable_linux();
  linux_config.set_cgroup_parent(CgroupParent(pod, settings));
  *linux_config.mutable_security_context()->mutable_namespace_options() = Namespaces(manifest);
  linux_config.mutable_overhead();
  Fill(AmountsOf(Resources{Sum(pod, &Resources::requests), Sum(pod, &Resources::limits)}),
       settings.cpu_period, *linux_config.mutable_resources());
  return config;
}

v1::ContainerConfig MakeContainerConfig(const PodManifest& manifest, const Container& container,
                                        const std::string& image_id, const KubeletHost& host) {
  const ContainerManifest& text = manifest.containers.at(container.name);
  v1::ContainerConfig config;
  config.mutable_metadata()->set_name(container.name);
  config.mutable_image()->set_image(image_id);
  config.mutable_image()->set_user_specified_image(text.image);
  config.mutable_command()->Assign(text.command.begin(), text.command.end());
  config.mutable_args()->Assign(text.args.begin(), text.args.end());
  config.set_working_dir(text.working_dir);
  for (const auto& [name, value] : text.envs) {
    v1::KeyValue& env = *config.add_envs();
    env.set_key(name);
    env.set_value(value);
  }
  for (const std::string& name : text.cdi_devices) config.add_cdi_devices()->set_name(name);
  AddIdentity(manifest.pod, *config.mutable_labels());
  (*config.mutable_labels())["io.kubernetes.container.name"] = container.name;
  auto& annotations = *config.mutable_annotations();
  annotations["io.kubernetes.container.restartCount"] = "0";
  annotations["io.kubernetes.container.terminationMessagePath"] = "/dev/termination-log";
  annotations["io.kubernetes.container.terminationMessagePolicy"] = "File";
  annotations["io.kubernetes.pod.terminationGracePeriod"] = std::to_string(manifest.grace_seconds);
  config.set_log_path(container.name + "/0.log");

  v1::LinuxContainerResources& resources = *config.mutable_linux()->mutable_resources();
  Fill(AmountsOf(manifest.pod, container), host.cpu_period, resources);
  if (host.limits_swap) {
    resources.set_memory_swap_limit_in_bytes(resources.memory_limit_in_bytes());
  }
  resources.set_oom_score_adj(OomScore(manifest.pod, container, host.memory_bytes));
  for (const int64_t kb : host.hugepage_sizes_kb) {
    v1::HugepageLimit& pages = *resources.add_hugepage_limits();
    pages.set_page_size(PageSize(kb, "KB", "MB", "GB"));
    // The container's own, else the pod's.
    const std::string name = "hugepages-" + PageSize(kb, "Ki", "Mi", "Gi");
    const Quantity* limit = Find(container.resources.limits, name);
    if (limit == nullptr && manifest.pod.pod_level) {
      limit = Find(manifest.pod.pod_level->limits, name);
    }
    if (limit != nullptr) pages.set_limit(static_cast<uint64_t>(limit->Value()));
  }
  *config.mutable_linux()->mutable_security_context()->mutable_namespace_options() =
      Namespaces(manifest);
  return config;
}

v1::LinuxContainerResources MakeResizedResources(int64_t shares, int64_t memory_bytes) {
  const int64_t millis = (shares * kMillisPerCpu + kSharesPerCpu - 1) / kSharesPerCpu;
  v1::LinuxContainerResources resources;
  Fill({.cpu_request_millis = millis,
        .cpu_limit_millis = millis,
        .memory_limit_bytes = memory_bytes},
       KubeletHost().cpu_period, resources);
  resources.set_cpu_shares(shares);
  return resources;
}

int64_t SharesOfCpus(int64_t cpus) { return cpus * kSharesPerCpu; }

}  // namespace alignd::simulator
