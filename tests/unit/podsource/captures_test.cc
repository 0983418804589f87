// Requests of real kubelets, read by the sources of resources.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "edge/captured_pods.h"
#include "edge/cri_pods.h"
#include "podsource/cri_sizes.h"

namespace alignd::podsource {
namespace {

namespace v1 = runtime::v1;

namespace fs = std::filesystem;

int64_t Millis(const ResourceList& list) {
  const Quantity* cpu = Find(list, "cpu");
  return cpu == nullptr ? 0 : cpu->MilliValue();
}

void ExpectRecovered(const fs::path& path) {
  SCOPED_TRACE(path.filename());
  if (path.filename().string().find("RunPodSandbox") != std::string::npos) {
    v1::RunPodSandboxRequest request;
    ASSERT_TRUE(request.ParseFromString(testing::BytesOf(path)));
    const testing::Made* made = testing::MadeOf(request.config().metadata().name());
    ASSERT_NE(made, nullptr) << request.config().metadata().name();
    EXPECT_EQ(QosOfCgroupParent(request.config().linux().cgroup_parent()), made->qos);
    const Result<std::optional<PodAsk>> ask = PodOfSandbox(request.config());
    ASSERT_TRUE(ask.ok());
    EXPECT_FALSE(*ask);
    return;
  }
  v1::CreateContainerRequest request;
  ASSERT_TRUE(request.ParseFromString(testing::BytesOf(path)));
  const testing::Made* made = testing::MadeOf(request.sandbox_config().metadata().name());
  ASSERT_NE(made, nullptr) << request.sandbox_config().metadata().name();
  const Result<PodAsk> ask = PodOfContainer(request.sandbox_config(), request.config());
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  const Container& container = ask->pod.containers.at(0);
  const std::vector<int64_t>& sizes = made->containers.at(container.name);
  EXPECT_EQ(QosOf(ask->pod), made->qos);
  EXPECT_EQ(Millis(container.resources.requests), sizes[0]);
  EXPECT_EQ(Millis(container.resources.limits), sizes[1]);
  const Quantity* memory = Find(container.resources.limits, "memory");
  EXPECT_EQ(memory == nullptr ? 0 : memory->Value(), sizes[2] * kMi);
  EXPECT_EQ(ask->pod.uid, request.config().labels().at("io.kubernetes.pod.uid"));
}

TEST(KubeletRequests, OfTheSelectionAreUnderstood) {
  int requests = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(ALIGND_SOURCE_DIR) / "tests" / "data" / "captures")) {
    ExpectRecovered(entry.path());
    ++requests;
  }
  EXPECT_EQ(requests, 8);
}

TEST(KubeletRequests, OfAllCapturesAreUnderstood) {
  const fs::path captures = testing::AllCaptures();
  if (!fs::exists(captures)) GTEST_SKIP() << "no captures in " << captures;
  int requests = 0;
  for (const auto& entry : fs::recursive_directory_iterator(captures)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("RunPodSandbox.req.bin") && !name.ends_with("CreateContainer.req.bin")) {
      continue;
    }
    ExpectRecovered(entry.path());
    ++requests;
  }
  EXPECT_GT(requests, 60);
}

}  // namespace
}  // namespace alignd::podsource
