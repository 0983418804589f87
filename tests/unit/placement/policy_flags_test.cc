// The flags of a node's alignd, for planning: the same as alignd does with them.
#include "alignd/placement/policy_flags.h"

#include <gtest/gtest.h>

#include "alignd/config/kubelet_config.h"

namespace alignd::placement {
namespace {

constexpr char kChoosing[] = R"({
    "cpuManagerPolicy": "static", "podPolicies": ["qosClass"],
    "namespacePolicies": [
      {"namespaces": ["a"], "podPolicies": ["numaTopologyPolicy"],
       "defaults": {"singleNUMANodeExclusive": "Required"}},
      {"namespaces": ["b"], "podPolicies": ["numaTopologyPolicy"],
       "defaults": {"singleNUMANodeExclusive": "Required", "numaTopologyPolicy": "Restricted"}},
      {"namespaces": ["c"], "podPolicies": ["qosClass"], "defaults": {"shared-cpus": ""}}]})";

KubeletConfig With(const std::string& config, const PolicyFlags& flags) {
  const Result<std::string> changed = WithFlags(config, flags);
  EXPECT_TRUE(changed.ok()) << changed.error().Text();
  const Result<KubeletConfig> parsed = ParseKubeletConfig(changed.ok() ? *changed : "");
  EXPECT_TRUE(parsed.ok()) << parsed.error().Text();
  return parsed.ok() ? *parsed : KubeletConfig();
}

TEST(PolicyFlags, StandInPlaceOfFields) {
  const PolicyFlags flags = {.pod_policies = {{PodPolicy::kResourceStatus}},
                             .shared_pool_handlers = {{"own-*"}},
                             .not_devices = {{"a.com/licence"}},
                             .annotated_extended_resources = false};
  const KubeletConfig config = With(kChoosing, flags);
  EXPECT_EQ(config.pod_policies, std::set<PodPolicy>{PodPolicy::kResourceStatus});
  EXPECT_EQ(PodPoliciesFor(config, "c"), std::set<PodPolicy>{PodPolicy::kQosClass});
  EXPECT_EQ(config.shared_pool_handlers.names(), std::set<std::string>{"own-*"});
  EXPECT_EQ(config.not_devices, std::set<std::string>{"a.com/licence"});
  EXPECT_FALSE(config.annotated_extended_resources);
  EXPECT_TRUE(
      With(R"({"annotatedExtendedResources": false})", {.annotated_extended_resources = true})
          .annotated_extended_resources);
  EXPECT_TRUE(With("{}", {.shared_pool_handlers = std::set<std::string>()})
                  .shared_pool_handlers.names()
                  .empty());
  EXPECT_EQ(*WithFlags(kChoosing, {}), kChoosing);
  EXPECT_EQ(*WithFlags("", flags), "");
  EXPECT_FALSE(WithFlags("[]", flags).ok());
  EXPECT_FALSE(WithFlags("{", flags).ok());
}

TEST(PolicyFlags, LetNoPodsChooseAsTheDaemonDoes) {
  const PolicyFlags off = {
      .pod_policies = std::set<PodPolicy>(), .shared_pool_handlers = {}, .not_devices = {}};
  for (const std::string policy : {R"("none")", R"("")", "null", R"("restricted")"}) {
    std::string text = kChoosing;
    text.replace(0, 1, R"({"topologyManagerPolicy": )" + policy + ",");
    KubeletConfig expected = *ParseKubeletConfig(text);
    LetNoPodsChoose(expected);
    EXPECT_EQ(With(text, off), expected) << policy;
    EXPECT_EQ(DefaultPoliciesFor(expected, "a").keeps_numa_apart, policy == R"("restricted")");
  }
  // Nor is what is refused later changed here.
  EXPECT_EQ(*WithFlags(R"({"namespacePolicies":[1,{"podPolicies":2}],"podPolicies":3})", off),
            R"({"namespacePolicies":[1,{"podPolicies":2}],"podPolicies":[]})");
}

}  // namespace
}  // namespace alignd::placement
