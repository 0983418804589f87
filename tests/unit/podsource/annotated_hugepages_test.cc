// Huge pages in annotations. A pod's sandbox does not show them.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cgroup/cgroup_tree.h"
#include "edge/cri_pods.h"
#include "edge/fake_tree.h"
#include "podsource/annotation_source.h"

namespace alignd::podsource {
namespace {

namespace v1 = runtime::v1;

constexpr char kHuge[] = R"({"app":{"limits":{"cpu":"2","memory":"64Mi","hugepages-2Mi":"8Mi"}},)"
                         R"("side":{"limits":{"cpu":"1","memory":"32Mi","hugepages-2Mi":"4Mi"}}})";

v1::ContainerConfig WithHugePages(v1::ContainerConfig container, int64_t bytes) {
  v1::HugepageLimit& page = *container.mutable_linux()->mutable_resources()->add_hugepage_limits();
  page.set_page_size("2MB");
  page.set_limit(static_cast<uint64_t>(bytes));
  return container;
}

class AnnotatedHugePages : public ::testing::Test {
 protected:
  AnnotatedHugePages() { sandbox_.mutable_metadata()->set_uid("1"); }

  void Limit(const std::string& text) {
    tree_.Write({"hugetlb/kubepods/pod1/hugetlb.2MB.limit_in_bytes", text + "\n"});
  }
  Result<std::optional<PodAsk>> Ask(const v1::ContainerConfig* container = nullptr) {
    AnnotationSource source(AnnotationSource::Options{true, &cgroups_});
    return AskFor(source, sandbox_, container);
  }

  v1::PodSandboxConfig sandbox_ = Annotated(kHuge);
  testing::FakeTree tree_;
  const cgroup::CgroupTree cgroups_{tree_.root()};
};

TEST_F(AnnotatedHugePages, AreLimitedByThePodsCgroup) {
  Limit(std::to_string(12 * kMi));
  const auto whole = Ask();
  ASSERT_TRUE(whole.ok()) << whole.error().Text();
  ASSERT_TRUE(*whole);
  EXPECT_EQ((*whole)->pod.containers.size(), 2U);
  const v1::ContainerConfig app = WithHugePages(Kubelet(2000, 2000, 64 * kMi), 8 * kMi);
  const auto created = Ask(&app);
  ASSERT_TRUE(created.ok()) << created.error().Text();
  EXPECT_EQ((*created)->pod.containers.size(), 2U);

  Limit(std::to_string(12 * kMi - 1));
  const auto refused = Ask();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "annotation alignd.io/resources: the pod's limits.hugepages-2Mi are 12582912 bytes, "
            "but its cgroup may have 12582911");
  EXPECT_FALSE(Ask(&app).ok());
}

TEST_F(AnnotatedHugePages, AreReservedContainerByContainerWithoutTheCgroupsLimit) {
  const auto whole = Ask();
  ASSERT_TRUE(whole.ok()) << whole.error().Text();
  EXPECT_FALSE(*whole);
  const v1::ContainerConfig app = WithHugePages(Kubelet(2000, 2000, 64 * kMi), 8 * kMi);
  const auto created = Ask(&app);
  ASSERT_TRUE(created.ok()) << created.error().Text();
  ASSERT_TRUE(*created);
  ASSERT_EQ((*created)->pod.containers.size(), 1U);
  EXPECT_EQ((*created)->pod.containers[0].name, "app");
  EXPECT_EQ(ExclusiveCpus((*created)->pod, (*created)->pod.containers[0]), 2);
  EXPECT_NE((*created)->source.find("container by container"), std::string::npos);
  EXPECT_EQ((*created)->apps, (std::set<std::string>{"app", "side"}));
  // Each container of the annotation is compared with the one that is created.
  const v1::ContainerConfig side = Kubelet(1000, 1000, 32 * kMi, "side");
  EXPECT_FALSE(Ask(&side).ok());
}

TEST_F(AnnotatedHugePages, AreNotComparedWithAnotherPodsCgroup) {
  Limit(std::to_string(12 * kMi));
  sandbox_.mutable_metadata()->set_uid("2");
  const auto whole = Ask();
  ASSERT_TRUE(whole.ok()) << whole.error().Text();
  EXPECT_FALSE(*whole);
}

}  // namespace
}  // namespace alignd::podsource
