#include "alignd/pod/pod_policies.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/pod/unsupported_annotations.h"
#include "core/json/json_view.h"
#include "core/pod/default_policies.h"

namespace alignd {
namespace {

using json::View;

// The members are shorter. The reader is not made for what is much longer.
constexpr size_t kLongestSpec = 4096;
// A few NUMA nodes with their resources, and a list of CPUs.
constexpr size_t kLongestStatus = 16384;

constexpr std::string_view kOnOneNode = "single-numa-node";

constexpr std::string_view kSharedPoolsMember = "cpuSharedPools";
constexpr std::string_view kSharedPoolsOfStatus =
    "scheduling.koordinator.sh/resource-status (cpuSharedPools)";

// In place of the whole names of annotations.
constexpr std::string_view kSharedCpusMember = "shared-cpus";
constexpr std::array<std::string_view, 7> kDefaultMembers = {
    "numaTopologyPolicy",     "singleNUMANodeExclusive",     "requiredCPUBindPolicy",
    "preferredCPUBindPolicy", "preferredCPUExclusivePolicy", kPreferShared,
    kSharedCpusMember};

constexpr std::array kNumaPolicies = {NumaTopologyPolicy::kBestEffort,
                                      NumaTopologyPolicy::kRestricted,
                                      NumaTopologyPolicy::kSingleNumaNode};

// An empty text is what the member has by default, as in Go.
Result<std::string> ReadMemberText(const View& top, std::string_view key) {
  const Result<std::optional<View>> member = top.Find(key);
  if (!member.ok()) return member.error();
  return *member ? (*member)->String() : std::string();
}

Result<std::optional<NumaTopologyPolicy>> ReadNumaPolicy(const View& top) {
  constexpr std::string_view kKey = "numaTopologyPolicy";
  const Result<std::string> text = ReadMemberText(top, kKey);
  if (!text.ok()) return text.error();
  if (text->empty()) return std::optional<NumaTopologyPolicy>();
  for (const NumaTopologyPolicy policy : kNumaPolicies) {
    if (*text == ToString(policy)) return std::optional(policy);
  }
  return (*top.Find(kKey))->IsNot(R"("BestEffort", "Restricted", "SingleNUMANode" or "")");
}

// Whether pods on one NUMA node and pods on several are kept apart. "Preferred" is a wish about the
// scheduler's choice, and needs nothing of the node.
Result<bool> ReadNumaExclusive(const View& top) {
  constexpr std::string_view kKey = "singleNUMANodeExclusive";
  const Result<std::string> text = ReadMemberText(top, kKey);
  if (!text.ok()) return text.error();
  if (text->empty() || *text == "Preferred") return false;
  if (*text == "Required") return true;
  return (*top.Find(kKey))->IsNot(R"("Required", "Preferred" or "")");
}

Result<Done> ReadNumaTopologySpec(const View& top, PodPolicies& policies) {
  const Result<bool> exclusive = ReadNumaExclusive(top);
  if (!exclusive.ok()) return exclusive.error();
  const auto policy = ReadNumaPolicy(top);
  if (!policy.ok()) return policy.error();
  policies.numa_topology = *policy;
  policies.keeps_numa_apart = *exclusive;
  return Done{};
}

Result<std::optional<CpuBindPolicy>> ReadBindPolicy(const View& top, std::string_view key) {
  constexpr std::string_view kAllowed = R"("FullPCPUs", "SpreadByPCPUs", "Default" or "")";
  const Result<std::string> text = ReadMemberText(top, key);
  if (!text.ok()) return text.error();
  if (text->empty()) return std::optional<CpuBindPolicy>();
  if (*text == "Default") return std::optional(CpuBindPolicy::kFullPcpus);
  for (const CpuBindPolicy policy : {CpuBindPolicy::kFullPcpus, CpuBindPolicy::kSpreadByPcpus}) {
    if (*text == ToString(policy)) return std::optional(policy);
  }
  // Koordinator's scheduler knows the name and does not follow it: a pod with it is bound to no
  // CPUs. Its proposal chooses a NUMA node by the pod's limits; shared-cpus does so by its
  // requests. Source: koordinator pkg/scheduler/plugins/nodenumaresource/plugin.go, PreFilter;
  // docs/proposals/scheduling/20220530-fine-grained-cpu-orchestration.md.
  const std::string why =
      *text == "ConstrainedBurst"
          ? R"(: "ConstrainedBurst" is not supported, as Koordinator's scheduler does not follow it; )"
            "shared CPUs of one NUMA node are asked for with annotation " +
                std::string(kSharedCpusAnnotation)
          : "";
  return (*top.Find(key))->IsNot(std::string(kAllowed) + why);
}

Result<std::optional<CpuExclusivePolicy>> ReadExclusivePolicy(const View& top,
                                                              std::string_view key) {
  const Result<std::string> text = ReadMemberText(top, key);
  if (!text.ok()) return text.error();
  if (text->empty() || *text == "None") return std::optional<CpuExclusivePolicy>();
  for (const auto policy : {CpuExclusivePolicy::kPcpuLevel, CpuExclusivePolicy::kNumaNodeLevel}) {
    if (*text == ToString(policy)) return std::optional(policy);
  }
  return (*top.Find(key))->IsNot(R"("PCPULevel", "NUMANodeLevel", "None" or "")");
}

Result<Done> ReadResourceSpec(const View& top, PodPolicies& policies) {
  const auto required = ReadBindPolicy(top, "requiredCPUBindPolicy");
  if (!required.ok()) return required.error();
  const auto preferred = ReadBindPolicy(top, "preferredCPUBindPolicy");
  if (!preferred.ok()) return preferred.error();
  const auto exclusive = ReadExclusivePolicy(top, "preferredCPUExclusivePolicy");
  if (!exclusive.ok()) return exclusive.error();
  policies.required_bind = *required;
  policies.preferred_bind = *preferred;
  policies.exclusive = *exclusive;
  return Done{};
}

Result<Done> RequireKnown(const View& object, const std::vector<std::string_view>& known) {
  const auto members = object.Members();
  if (!members.ok()) return members.error();
  for (const auto& [key, member] : *members) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    return member.Wrong("is not known; known are " + list);
  }
  return Done{};
}

// Such a name can stand in a message as it is.
bool IsResourceName(std::string_view name) {
  constexpr size_t kLongestName = 253 + 1 + 63;
  return name.size() <= kLongestName && std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 &&
                  (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/');
         });
}

Result<std::pair<int64_t, NumaNodeResources::mapped_type>> ReadNumaNode(const View& element) {
  if (auto known = RequireKnown(element, {"node", "resources"}); !known.ok()) return known.error();
  // As in Go: an absent number is 0.
  const Result<std::optional<View>> node = element.Find("node");
  if (!node.ok()) return node.error();
  const Result<int64_t> id =
      *node ? (*node)->Integer(0, std::numeric_limits<int32_t>::max()) : Result<int64_t>(0);
  if (!id.ok()) return id.error();
  NumaNodeResources::mapped_type amounts;
  const Result<std::optional<View>> resources = element.Find("resources");
  if (!resources.ok()) return resources.error();
  if (!*resources) return std::pair(*id, std::move(amounts));
  const auto members = (*resources)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [name, amount] : *members) {
    if (!IsResourceName(name)) return amount.Wrong("is not the name of a resource");
    // As Go's Quantity: a number, or a text.
    const Result<std::string> text =
        amount.value().is_number() ? amount.value().dump() : amount.String();
    if (!text.ok()) return text.error();
    const Result<Quantity> quantity = Quantity::Parse(*text);
    if (!quantity.ok()) return amount.IsNot(R"(an amount such as "4" or "1Gi")");
    if (quantity->Sign() < 0) return amount.Wrong("is negative");
    amounts[name] = *quantity;
  }
  return std::pair(*id, std::move(amounts));
}

Result<Done> ReadResourceStatus(const View& top, PodPolicies& policies) {
  const Result<std::string> list = ReadMemberText(top, "cpuset");
  if (!list.ok()) return list.error();
  const Result<CpuSet> cpus = CpuSet::Parse(*list);
  if (!cpus.ok()) return (*top.Find("cpuset"))->IsNot(R"(a list of CPUs such as "0-3,8")");
  const Result<std::optional<View>> nodes = top.Find("numaNodeResources");
  if (!nodes.ok()) return nodes.error();
  NumaNodeResources resources;
  if (*nodes) {
    const Result<std::vector<View>> elements = (*nodes)->Elements();
    if (!elements.ok()) return elements.error();
    for (const View& element : *elements) {
      auto node = ReadNumaNode(element);
      if (!node.ok()) return node.error();
      if (!resources.insert(*std::move(node)).second) return element.Wrong("has its node twice");
    }
  }
  // Of Koordinator before 1.3, about pods without CPUs of their own. Their CPUs are those of the
  // shared pool, which changes while they run.
  const Result<std::optional<View>> pools = top.Find(kSharedPoolsMember);
  if (!pools.ok()) return pools.error();
  if (*pools) AddUnsupported(kSharedPoolsOfStatus, policies.unsupported);
  policies.cpuset = *cpus;
  policies.numa_resources = std::move(resources);
  return Done{};
}

// One annotation: its name, the members that it can have, its reader, and where its fault goes.
struct Annotation {
  std::string_view name;
  size_t longest;  // in bytes
  std::vector<std::string_view> members;
  Result<Done> (*read)(const View& top, PodPolicies& policies);
  std::string PodPolicies::*fault;
};

const std::vector<Annotation>& Annotations() {
  static const std::vector<Annotation> annotations = {
      {kNumaTopologyAnnotation,
       kLongestSpec,
       {"numaTopologyPolicy", "singleNUMANodeExclusive"},
       ReadNumaTopologySpec,
       &PodPolicies::fault},
      {kResourceSpecAnnotation,
       kLongestSpec,
       {"requiredCPUBindPolicy", "preferredCPUBindPolicy", "preferredCPUExclusivePolicy"},
       ReadResourceSpec,
       &PodPolicies::spec_fault},
      {kResourceStatusAnnotation,
       kLongestStatus,
       {"cpuset", "numaNodeResources", kSharedPoolsMember},
       ReadResourceStatus,
       &PodPolicies::status_fault},
  };
  return annotations;
}

Result<Done> ReadAnnotation(const Annotation& annotation, std::string_view text,
                            PodPolicies& policies) {
  if (text.size() > annotation.longest) {
    return Error{ErrorCode::kInvalidArgument,
                 "is longer than " + std::to_string(annotation.longest) + " bytes"};
  }
  const auto ordered = json::ParseOrdered(text);  // finds members that occur twice
  if (!ordered.ok()) return ordered.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  if (auto known = RequireKnown(top, annotation.members); !known.ok()) return known.error();
  return annotation.read(top, policies);
}

// A text, not JSON: it has one member, as it were.
void ReadSharedCpus(std::string_view value, PodPolicies& policies) {
  policies.shared_on_one_node = value == kOnOneNode;
  if (policies.shared_on_one_node || value.empty()) return;
  const nlohmann::json text = std::string(value);
  policies.shared_fault = View(text, "")
                              .IsNot("\"" + std::string(kOnOneNode) + R"(" or "")")
                              .In("annotation " + std::string(kSharedCpusAnnotation))
                              .message;
}

// As the annotation, whose value is a text, or as a boolean.
Result<bool> ReadPrefersShared(const View& object) {
  const Result<std::optional<View>> member = object.Find(kPreferShared);
  if (!member.ok()) return member.error();
  if (!*member) return false;
  if (const Result<bool> on = (*member)->Bool(); on.ok()) return *on;
  const Result<std::string> text = (*member)->String();
  const std::optional<bool> on = text.ok() ? ParseGoBool(*text) : std::nullopt;
  if (!on) return (*member)->IsNot(R"("true" or "false")");
  return *on;
}

Result<bool> ReadSharedOnOneNode(const View& object) {
  const Result<std::string> text = ReadMemberText(object, kSharedCpusMember);
  if (!text.ok()) return text.error();
  if (text->empty()) return false;
  if (*text == kOnOneNode) return true;
  return (*object.Find(kSharedCpusMember))->IsNot("\"" + std::string(kOnOneNode) + R"(" or "")");
}

}  // namespace

Result<PlacementPolicies> ReadDefaultPolicies(const View& object) {
  const auto members = object.Members();
  if (!members.ok()) return members.error();
  const std::vector<std::string_view> known(kDefaultMembers.begin(), kDefaultMembers.end());
  for (const auto& [key, member] : *members) {
    if (std::ranges::find(known, key) != known.end()) continue;
    std::string list;
    for (const std::string_view name : known) {
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    Error error = member.Wrong("is not known; known are " + list);
    error.remedy = SuggestName(key, known, "remove it");
    return error;
  }
  PodPolicies read;
  if (Result<Done> done = ReadNumaTopologySpec(object, read); !done.ok()) return done.error();
  if (Result<Done> done = ReadResourceSpec(object, read); !done.ok()) return done.error();
  const Result<bool> shared = ReadPrefersShared(object);
  if (!shared.ok()) return shared.error();
  const Result<bool> on_one_node = ReadSharedOnOneNode(object);
  if (!on_one_node.ok()) return on_one_node.error();
  return PlacementPolicies{.numa_topology = read.numa_topology,
                           .keeps_numa_apart = read.keeps_numa_apart,
                           .required_bind = read.required_bind,
                           .preferred_bind = read.preferred_bind,
                           .exclusive = read.exclusive,
                           .prefers_shared_cpus = *shared,
                           .shared_on_one_node = *on_one_node};
}

std::vector<std::pair<std::string, std::string>> ToTexts(const PlacementPolicies& policies) {
  std::vector<std::pair<std::string, std::string>> texts;
  const auto add = [&texts](std::string_view name, std::string_view value) {
    texts.emplace_back(name, value);
  };
  if (policies.numa_topology) add("numaTopologyPolicy", ToString(*policies.numa_topology));
  if (policies.keeps_numa_apart) add("singleNUMANodeExclusive", "Required");
  if (policies.required_bind) add("requiredCPUBindPolicy", ToString(*policies.required_bind));
  if (policies.preferred_bind) add("preferredCPUBindPolicy", ToString(*policies.preferred_bind));
  if (policies.exclusive) add("preferredCPUExclusivePolicy", ToString(*policies.exclusive));
  if (policies.prefers_shared_cpus) add(kPreferShared, "true");
  if (policies.shared_on_one_node) add(kSharedCpusMember, kOnOneNode);
  return texts;
}

std::string_view ToString(NumaTopologyPolicy policy) {
  switch (policy) {
    case NumaTopologyPolicy::kBestEffort:
      return "BestEffort";
    case NumaTopologyPolicy::kRestricted:
      return "Restricted";
    case NumaTopologyPolicy::kSingleNumaNode:
      return "SingleNUMANode";
  }
  return "";
}

std::string_view ToString(CpuBindPolicy policy) {
  switch (policy) {
    case CpuBindPolicy::kFullPcpus:
      return "FullPCPUs";
    case CpuBindPolicy::kSpreadByPcpus:
      break;
  }
  return "SpreadByPCPUs";
}

std::string_view ToString(CpuExclusivePolicy policy) {
  switch (policy) {
    case CpuExclusivePolicy::kPcpuLevel:
      return "PCPULevel";
    case CpuExclusivePolicy::kNumaNodeLevel:
      break;
  }
  return "NUMANodeLevel";
}

bool AreEmpty(const PodPolicies& policies) {
  return policies == PodPolicies{.name_space = policies.name_space};
}

void ReadPodPolicies(std::string_view annotation, std::string_view value, PodPolicies& policies) {
  if (ReadSharingAnnotation(annotation, value, policies.sharing)) return;
  if (ReadScopedAnnotation(kPreferIsolated, annotation, value, policies.isolation)) return;
  NoteUnsupported(annotation, policies.unsupported);
  if (annotation == kSharedCpusAnnotation) return ReadSharedCpus(value, policies);
  const auto known = std::ranges::find(Annotations(), annotation, &Annotation::name);
  if (known == Annotations().end()) return;
  const Result<Done> read = ReadAnnotation(*known, value, policies);
  if (!read.ok()) {
    policies.*(known->fault) = read.error().In("annotation " + std::string(annotation)).message;
  }
}

}  // namespace alignd
