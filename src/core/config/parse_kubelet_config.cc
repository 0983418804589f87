#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/config/kubelet_config.h"
#include "core/config/eviction_threshold.h"
#include "core/config/field_names.h"
#include "core/config/go_duration.h"
#include "core/json/json_view.h"
#include "core/pod/resource_list.h"

namespace alignd {
namespace {

using json::View;
using StringMap = std::map<std::string, std::string>;

// A string member, or "" if it is absent, as in Go.
Result<std::string> ReadString(const View& top, std::string_view key) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  return *member ? (*member)->String() : std::string();
}

Result<StringMap> ReadStringMap(const View& view) {
  const Result<std::vector<std::pair<std::string, View>>> members = view.Members();
  if (!members.ok()) return members.error();
  StringMap map;
  for (const auto& [key, member] : *members) {
    Result<std::string> text = member.String();
    if (!text.ok()) {
      Error error = text.error();
      error.remedy = "put the value in quotes";
      return error;
    }
    map.emplace(key, *std::move(text));
  }
  return map;
}

Result<Done> ReadOptionalStringMap(const View& top, std::string_view key, StringMap& map) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  Result<StringMap> read = ReadStringMap(**member);
  if (!read.ok()) return read.error();
  map = *std::move(read);
  return Done{};
}

// One of `choices` by its spelling. If absent or empty, `chosen` keeps the default.
template <typename Choice, size_t N>
Result<Done> ReadChoice(const View& top, std::string_view key, const std::array<Choice, N>& choices,
                        Choice& chosen) {
  const Result<std::string> text = ReadString(top, key);
  if (!text.ok()) return text.error();
  if (text->empty()) return Done{};
  std::string spellings;
  for (size_t i = 0; i < N; ++i) {
    if (*text == ToString(choices[i])) {
      chosen = choices[i];
      return Done{};
    }
    if (i > 0) spellings += i + 1 == N ? " or " : ", ";
    spellings += '"' + std::string(ToString(choices[i])) + '"';
  }
  return (*top.Find(key))->IsNot(spellings);
}

// Source: k8s.io/kubelet/config/v1beta1/register.go.
Result<Done> CheckKind(const View& top) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kExpected = {
      {{"apiVersion", "kubelet.config.k8s.io/v1beta1"}, {"kind", "KubeletConfiguration"}}};
  for (const auto& [key, expected] : kExpected) {
    const Result<std::optional<View>> member = top.Find(key);
    if (!member.ok()) return member.error();
    if (*member && (*member)->value() != expected) {
      return (*member)->IsNot('"' + std::string(expected) + '"');
    }
  }
  return Done{};
}

Result<Done> CheckFieldNames(const View& top) {
  const Result<std::vector<std::pair<std::string, View>>> members = top.Members();
  if (!members.ok()) return members.error();
  for (const auto& [name, member] : *members) {
    if (IsConfigField(name)) continue;
    Error error = member.Wrong("KubeletConfiguration has no such field");
    const std::string nearest(NearestConfigField(name));
    if (!nearest.empty()) error.remedy = "did you mean " + nearest + "?";
    return error;
  }
  return Done{};
}

Result<Done> ReadCpuManager(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {CpuManagerPolicy::kNone, CpuManagerPolicy::kStatic};
  const Result<Done> policy =
      ReadChoice(top, "cpuManagerPolicy", kPolicies, config.cpu_manager_policy);
  if (!policy.ok()) return policy;
  const Result<Done> options =
      ReadOptionalStringMap(top, "cpuManagerPolicyOptions", config.cpu_manager_policy_options);
  if (!options.ok()) return options;

  constexpr std::string_view kPeriod = "cpuManagerReconcilePeriod";
  const Result<std::optional<View>> member = top.Find(kPeriod);
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  const Result<std::string> text = (*member)->String();
  const std::optional<int64_t> nanos = text.ok() ? ParseGoDuration(*text) : std::nullopt;
  constexpr int64_t kNanosPerMilli = 1'000'000;
  if (!nanos || (*nanos != 0 && *nanos < kNanosPerMilli)) {
    return (*member)->IsNot("a duration of at least 1ms, such as \"10s\"");
  }
  if (*nanos != 0) config.cpu_manager_reconcile_period_ms = *nanos / kNanosPerMilli;
  return Done{};
}

Result<Done> ReadTopologyManager(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {
      TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
      TopologyManagerPolicy::kRestricted, TopologyManagerPolicy::kSingleNumaNode};
  constexpr std::array kScopes = {TopologyManagerScope::kContainer, TopologyManagerScope::kPod};
  const Result<Done> policy =
      ReadChoice(top, "topologyManagerPolicy", kPolicies, config.topology_manager_policy);
  if (!policy.ok()) return policy;
  const Result<Done> scope =
      ReadChoice(top, "topologyManagerScope", kScopes, config.topology_manager_scope);
  if (!scope.ok()) return scope;
  return ReadOptionalStringMap(top, "topologyManagerPolicyOptions",
                               config.topology_manager_policy_options);
}

// Source: kubernetes cmd/kubelet/app/server.go, parseResourceList.
Result<Done> ReadReserved(const View& top, std::string_view key, ResourceList& list) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  if (!*member) return Done{};
  const Result<StringMap> amounts = ReadStringMap(**member);
  if (!amounts.ok()) return amounts.error();
  for (const auto& [name, text] : *amounts) {
    constexpr std::array<std::string_view, 4> kAllowed = {"cpu", "memory", "ephemeral-storage",
                                                          "pid"};
    if (std::ranges::find(kAllowed, name) == kAllowed.end()) {
      Error error = (*member)->Wrong("cannot reserve \"" + name + "\" resource");
      error.remedy = "allowed are cpu, memory, ephemeral-storage and pid";
      return error;
    }
    const View amount = **(*member)->Find(name);
    const Result<Quantity> quantity = Quantity::Parse(text);
    if (!quantity.ok()) return quantity.error().In(amount.path());
    if (quantity->Sign() < 0) return amount.IsNot("a quantity of at least 0");
    list.emplace(name, *quantity);
  }
  return Done{};
}

// Source: kubelet pkg/kubelet/apis/config/validation/validation.go.
Result<Done> ReadReservedCpus(const View& top, KubeletConfig& config) {
  const Result<std::string> cpus = ReadString(top, "reservedSystemCPUs");
  if (!cpus.ok()) return cpus.error();
  if (cpus->empty()) return Done{};
  const View view = **top.Find("reservedSystemCPUs");
  for (const std::string_view key : {"systemReservedCgroup", "kubeReservedCgroup"}) {
    const Result<std::string> cgroup = ReadString(top, key);
    if (!cgroup.ok()) return cgroup.error();
    if (!cgroup->empty()) {
      return view.Wrong('"' + *cpus + "\" cannot be used together with " + std::string(key));
    }
  }
  const Result<CpuSet> set = CpuSet::Parse(*cpus);
  if (!set.ok()) return set.error().In(view.path());
  config.reserved_system_cpus = *cpus;
  return Done{};
}

// Absent: the kubelet's default. Present, even empty: only what is written, unless the defaults are
// merged in.
// Source: kubernetes cmd/kubelet/app/server.go, loadConfigFile; kubelet pkg/kubelet/eviction.
Result<Done> ReadEvictionHard(const View& top, KubeletConfig& config) {
  constexpr std::string_view kMemory = "memory.available";
  constexpr std::array<std::string_view, 9> kSignals = {
      kMemory,
      "allocatableMemory.available",
      "nodefs.available",
      "nodefs.inodesFree",
      "imagefs.available",
      "imagefs.inodesFree",
      "containerfs.available",
      "containerfs.inodesFree",
      "pid.available",
  };
  const Result<std::optional<View>> merge = top.Find("mergeDefaultEvictionSettings");
  if (!merge.ok()) return merge.error();
  const Result<bool> merges = *merge ? (*merge)->Bool() : false;
  if (!merges.ok()) return merges.error();
  const Result<std::optional<View>> member = top.Find("evictionHard");
  if (!member.ok()) return member.error();
  if (!*member) return Done{};

  const Result<StringMap> thresholds = ReadStringMap(**member);
  if (!thresholds.ok()) return thresholds.error();
  for (const auto& [signal, text] : *thresholds) {
    if (std::ranges::find(kSignals, signal) == kSignals.end()) {
      return (*member)->Wrong("unsupported eviction signal \"" + signal + '"');
    }
    const Result<EvictionThreshold> threshold = ParseEvictionThreshold(text);
    if (!threshold.ok()) return threshold.error().In("evictionHard." + signal);
    if (text.empty()) return (**(*member)->Find(signal)).IsNot("a quantity or a percentage");
  }
  const auto memory = thresholds->find(std::string(kMemory));
  if (memory != thresholds->end()) {
    config.eviction_hard_memory = memory->second;
  } else if (!*merges) {
    config.eviction_hard_memory.clear();
  }
  return Done{};
}

Result<Done> CheckReservedMemory(const View& view, const MemoryReservation& reservation,
                                 std::set<std::pair<int, std::string>>& seen) {
  const std::string where = " for NUMA node " + std::to_string(reservation.numa_node);
  for (const auto& [type, amount] : reservation.limits) {
    if (type != "memory" && !type.starts_with("hugepages-")) {
      return view.Wrong("the limit type \"" + type + "\"" + where +
                        " is not supported; allowed are memory and hugepages-<size>");
    }
    const std::string what = where + " and resource \"" + type + "\"";
    if (amount.IsZero()) return view.Wrong("reserved memory may not be zero" + what);
    if (amount != Quantity(amount.Value())) {
      return view.Wrong("reserved memory must be whole bytes" + what);
    }
    if (!seen.emplace(reservation.numa_node, type).second) {
      return view.Wrong("the reserved memory has a duplicate value" + what);
    }
  }
  return Done{};
}

// Source: kubelet pkg/kubelet/apis/config/validation/validation_reserved_memory.go.
Result<Done> ReadReservedMemory(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> list = top.Find("reservedMemory");
  if (!list.ok()) return list.error();
  if (!*list) return Done{};
  const Result<std::vector<View>> elements = (*list)->Elements();
  if (!elements.ok()) return elements.error();
  std::set<std::pair<int, std::string>> seen;
  for (const View& element : *elements) {
    MemoryReservation reservation;
    const Result<std::optional<View>> node = element.Find("numaNode");
    if (!node.ok()) return node.error();
    if (*node) {
      const Result<int64_t> id = (*node)->Integer(0, std::numeric_limits<int32_t>::max());
      if (!id.ok()) return id.error();
      reservation.numa_node = static_cast<int>(*id);
    }
    Result<ResourceList> limits = ReadResourceList(element, "limits");
    if (!limits.ok()) return limits.error();
    reservation.limits = *std::move(limits);
    const Result<Done> checked = CheckReservedMemory(element, reservation, seen);
    if (!checked.ok()) return checked;
    config.reserved_memory.push_back(std::move(reservation));
  }
  return Done{};
}

Result<Done> ReadMemoryManager(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {MemoryManagerPolicy::kNone, MemoryManagerPolicy::kStatic};
  const Result<Done> policy =
      ReadChoice(top, "memoryManagerPolicy", kPolicies, config.memory_manager_policy);
  if (!policy.ok()) return policy;
  return ReadReservedMemory(top, config);
}

// Other gates change nothing that alignd does.
Result<Done> ReadFeatureGates(const View& top, KubeletConfig& config) {
  const Result<std::optional<View>> gates = top.Find("featureGates");
  if (!gates.ok()) return gates.error();
  if (!*gates) return Done{};
  for (const std::string gate :
       {"AllAlpha", "AllBeta", "PodLevelResources", "PodLevelResourceManagers"}) {
    const Result<std::optional<View>> member = (*gates)->Find(gate);
    if (!member.ok()) return member.error();
    if (!*member) continue;
    const Result<bool> on = (*member)->Bool();
    if (!on.ok()) return on.error();
    config.feature_gates[gate] = *on;
  }
  return Done{};
}

Result<Done> ReadCompatibility(const View& top, KubeletConfig& config) {
  constexpr std::array kReleases = {Compatibility::k1_20, Compatibility::k1_36,
                                    Compatibility::k1_37};
  return ReadChoice(top, "compatibility", kReleases, config.compatibility);
}

Result<Done> ReadKubeReserved(const View& top, KubeletConfig& config) {
  return ReadReserved(top, "kubeReserved", config.kube_reserved);
}

Result<Done> ReadSystemReserved(const View& top, KubeletConfig& config) {
  return ReadReserved(top, "systemReserved", config.system_reserved);
}

}  // namespace

Result<KubeletConfig> ParseKubeletConfig(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  for (const auto check : {CheckKind, CheckFieldNames}) {
    const Result<Done> checked = check(top);
    if (!checked.ok()) return checked.error();
  }
  KubeletConfig config;
  for (const auto read : {ReadCpuManager, ReadTopologyManager, ReadMemoryManager, ReadKubeReserved,
                          ReadSystemReserved, ReadReservedCpus, ReadEvictionHard, ReadFeatureGates,
                          ReadCompatibility}) {
    const Result<Done> done = read(top, config);
    if (!done.ok()) return done.error();
  }
  return config;
}

}  // namespace alignd
