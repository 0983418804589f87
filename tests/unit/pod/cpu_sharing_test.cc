#include "alignd/pod/cpu_sharing.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/pod/kubernetes_pod.h"

namespace alignd {
namespace {

constexpr char kNri[] = "prefer-shared-cpus.resource-policy.nri.io";
constexpr char kCriRm[] = "prefer-shared-cpus.cri-resource-manager.intel.com";

CpuSharing Sharing(const std::vector<std::pair<std::string, std::string>>& annotations) {
  CpuSharing sharing;
  for (const auto& [name, value] : annotations) {
    EXPECT_TRUE(ReadSharingAnnotation(name, value, sharing)) << name;
  }
  return sharing;
}

using Preference = std::optional<bool>;

TEST(CpuSharing, TheNarrowestScopeCounts) {
  const std::string nri = kNri;
  const CpuSharing all = Sharing({{nri, "false"}, {nri + "/container.app", "true"}});
  EXPECT_EQ(PrefersShared(all, "app"), true);
  EXPECT_EQ(PrefersShared(all, "log"), false);
  const CpuSharing pod =
      Sharing({{nri, "false"}, {nri + "/pod", "true"}, {nri + "/container.app", "false"}});
  EXPECT_EQ(PrefersShared(pod, "app"), false);
  EXPECT_EQ(PrefersShared(pod, "log"), true);
  const CpuSharing one = Sharing({{nri + "/container.app", "true"}});
  EXPECT_EQ(PrefersShared(one, "app"), true);
  EXPECT_EQ(PrefersShared(one, "log"), Preference());
  EXPECT_EQ(PrefersShared({}, "app"), Preference());
  EXPECT_EQ(ContainersNamed(pod.annotations), std::vector<std::string>{"app"});
  EXPECT_TRUE(ContainersNamed(Sharing({{nri, "true"}}).annotations).empty());
}

// Each of the two programs reads its own annotations.
TEST(CpuSharing, ThoseOfNriPluginsReplaceThoseOfCriResourceManager) {
  const std::string old = kCriRm;
  EXPECT_EQ(PrefersShared(Sharing({{old + "/pod", "1"}}), "app"), true);
  const CpuSharing both =
      Sharing({{old + "/container.app", "true"}, {std::string(kNri) + "/pod", "false"}});
  EXPECT_EQ(PrefersShared(both, "app"), false);
  const CpuSharing others =
      Sharing({{old, "true"}, {std::string(kNri) + "/container.log", "true"}});
  EXPECT_EQ(PrefersShared(others, "app"), Preference());
}

TEST(CpuSharing, OtherValuesAndScopesAreFaults) {
  EXPECT_EQ(Sharing({{std::string(kNri) + "/pod", "yes"}}).annotations.fault,
            "annotation prefer-shared-cpus.resource-policy.nri.io/pod: \"yes\" is not \"true\" or "
            "\"false\"");
  EXPECT_EQ(Sharing({{kNri, "a\nb"}}).annotations.fault,
            "annotation prefer-shared-cpus.resource-policy.nri.io: the value is not \"true\" or "
            "\"false\"");
  for (const std::string scope :
       {"/", "/pods", "/container.", "/container.A\n", "/container.a/b"}) {
    EXPECT_EQ(Sharing({{kNri + scope, "true"}}).annotations.fault,
              "annotation prefer-shared-cpus.resource-policy.nri.io: the part from / on is not "
              "\"/pod\" or \"/container.NAME\"")
        << scope;
  }
  CpuSharing many;
  for (int i = 0; i < 257; ++i) {
    ReadSharingAnnotation(std::string(kNri) + "/container.c" + std::to_string(i), "true", many);
  }
  EXPECT_EQ(many.annotations.fault, "there are more than 256 annotations prefer-shared-cpus");
  EXPECT_EQ(many.annotations.values.size(), 256u);
}

TEST(CpuSharing, OtherAnnotationsAndLabelsAreNotRead) {
  CpuSharing sharing;
  for (const std::string name :
       {"prefer-shared-cpus", "x.prefer-shared-cpus.resource-policy.nri.io",
        "resource-policy.nri.io/prefer-shared-cpus", "prefer-shared-cpus.nri.io",
        "prefer-shared-cpus.resource-policy.nri.io.x", "koordinator.sh/qosClass"}) {
    EXPECT_FALSE(ReadSharingAnnotation(name, "true", sharing)) << name;
  }
  ReadSharingLabel("koordinator.sh/qos", "LS", sharing);
  ReadSharingLabel(kNri, "true", sharing);
  EXPECT_EQ(sharing, CpuSharing());
}

TEST(CpuSharing, TheLabelAsksForOneOfTheTwo) {
  for (const auto& [value, shares] : std::vector<std::pair<std::string, Preference>>{
           {"LSE", false}, {"LSR", false}, {"LS", true}, {"BE", true}, {"", std::nullopt}}) {
    CpuSharing sharing;
    ReadSharingLabel(kQosClassLabel, value, sharing);
    EXPECT_EQ(LabelShares(sharing), shares) << value;
    EXPECT_EQ(sharing.label_fault, "") << value;
  }
  CpuSharing system;
  ReadSharingLabel(kQosClassLabel, "SYSTEM", system);
  EXPECT_EQ(system.label_fault,
            "label koordinator.sh/qosClass: \"SYSTEM\" is not \"LSE\", \"LSR\", \"LS\", \"BE\" or "
            "\"\": \"SYSTEM\" is not supported");
  CpuSharing wrong;
  ReadSharingLabel(kQosClassLabel, "lsr", wrong);
  EXPECT_EQ(
      wrong.label_fault,
      "label koordinator.sh/qosClass: \"lsr\" is not \"LSE\", \"LSR\", \"LS\", \"BE\" or \"\"");
  EXPECT_EQ(LabelShares(wrong), Preference());
}

TEST(CpuSharing, IsReadFromAKubernetesPod) {
  const Result<Pod> pod = ParseKubernetesPod(
      R"({"metadata":{"name":"p","labels":{"koordinator.sh/qosClass":"BE","app":"x"},)"
      R"("annotations":{"prefer-shared-cpus.resource-policy.nri.io/pod":"true"}},)"
      R"("spec":{"containers":[{"name":"a"}]}})");
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_EQ(PrefersShared(pod->policies.sharing, "a"), true);
  EXPECT_EQ(pod->policies.sharing.qos_class, "BE");
  EXPECT_TRUE(pod->policies.unsupported.empty());
}

}  // namespace
}  // namespace alignd
