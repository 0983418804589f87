#include "cri/pod_from_cri.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace alignd::cri {
namespace {

namespace fs = std::filesystem;
namespace v1 = runtime::v1;

constexpr int64_t kMi = 1024 * 1024;

// --- QoS --------------------------------------------------------------------------------------

TEST(QosOfCgroupParent, ReadsBothDriversFormsAndNothingElse) {
  struct Case {
    const char* parent;
    std::optional<QosClass> qos;
  };
  const Case cases[] = {
      {"/kubepods/pod5a75262b", QosClass::kGuaranteed},
      {"/kubepods/burstable/pod5a75262b", QosClass::kBurstable},
      {"/kubepods/besteffort/pod5a75262b", QosClass::kBestEffort},
      {"/system/kubepods/burstable/pod5a75262b", QosClass::kBurstable},
      {"kubepods/pod5a75262b", QosClass::kGuaranteed},
      {"kubepods-pod5a75262b_1.slice", QosClass::kGuaranteed},
      {"kubepods-burstable-pod5a75262b_1.slice", QosClass::kBurstable},
      {"kubepods-besteffort-pod5a75262b_1.slice", QosClass::kBestEffort},
      {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice",
       QosClass::kBurstable},
      {"system-kubepods-burstable-pod1.slice", QosClass::kBurstable},
      {"system-kubepods-pod1.slice", QosClass::kGuaranteed},
      {"", std::nullopt},
      {"/", std::nullopt},
      {"/pod1", std::nullopt},
      {"/kubepods", std::nullopt},
      {"/kubepods/burstable", std::nullopt},
      {"/notkubepods/pod1", std::nullopt},
      {"/notkubepods/burstable/pod1", std::nullopt},
      {"/kubepods/other/pod1", std::nullopt},
      {"notkubepods-pod1.slice", std::nullopt},
      {"kubepods-burstable.slice", std::nullopt},
      {"user.slice", std::nullopt},
      {"/docker/0123", std::nullopt},
  };
  for (const Case& c : cases) EXPECT_EQ(QosOfCgroupParent(c.parent), c.qos) << c.parent;
}

// --- Estimates --------------------------------------------------------------------------------

v1::PodSandboxConfig Sandbox(const std::string& parent = "/kubepods/pod1") {
  v1::PodSandboxConfig sandbox;
  sandbox.mutable_metadata()->set_uid("uid");
  sandbox.mutable_metadata()->set_name("name");
  sandbox.mutable_metadata()->set_namespace_("space");
  sandbox.mutable_linux()->set_cgroup_parent(parent);
  return sandbox;
}

v1::ContainerConfig Sized(int64_t shares, int64_t quota, int64_t memory) {
  v1::ContainerConfig container;
  container.mutable_metadata()->set_name("app");
  v1::LinuxContainerResources& resources = *container.mutable_linux()->mutable_resources();
  resources.set_cpu_period(100'000);
  resources.set_cpu_shares(shares);
  resources.set_cpu_quota(quota);
  resources.set_memory_limit_in_bytes(memory);
  return container;
}

// As the kubelet sizes a container; a limit of 0 is none.
v1::ContainerConfig Kubelet(int64_t request_millis, int64_t limit_millis, int64_t memory) {
  const int64_t quota = limit_millis == 0 ? 0 : std::max<int64_t>(1000, limit_millis * 100);
  return Sized(std::max<int64_t>(2, request_millis * 1024 / 1000), quota, memory);
}

std::string Text(const ResourceList& list) {
  std::string text;
  for (const auto& [name, quantity] : list) text += name + "=" + quantity.ToString() + " ";
  return text;
}

TEST(PodOfContainer, EstimateIsExactForGuaranteedPodsOfAnySize) {
  for (int64_t millis = 10; millis <= 70'000; millis += millis < 3000 ? 1 : 997) {
    const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(millis, millis, 64 * kMi));
    ASSERT_TRUE(ask.ok());
    const Container& container = ask->pod.containers.at(0);
    ASSERT_EQ(Find(container.resources.requests, "cpu")->MilliValue(), millis);
    ASSERT_EQ(Find(container.resources.limits, "cpu")->MilliValue(), millis);
    ASSERT_EQ(ExclusiveCpus(ask->pod, container), millis % 1000 == 0 ? millis / 1000 : 0) << millis;
  }
}

TEST(PodOfContainer, RequestOfBurstablePodsComesBackFromItsShares) {
  for (int64_t millis = 3; millis <= 70'000; millis += millis < 3000 ? 1 : 997) {
    const Result<PodAsk> ask =
        PodOfContainer(Sandbox("/kubepods/burstable/pod1"), Kubelet(millis, 0, 0));
    ASSERT_TRUE(ask.ok());
    const Container& container = ask->pod.containers.at(0);
    const Quantity* request = Find(container.resources.requests, "cpu");
    ASSERT_NE(request, nullptr);
    // Several requests have the same shares; ours is one of them.
    ASSERT_EQ(request->MilliValue() * 1024 / 1000, millis * 1024 / 1000) << millis;
    ASSERT_EQ(ExclusiveCpus(ask->pod, container), 0);
  }
}

TEST(PodOfContainer, EstimateSaysWhoseItIs) {
  const Result<PodAsk> ask = PodOfContainer(Sandbox(), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->source, Source::kEstimate);
  EXPECT_EQ(ask->pod.uid, "uid");
  EXPECT_EQ(ask->pod.name, "name");
  EXPECT_EQ(ask->pod.name_space, "space");
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(ask->pod.containers[0].name, "app");
  EXPECT_EQ(Text(ask->pod.containers[0].resources.limits), "cpu=2 memory=67108864 ");
}

TEST(PodOfContainer, WhoIsInNoKubeletsCgroupGetsNoExclusiveCpus) {
  const Result<PodAsk> ask = PodOfContainer(Sandbox("/user/made"), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->pod.stated_qos, QosClass::kBurstable);
  EXPECT_EQ(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 0);
}

TEST(PodOfContainer, HugePagesHaveTheirKubernetesNames) {
  v1::ContainerConfig container = Kubelet(2000, 2000, 64 * kMi);
  const std::vector<std::pair<std::string, uint64_t>> pages = {
      {"2MB", 8 * kMi},
      {"1GB", 0},
      {"64KB", 128 * 1024},
      {"16GB", std::numeric_limits<uint64_t>::max()},
      {"MB", 1},
      {"2M", 1},
      {"2TB", 1},
      {"twoMB", 1},
      {"", 1}};
  for (const auto& [size, limit] : pages) {
    v1::HugepageLimit& page =
        *container.mutable_linux()->mutable_resources()->add_hugepage_limits();
    page.set_page_size(size);
    page.set_limit(limit);
  }
  const Result<PodAsk> ask = PodOfContainer(Sandbox(), container);
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(Text(ask->pod.containers[0].resources.requests),
            "cpu=2 hugepages-2Mi=8388608 hugepages-64Ki=131072 memory=67108864 ");
}

TEST(PodOfContainer, AbsurdNumbersAreNoTrouble) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t shares : {kMost, kLeast, int64_t{-1}, int64_t{0}}) {
    for (const int64_t quota : {kMost, kLeast, int64_t{-1}, int64_t{1}}) {
      for (const int64_t period : {kMost, kLeast, int64_t{0}, int64_t{1}}) {
        v1::ContainerConfig container = Sized(shares, quota, kLeast);
        container.mutable_linux()->mutable_resources()->set_cpu_period(period);
        const Result<PodAsk> ask = PodOfContainer(Sandbox(), container);
        ASSERT_TRUE(ask.ok());
        EXPECT_GE(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 0);
      }
    }
  }
}

// --- The annotation ---------------------------------------------------------------------------

v1::PodSandboxConfig Annotated(const std::string& text,
                               const std::string& parent = "/kubepods/pod1") {
  v1::PodSandboxConfig sandbox = Sandbox(parent);
  (*sandbox.mutable_annotations())["alignd.io/resources"] = text;
  return sandbox;
}

constexpr char kTwo[] = R"({"app":{"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":1}},)"
                        R"("side":{"limits":{"cpu":"500m","memory":"32Mi"}}})";

TEST(PodOfSandbox, AnnotationTellsTheWholePod) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(Annotated(kTwo));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  ASSERT_TRUE(*ask);
  EXPECT_EQ((*ask)->source, Source::kAnnotation);
  const Pod& pod = (*ask)->pod;
  ASSERT_EQ(pod.containers.size(), 2U);
  EXPECT_EQ(pod.containers[0].name, "app");
  EXPECT_EQ(Text(pod.containers[0].resources.requests), "cpu=2 example.com/gpu=1 memory=64Mi ");
  EXPECT_EQ(ExclusiveCpus(pod, pod.containers[0]), 2);
  EXPECT_EQ(ExclusiveCpus(pod, pod.containers[1]), 0);
}

TEST(PodOfSandbox, WithoutAnnotationNothingIsKnown) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(Sandbox());
  ASSERT_TRUE(ask.ok());
  EXPECT_FALSE(*ask);
}

TEST(PodOfContainer, AnnotatedContainerBringsTheWholePod) {
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->pod.containers.size(), 2U);
}

TEST(PodOfContainer, ContainerThatTheAnnotationDoesNotNameIsEstimated) {
  v1::ContainerConfig other = Kubelet(1000, 1000, 64 * kMi);
  other.mutable_metadata()->set_name("other");
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), other);
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->source, Source::kEstimate);
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(ask->pod.containers[0].name, "other");
}

TEST(PodOfContainer, AnnotationAgreesWithEverySizeThatTheKubeletMakes) {
  for (const int64_t millis : {1, 2, 3, 9, 10, 11, 100, 333, 500, 1000, 2000, 63'999, 300'000}) {
    const std::string text =
        R"({"app":{"limits":{"cpu":")" + std::to_string(millis) + R"(m","memory":"64Mi"}}})";
    v1::ContainerConfig container = Kubelet(millis, millis, 64 * kMi);
    v1::LinuxContainerResources& resources = *container.mutable_linux()->mutable_resources();
    resources.set_cpu_shares(std::min<int64_t>(resources.cpu_shares(), 262'144));
    const Result<PodAsk> ask = PodOfContainer(Annotated(text), container);
    EXPECT_TRUE(ask.ok()) << millis << ": " << ask.error().Text();
  }
}

TEST(PodOfContainer, ContradictionsAreRefusedWithBothSides) {
  v1::ContainerConfig paged = Kubelet(2000, 2000, 64 * kMi);
  v1::HugepageLimit& page = *paged.mutable_linux()->mutable_resources()->add_hugepage_limits();
  page.set_page_size("2MB");
  page.set_limit(8 * kMi);
  struct Case {
    const char* name;
    std::string annotation;
    v1::ContainerConfig container;
    std::vector<std::string> says;
  };
  const std::string two = R"({"app":{"limits":{"cpu":"2","memory":"64Mi"}}})";
  const std::string pages =
      R"({"app":{"limits":{"cpu":"2","memory":"64Mi","hugepages-2Mi":"4Mi"}}})";
  const Case cases[] = {
      {"less quota", two, Kubelet(2000, 1000, 64 * kMi), {"app: limits.cpu", "2000m", "1000m"}},
      {"no quota", two, Sized(2048, 0, 64 * kMi), {"limits.cpu", "2000m", "quota of 0"}},
      {"other shares", two, Kubelet(1000, 2000, 64 * kMi), {"requests.cpu", "2048", "1024"}},
      {"other memory", two, Kubelet(2000, 2000, 32 * kMi), {"memory", "67108864", "33554432"}},
      {"pages that the annotation lacks", two, paged, {"hugepages-2Mi", "is 0 bytes", "8388608"}},
      {"other pages", pages, paged, {"limits.hugepages-2Mi", "4194304", "8388608"}},
      {"pages that the container lacks",
       pages,
       Kubelet(2000, 2000, 64 * kMi),
       {"limits.hugepages-2Mi", "4194304", "with 0"}},
  };
  for (const Case& c : cases) {
    const Result<PodAsk> ask = PodOfContainer(Annotated(c.annotation), c.container);
    ASSERT_FALSE(ask.ok()) << c.name;
    EXPECT_EQ(ask.error().code, ErrorCode::kInvalidArgument);
    for (const std::string& text : c.says) {
      EXPECT_NE(ask.error().message.find(text), std::string::npos)
          << c.name << ": " << ask.error().message;
    }
  }
}

TEST(PodOfContainer, QuotaThatTheKubeletLiftedContradictsNothing) {
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), Sized(2048, -1, 64 * kMi));
  EXPECT_TRUE(ask.ok()) << ask.error().Text();
}

TEST(PodOfSandbox, QosOfTheCgroupParentMustBeTheAnnotations) {
  const Result<std::optional<PodAsk>> ask =
      PodOfSandbox(Annotated(kTwo, "/kubepods/burstable/pod1"));
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("Guaranteed"), std::string::npos);
  EXPECT_NE(ask.error().message.find("Burstable"), std::string::npos);
}

// Containers that do not exist would take CPUs that the kubelet never counted.
TEST(PodOfSandbox, PodCannotAskForMoreThanTheKubeletCounted) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  v1::LinuxContainerResources& counted = *sandbox.mutable_linux()->mutable_resources();
  counted.set_cpu_shares(2560);
  counted.set_memory_limit_in_bytes(96 * kMi);
  EXPECT_TRUE(PodOfSandbox(sandbox).ok());
  counted.set_cpu_shares(2048);
  Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("2500m (2560 shares)"), std::string::npos);
  EXPECT_NE(ask.error().message.find("2048 shares"), std::string::npos);
  counted.set_cpu_shares(2560);
  counted.set_memory_limit_in_bytes(64 * kMi);
  ask = PodOfSandbox(sandbox);
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("memory"), std::string::npos);
}

TEST(PodOfSandbox, InitContainersCountForThePeakOnly) {
  const std::string text =
      R"({"init":{"init":true,"limits":{"cpu":"3","memory":"64Mi"}},)"
      R"("side":{"init":true,"restartPolicy":"Always","limits":{"cpu":"1","memory":"64Mi"}},)"
      R"("late":{"init":true,"limits":{"cpu":"3","memory":"64Mi"}},)"
      R"("app":{"limits":{"cpu":"2","memory":"64Mi"}}})";
  v1::PodSandboxConfig sandbox = Annotated(text);
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(4096);  // side and late
  EXPECT_TRUE(PodOfSandbox(sandbox).ok());
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(4095);
  EXPECT_FALSE(PodOfSandbox(sandbox).ok());
}

TEST(PodOfSandbox, FaultsOfTheAnnotationComeWithTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "annotation alignd.io/resources"},
      {"[]", "annotation alignd.io/resources"},
      {R"({"app":{"limits":{"cpu":"two"}}})", "app.limits.cpu"},
      {R"({"app":{"limit":{"cpu":"2"}}})", "app.limit"},
  };
  for (const auto& [text, place] : cases) {
    const Result<std::optional<PodAsk>> ask = PodOfSandbox(Annotated(text));
    ASSERT_FALSE(ask.ok()) << text;
    EXPECT_NE(ask.error().message.find(place), std::string::npos) << ask.error().message;
  }
}

// --- What real kubelets send ------------------------------------------------------------------

// What the pods of the captures were made with: QoS, and by container its CPU request and limit in
// millis and its memory limit in Mi.
struct Made {
  QosClass qos;
  std::map<std::string, std::vector<int64_t>> containers;
};
const std::map<std::string, Made>& MadePods() {
  static const auto* const kMade = new std::map<std::string, Made>{
      {"guar-int", {QosClass::kGuaranteed, {{"main", {1000, 1000, 64}}}}},
      {"guar-500m", {QosClass::kGuaranteed, {{"main", {500, 500, 32}}}}},
      {"burst", {QosClass::kBurstable, {{"main", {100, 250, 128}}, {"reqonly", {50, 0, 0}}}}},
      {"beste", {QosClass::kBestEffort, {{"main", {0, 0, 0}}}}},
      {"mq-burst", {QosClass::kBurstable, {{"main", {100, 250, 128}}, {"reqonly", {50, 0, 0}}}}},
      {"huge", {QosClass::kGuaranteed, {{"main", {1000, 1000, 64}}}}},
      {"prio", {QosClass::kBestEffort, {{"main", {0, 0, 0}}}}},
      {"annot", {QosClass::kBurstable, {{"main", {10, 0, 0}}}}},
      {"crash", {QosClass::kBurstable, {{"main", {20, 0, 0}}}}},
      {"gpu", {QosClass::kBurstable, {{"main", {100, 100, 16}}, {"nogpu", {0, 0, 0}}}}},
      {"gpucrash", {QosClass::kGuaranteed, {{"main", {100, 100, 16}}}}},
      {"sidecar",
       {QosClass::kGuaranteed,
        {{"side", {100, 100, 16}}, {"once", {100, 100, 16}}, {"app", {200, 200, 32}}}}},
      {"initapp",
       {QosClass::kGuaranteed, {{"prepare", {1000, 1000, 32}}, {"app", {200, 200, 32}}}}},
      {"twosizes",
       {QosClass::kGuaranteed, {{"small", {100, 100, 16}}, {"large", {1000, 1000, 48}}}}},
      {"podlevel", {QosClass::kGuaranteed, {{"a", {1000, 1000, 100}}, {"b", {500, 500, 50}}}}},
  };
  return *kMade;
}

std::string Bytes(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

const Made* MadeOf(const std::string& pod_name) {
  const auto made = MadePods().find(pod_name.substr(0, pod_name.rfind('-')));
  return made == MadePods().end() ? nullptr : &made->second;
}

int64_t Millis(const ResourceList& list) {
  const Quantity* cpu = Find(list, "cpu");
  return cpu == nullptr ? 0 : cpu->MilliValue();
}

void ExpectRecovered(const fs::path& path) {
  SCOPED_TRACE(path.filename());
  if (path.filename().string().find("RunPodSandbox") != std::string::npos) {
    v1::RunPodSandboxRequest request;
    ASSERT_TRUE(request.ParseFromString(Bytes(path)));
    const Made* made = MadeOf(request.config().metadata().name());
    ASSERT_NE(made, nullptr) << request.config().metadata().name();
    EXPECT_EQ(QosOfCgroupParent(request.config().linux().cgroup_parent()), made->qos);
    const Result<std::optional<PodAsk>> ask = PodOfSandbox(request.config());
    ASSERT_TRUE(ask.ok());
    EXPECT_FALSE(*ask);
    return;
  }
  v1::CreateContainerRequest request;
  ASSERT_TRUE(request.ParseFromString(Bytes(path)));
  const Made* made = MadeOf(request.sandbox_config().metadata().name());
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

TEST(KubeletRequests, OfOurSelectionAreUnderstood) {
  int requests = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(ALIGND_SOURCE_DIR) / "tests" / "data" / "captures")) {
    ExpectRecovered(entry.path());
    ++requests;
  }
  EXPECT_EQ(requests, 8);
}

TEST(KubeletRequests, OfAllCapturesAreUnderstood) {
  const char* shared = std::getenv("ALIGND_SHARED");
  const fs::path captures =
      (shared != nullptr ? fs::path(shared) : fs::path(ALIGND_SOURCE_DIR) / ".." / "shared") /
      "captures";
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
}  // namespace alignd::cri
