#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/config/config_problem.h"
#include "alignd/config/go_duration.h"
#include "alignd/config/kubelet_config.h"
#include "core/config/eviction_threshold.h"
#include "core/config/feature_gates.h"
#include "core/config/field_names.h"
#include "core/config/switches.h"
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
  std::vector<std::string_view> names;
  for (size_t i = 0; i < N; ++i) {
    if (*text == ToString(choices[i])) {
      chosen = choices[i];
      return Done{};
    }
    if (i > 0) spellings += i + 1 == N ? " or " : ", ";
    spellings += '"' + std::string(ToString(choices[i])) + '"';
    names.push_back(ToString(choices[i]));
  }
  Error error = (*top.Find(key))->IsNot(spellings);
  // A release is not misspelt: the nearest one would be a wrong hint.
  if constexpr (!std::is_same_v<Choice, Compatibility>) {
    error.remedy = SuggestName(*text, names, "");
  }
  return error;
}

// Source: k8s.io/kubelet/config/v1beta1/register.go.
Result<Done> RequireText(const View& top, std::string_view key, std::string_view expected) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  if (*member && (*member)->value() != expected) {
    return (*member)->IsNot('"' + std::string(expected) + '"');
  }
  return Done{};
}

Result<Done> CheckApiVersion(const View& top, KubeletConfig&) {
  return RequireText(top, "apiVersion", "kubelet.config.k8s.io/v1beta1");
}

Result<Done> CheckKind(const View& top, KubeletConfig&) {
  return RequireText(top, "kind", "KubeletConfiguration");
}

Result<Done> ReadCpuPolicy(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {CpuManagerPolicy::kNone, CpuManagerPolicy::kStatic};
  return ReadChoice(top, "cpuManagerPolicy", kPolicies, config.cpu_manager_policy);
}

Result<Done> ReadCpuOptions(const View& top, KubeletConfig& config) {
  return ReadOptionalStringMap(top, "cpuManagerPolicyOptions", config.cpu_manager_policy_options);
}

Result<Done> ReadPeriod(const View& top, KubeletConfig& config) {
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

Result<Done> ReadTopologyPolicy(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {
      TopologyManagerPolicy::kNone, TopologyManagerPolicy::kBestEffort,
      TopologyManagerPolicy::kBestAttainable, TopologyManagerPolicy::kRestricted,
      TopologyManagerPolicy::kSingleNumaNode};
  return ReadChoice(top, "topologyManagerPolicy", kPolicies, config.topology_manager_policy);
}

Result<Done> ReadTopologyScope(const View& top, KubeletConfig& config) {
  constexpr std::array kScopes = {TopologyManagerScope::kContainer, TopologyManagerScope::kPod};
  return ReadChoice(top, "topologyManagerScope", kScopes, config.topology_manager_scope);
}

Result<Done> ReadStrategy(const View& top, KubeletConfig& config) {
  constexpr std::array kStrategies = {NumaAllocateStrategy::kFullestNode,
                                      NumaAllocateStrategy::kEmptiestNode,
                                      NumaAllocateStrategy::kAllNodes};
  return ReadChoice(top, "numaAllocateStrategy", kStrategies, config.numa_allocate_strategy);
}

Result<Done> ReadTopologyOptions(const View& top, KubeletConfig& config) {
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

Result<Done> ReadMemoryPolicy(const View& top, KubeletConfig& config) {
  constexpr std::array kPolicies = {MemoryManagerPolicy::kNone, MemoryManagerPolicy::kStatic};
  return ReadChoice(top, "memoryManagerPolicy", kPolicies, config.memory_manager_policy);
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

struct FieldReader {
  std::string_view field;
  Result<Done> (*read)(const View&, KubeletConfig&);
};

// In the order in which ParseKubeletConfig looks for the first problem. Names are checked after the
// second.
constexpr std::array kReaders = std::to_array<FieldReader>({
    {"apiVersion", CheckApiVersion},
    {"kind", CheckKind},
    {"cpuManagerPolicy", ReadCpuPolicy},
    {"cpuManagerPolicyOptions", ReadCpuOptions},
    {"cpuManagerReconcilePeriod", ReadPeriod},
    {"topologyManagerPolicy", ReadTopologyPolicy},
    {"topologyManagerScope", ReadTopologyScope},
    {"topologyManagerPolicyOptions", ReadTopologyOptions},
    {"memoryManagerPolicy", ReadMemoryPolicy},
    {"reservedMemory", ReadReservedMemory},
    {"kubeReserved", ReadKubeReserved},
    {"systemReserved", ReadSystemReserved},
    {"reservedSystemCPUs", ReadReservedCpus},
    {"evictionHard", ReadEvictionHard},
    {"compatibility", ReadCompatibility},
    {"featureGates", ReadFeatureGates},
    {"numaAllocateStrategy", ReadStrategy},
    {"podPolicies", ReadPodPolicySwitch},
    {"namespacePolicies", ReadNamespacePolicies},
    {"sharedPoolHandlers", ReadSharedPoolHandlers},
    {"notDevices", ReadNotDevices},
    {"annotatedExtendedResources", ReadAnnotatedExtendedResources},
});
constexpr size_t kNamesAfter = 2;

// The member as JSON, cut; empty if there is none.
std::string ShownValue(const nlohmann::json& top, const std::string& field) {
  const auto member = top.find(field);
  if (member == top.end() || member->is_null()) return "";
  constexpr size_t kMaxValue = 200;
  std::string text = member->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= kMaxValue ? text : text.substr(0, kMaxValue) + "...";
}

// The top-level field with which the message begins, as View's messages do; else that of the
// reader.
std::string FieldOf(const Error& error, std::string_view reader) {
  const std::string name = error.message.substr(0, error.message.find_first_of(".[: "));
  return IsConfigField(name) ? name : std::string(reader);
}

void CheckFieldNames(const View& top, std::vector<ConfigProblem>& problems) {
  const std::vector<std::pair<std::string, View>> members = *top.Members();
  for (const auto& [name, member] : members) {
    if (IsConfigField(name)) continue;
    Error error = member.Wrong("KubeletConfiguration has no such field");
    const std::string nearest(NearestConfigField(name));
    if (!nearest.empty()) error.remedy = "did you mean " + nearest + "?";
    problems.push_back({name, ShownValue(top.value(), name), std::move(error)});
  }
}

}  // namespace

ReadConfig ReadKubeletConfig(std::string_view text) {
  ReadConfig read;
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) {
    read.problems.push_back({"", "", parsed.error()});
    return read;
  }
  const View top(*parsed, "");
  if (!parsed->is_object()) {
    read.problems.push_back({"", "", top.IsNot("an object")});
    return read;
  }
  for (size_t i = 0; i < kReaders.size(); ++i) {
    if (i == kNamesAfter) CheckFieldNames(top, read.problems);
    const Result<Done> done = kReaders[i].read(top, read.config);
    if (done.ok()) continue;
    std::string field = FieldOf(done.error(), kReaders[i].field);
    std::string value = ShownValue(*parsed, field);
    read.problems.push_back({std::move(field), std::move(value), done.error()});
  }
  return read;
}

Result<KubeletConfig> ParseKubeletConfig(std::string_view text) {
  ReadConfig read = ReadKubeletConfig(text);
  if (!read.problems.empty()) return std::move(read.problems.front().error);
  return std::move(read.config);
}

}  // namespace alignd
