#include "alignd/pod/pod_policies.h"

#include <algorithm>
#include <array>
#include <utility>

#include "alignd/pod/unsupported_annotations.h"
#include "core/json/json_view.h"

namespace alignd {
namespace {

using json::View;

// The two members are shorter. The reader is not made for what is much longer.
constexpr size_t kLongestSpec = 4096;

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
Result<Done> CheckExclusive(const View& top) {
  constexpr std::string_view kKey = "singleNUMANodeExclusive";
  const Result<std::string> text = ReadMemberText(top, kKey);
  if (!text.ok()) return text.error();
  if (text->empty() || *text == "Preferred") return Done{};
  return (*top.Find(kKey))
      ->IsNot(*text == "Required" ? R"("Preferred" or "": "Required" is not supported)"
                                  : R"("Preferred" or "")");
}

Result<std::optional<NumaTopologyPolicy>> ParseNumaTopologySpec(std::string_view text) {
  if (text.size() > kLongestSpec) {
    return Error{ErrorCode::kInvalidArgument,
                 "is longer than " + std::to_string(kLongestSpec) + " bytes"};
  }
  const auto ordered = json::ParseOrdered(text);  // finds members that occur twice
  if (!ordered.ok()) return ordered.error();
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  const auto members = top.Members();
  if (!members.ok()) return members.error();
  for (const auto& [key, member] : *members) {
    if (key != "numaTopologyPolicy" && key != "singleNUMANodeExclusive") {
      return member.Wrong("is not known; known are numaTopologyPolicy, singleNUMANodeExclusive");
    }
  }
  const Result<Done> exclusive = CheckExclusive(top);
  if (!exclusive.ok()) return exclusive.error();
  return ReadNumaPolicy(top);
}

}  // namespace

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

void ReadPodPolicies(std::string_view annotation, std::string_view value, PodPolicies& policies) {
  NoteUnsupported(annotation, policies.unsupported);
  if (annotation != kNumaTopologyAnnotation) return;
  const auto policy = ParseNumaTopologySpec(value);
  if (policy.ok()) {
    policies.numa_topology = *policy;
  } else {
    policies.fault = policy.error().In("annotation " + std::string(annotation)).message;
  }
}

}  // namespace alignd
