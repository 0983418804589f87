#include "podsource/annotation_source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "edge/cri_pods.h"

namespace alignd::podsource {
namespace {

namespace v1 = runtime::v1;

constexpr char kTwo[] = R"({"app":{"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":1}},)"
                        R"("side":{"limits":{"cpu":"500m","memory":"32Mi"}}})";

TEST(AnnotationSource, AnnotationHasTheWholePod) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(Annotated(kTwo));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  ASSERT_TRUE(*ask);
  EXPECT_EQ((*ask)->source, "annotation alignd.io/resources");
  const Pod& pod = (*ask)->pod;
  ASSERT_EQ(pod.containers.size(), 2U);
  EXPECT_EQ(pod.containers[0].name, "app");
  EXPECT_EQ(Text(pod.containers[0].resources.requests), "cpu=2 example.com/gpu=1 memory=64Mi ");
  EXPECT_EQ(ExclusiveCpus(pod, pod.containers[0]), 2);
  EXPECT_EQ(ExclusiveCpus(pod, pod.containers[1]), 0);
}

TEST(AnnotationSource, WithoutAnnotationNothingIsKnown) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(Sandbox());
  ASSERT_TRUE(ask.ok());
  EXPECT_FALSE(*ask);
}

TEST(AnnotationSource, AnnotatedContainerAnswersTheWholePod) {
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->pod.containers.size(), 2U);
}

TEST(AnnotationSource, ContainerThatTheAnnotationDoesNotNameIsEstimated) {
  v1::ContainerConfig other = Kubelet(1000, 1000, 64 * kMi);
  other.mutable_metadata()->set_name("other");
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), other);
  ASSERT_TRUE(ask.ok());
  EXPECT_EQ(ask->source, "CRI estimate");
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(ask->pod.containers[0].name, "other");
}

// An ephemeral container of a pod with resources of its own looks so, and so does a container whose
// name the annotation spells wrongly. The latter must not run without what it asked for.
TEST(AnnotationSource, UnnamedContainerWithTheSizesOfItsPodIsRefused) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  const v1::ContainerConfig whole = Kubelet(2500, 2500, 96 * kMi, "debugger");
  *sandbox.mutable_linux()->mutable_resources() = whole.linux().resources();
  const Result<PodAsk> ask = PodOfContainer(sandbox, whole);
  ASSERT_FALSE(ask.ok());
  EXPECT_EQ(ask.error().remedy, "name every container of the pod in the annotation");
}

TEST(AnnotationSource, AnnotationAgreesWithAllSizesOfTheKubelet) {
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

TEST(AnnotationSource, ContradictionsAreRefusedNamingBothSides) {
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
      {"other shares", two, Kubelet(1000, 2000, 64 * kMi), {"requests.cpu", "2048", "1024"}},
      {"other memory", two, Kubelet(2000, 2000, 32 * kMi), {"memory", "67108864", "33554432"}},
      {"pages that the annotation lacks", two, paged, {"hugepages-2Mi", "is 0 bytes", "8388608"}},
      {"other pages", pages, paged, {"limits.hugepages-2Mi", "4194304", "8388608"}},
      {"pages that the container lacks",
       pages,
       Kubelet(2000, 2000, 64 * kMi),
       {"limits.hugepages-2Mi", "4194304", "says 0"}},
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

// cpuCFSQuota: false.
TEST(AnnotationSource, GuaranteedPodsWithoutQuotaAreComparedByTheirShares) {
  const std::string two = R"({"app":{"limits":{"cpu":"2","memory":"64Mi"}}})";
  Result<PodAsk> ask = PodOfContainer(Annotated(two), Sized(2048, 0, 64 * kMi));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 2);
  EXPECT_FALSE(PodOfContainer(Annotated(two), Sized(1024, 0, 64 * kMi)).ok());
  // In a Burstable pod, nothing shows the limit.
  const std::string burst =
      R"({"app":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"1","memory":"64Mi"}}})";
  ask = PodOfContainer(Annotated(burst, "/kubepods/burstable/pod1"), Sized(1024, 0, 64 * kMi));
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("quota of 0"), std::string::npos);
}

TEST(AnnotationSource, QuotaThatTheKubeletLiftedContradictsNothing) {
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), Sized(2048, -1, 64 * kMi));
  EXPECT_TRUE(ask.ok()) << ask.error().Text();
}

TEST(AnnotationSource, QosOfTheCgroupParentMustMatchTheAnnotation) {
  const Result<std::optional<PodAsk>> ask =
      PodOfSandbox(Annotated(kTwo, "/kubepods/burstable/pod1"));
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("Guaranteed"), std::string::npos);
  EXPECT_NE(ask.error().message.find("Burstable"), std::string::npos);
}

// Containers that do not exist would get CPUs that the kubelet never allocated.
TEST(AnnotationSource, PodCannotRequestMoreThanTheKubeletAllocated) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  v1::LinuxContainerResources& shown = *sandbox.mutable_linux()->mutable_resources();
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(96 * kMi);
  EXPECT_TRUE(PodOfSandbox(sandbox).ok());
  shown.set_cpu_shares(2048);
  Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("2500m (2560 shares)"), std::string::npos);
  EXPECT_NE(ask.error().message.find("2048 shares"), std::string::npos);
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(64 * kMi);
  ask = PodOfSandbox(sandbox);
  ASSERT_FALSE(ask.ok());
  EXPECT_NE(ask.error().message.find("memory"), std::string::npos);
}

TEST(AnnotationSource, InitContainersAddToThePeakOnly) {
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

TEST(AnnotationSource, FaultsOfTheAnnotationNameTheirPlace) {
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

// --- Other tools' annotations -----------------------------------------------------------------

constexpr char kIntel[] = "intel.com/resources";
constexpr char kKoordinator[] = "node.koordinator.sh/extended-resource-spec";

TEST(AnnotationSource, IntelAnnotationHasTheWholePod) {
  const v1::PodSandboxConfig sandbox = Annotated(
      R"({"initContainers":{"prepare":{"limits":{"cpu":"1","memory":"32Mi"}}},"containers":)"
      R"({"app":{"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":"1"}}}})",
      "/kubepods/pod1", kIntel);
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  ASSERT_TRUE(*ask);
  EXPECT_EQ((*ask)->source, "annotation intel.com/resources");
  ASSERT_EQ((*ask)->pod.containers.size(), 2U);
  EXPECT_EQ((*ask)->pod.containers[0].kind, ContainerKind::kInit);
  const Result<PodAsk> other = PodOfContainer(sandbox, Kubelet(2000, 1000, 64 * kMi));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("annotation intel.com/resources: app: limits.cpu"),
            std::string::npos)
      << other.error().message;
}

// --- intel.com/resources does not distinguish sidecars from init containers.

struct Asked {
  const char* name;
  int cpus;
};
v1::PodSandboxConfig IntelPod(const std::vector<Asked>& init, int app_cpus, int shown_cpus) {
  std::string text = R"({"initContainers":{)";
  for (const auto& [name, cpus] : init) {
    text += (text.ends_with("{") ? "\"" : ",\"") + std::string(name) + R"(":{"limits":{"cpu":")" +
            std::to_string(cpus) + R"(","memory":"64Mi"}})";
  }
  text += R"(},"containers":{"app":{"limits":{"cpu":")" + std::to_string(app_cpus) +
          R"(","memory":"64Mi"}}}})";
  v1::PodSandboxConfig sandbox = Annotated(text, "/kubepods/pod1", kIntel);
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(shown_cpus * 1024);
  return sandbox;
}

std::string Sidecars(const v1::PodSandboxConfig& sandbox) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  if (!ask.ok()) return ask.error().Text();
  std::string names;
  for (const Container& container : (*ask)->pod.containers) {
    if (container.kind == ContainerKind::kSidecar) names += container.name + " ";
  }
  return names;
}

TEST(AnnotationSource, IntelSidecarsAreFoundByTheKubeletsAllocation) {
  EXPECT_EQ(Sidecars(IntelPod({{"first", 1}}, 2, 2)), "");
  EXPECT_EQ(Sidecars(IntelPod({{"first", 1}}, 2, 3)), "first ");
  EXPECT_EQ(Sidecars(IntelPod({{"a", 1}, {"b", 1}}, 2, 2)), "");
  EXPECT_EQ(Sidecars(IntelPod({{"a", 1}, {"b", 1}}, 2, 4)), "a b ");
  EXPECT_EQ(Sidecars(IntelPod({{"a", 4}, {"b", 3}}, 2, 4)), "");
  // It may be a sidecar, and then needs no more.
  EXPECT_EQ(Sidecars(IntelPod({{"big", 4}, {"small", 1}}, 2, 4)), "small ");
  EXPECT_EQ(Sidecars(IntelPod({{"a", 1}}, 2, 0)), "");  // a kubelet before sidecars
}

// The annotation has no order: a sidecar is the first one if that needs no more than is allocated.
TEST(AnnotationSource, IntelSidecarsAreBeforeInitContainersIfTheAllocationIsEnough) {
  const auto order = [](int shown_cpus) {
    const Result<std::optional<PodAsk>> ask =
        PodOfSandbox(IntelPod({{"a-init", 3}, {"sidecar", 1}}, 2, shown_cpus));
    EXPECT_TRUE(ask.ok() && *ask) << shown_cpus;
    std::string names;
    for (const Container& container : (*ask)->pod.containers) names += container.name + " ";
    return names;
  };
  EXPECT_EQ(order(3), "a-init sidecar app ");
  EXPECT_EQ(order(4), "sidecar a-init app ");
}

std::string OrderIn(const v1::PodSandboxConfig& sandbox) {
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  if (!ask.ok() || !*ask) return ask.ok() ? "not known" : ask.error().Text();
  std::string names;
  for (const Container& container : (*ask)->pod.containers) names += container.name + " ";
  return names;
}

// Not all of them at once.
TEST(AnnotationSource, EachIntelSidecarIsBeforeAsManyInitContainersAsTheAllocationIsEnoughFor) {
  EXPECT_EQ(OrderIn(IntelPod({{"a", 1}, {"init", 5}, {"z", 1}}, 2, 6)), "a init z app ");
  EXPECT_EQ(OrderIn(IntelPod({{"a", 1}, {"init", 4}, {"z", 1}}, 3, 6)), "a z init app ");
  EXPECT_EQ(OrderIn(IntelPod({{"big", 5}, {"init", 4}, {"side", 1}}, 2, 5)), "big side init app ");
}

// How many devices were allocated is not in the sandbox's sizes.
TEST(AnnotationSource, IntelSidecarsAreNotBeforeInitContainersIfThatTakesMoreDevices) {
  const auto order = [](const std::string& of_side) {
    v1::PodSandboxConfig sandbox = Annotated(
        R"({"initContainers":{"init":{"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":"2"}},)"
        R"("side":{"limits":{"cpu":"1","memory":"64Mi")" +
            of_side +
            R"(}}},"containers":{"app":{"limits":{"cpu":"2","memory":"64Mi","example.com/gpu":"1"}}}})",
        "/kubepods/pod1", kIntel);
    sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(3 * 1024);
    return OrderIn(sandbox);
  };
  EXPECT_EQ(order(""), "side init app ");
  EXPECT_EQ(order(R"(,"example.com/gpu":"1")"), "init side app ");
}

TEST(AnnotationSource, IntelAnnotationWithOneSidecarOfSeveralIsRefused) {
  const std::string text = Sidecars(IntelPod({{"a", 1}, {"b", 1}}, 2, 3));
  EXPECT_NE(text.find("which of the init containers a, b are sidecars"), std::string::npos) << text;
  EXPECT_NE(text.find("alignd.io/resources"), std::string::npos) << text;
}

TEST(AnnotationSource, KoordinatorAnnotationAddsExtendedResourcesToTheEstimate) {
  const v1::PodSandboxConfig sandbox =
      Annotated(R"({"containers":{"app":{"limits":{"example.com/gpu":"2"}}}})", "/kubepods/pod1",
                kKoordinator);
  const Result<std::optional<PodAsk>> before = PodOfSandbox(sandbox);
  ASSERT_TRUE(before.ok());
  EXPECT_FALSE(*before);
  const Result<PodAsk> ask = PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->source, "annotation node.koordinator.sh/extended-resource-spec and CRI estimate");
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(Text(ask->pod.containers[0].resources.requests),
            "cpu=2 example.com/gpu=2 memory=64Mi ");
  EXPECT_EQ(PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi, "other"))->source,
            "CRI estimate");
}

TEST(AnnotationSource, KoordinatorAnnotationHasTheWholeBestEffortPod) {
  const v1::PodSandboxConfig sandbox =
      Annotated(R"({"containers":{"a":{"limits":{"example.com/gpu":"2"}},)"
                R"("b":{"limits":{"example.com/gpu":"1"}}}})",
                "/kubepods/besteffort/pod1", kKoordinator);
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  ASSERT_TRUE(*ask);
  EXPECT_EQ((*ask)->pod.containers.size(), 2U);
  EXPECT_EQ(PodOfContainer(sandbox, Kubelet(0, 0, 0, "b"))->pod.containers.size(), 2U);
}

TEST(AnnotationSource, FaultsInAnnotationsOfOtherToolsRefuseTheContainer) {
  for (const char* const key : {kIntel, kKoordinator}) {
    const Result<PodAsk> ask =
        PodOfContainer(Annotated(R"({"containers":{"app":{"limits":{"example.com/gpu":"x"}}}})",
                                 "/kubepods/pod1", key),
                       Kubelet(2000, 2000, 64 * kMi));
    ASSERT_FALSE(ask.ok()) << key;
    EXPECT_NE(ask.error().message.find("annotation " + std::string(key) +
                                       ": containers.app.limits.example.com/gpu"),
              std::string::npos)
        << ask.error().message;
  }
}

TEST(AnnotationSource, OwnAnnotationGoesBeforeOthers) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  (*sandbox.mutable_annotations())[kIntel] = "not read";
  (*sandbox.mutable_annotations())[kKoordinator] = "not read";
  const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ((*ask)->source, "annotation alignd.io/resources");
}

// --- The option to ignore extended resources
// --------------------------------------------------------------------

TEST(AnnotationSource, ExtendedResourcesCanBeSwitchedOff) {
  const auto source = AnnotationsAndEstimate({.extended_resources = false});
  const Result<std::optional<PodAsk>> ours = AskFor(*source, Annotated(kTwo));
  ASSERT_TRUE(ours.ok() && *ours);
  EXPECT_EQ((*ours)->source, "annotation alignd.io/resources without extended resources");
  EXPECT_EQ(Text((*ours)->pod.containers[0].resources.limits), "cpu=2 memory=64Mi ");
  const v1::ContainerConfig app = Kubelet(2000, 2000, 64 * kMi);
  const Result<std::optional<PodAsk>> koordinators =
      AskFor(*source,
             Annotated(R"({"containers":{"app":{"limits":{"example.com/gpu":"2"}}}})",
                       "/kubepods/pod1", kKoordinator),
             &app);
  ASSERT_TRUE(koordinators.ok() && *koordinators);
  EXPECT_EQ((*koordinators)->source, "CRI estimate");
}

// --- Pods whose cgroup parent shows no QoS class ------------------------------------------------

// A resize does not change it.
TEST(AnnotationSource, ContainerThatIsStartedAgainHasTheSizesOfCri) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  v1::ContainerConfig container = Kubelet(4000, 4000, 128 * kMi);
  EXPECT_EQ(PodOfContainer(sandbox, container).error().code, ErrorCode::kInvalidArgument);
  container.mutable_metadata()->set_attempt(1);
  for (const bool again : {false, true}) {
    if (again) {
      container.mutable_metadata()->set_attempt(0);
      sandbox.mutable_metadata()->set_attempt(1);
    }
    const Result<PodAsk> ask = PodOfContainer(sandbox, container);
    ASSERT_TRUE(ask.ok()) << ask.error().Text();
    EXPECT_TRUE(ask->source.starts_with(
        "annotation alignd.io/resources, cpu and memory from CRI (annotation alignd.io/resources: "
        "app: limits.cpu is 2000m"))
        << ask->source;
    ASSERT_EQ(ask->pod.containers.size(), 1U);
    EXPECT_FALSE(ask->pod.is_complete);
    const Resources& resources = ask->pod.containers[0].resources;
    for (const ResourceList& list : {resources.requests, resources.limits}) {
      EXPECT_EQ(list.at("cpu").Value(), 4);
      EXPECT_EQ(list.at("memory").Value(), 128 * kMi);
      EXPECT_EQ(list.at("example.com/gpu").Value(), 1);
    }
  }
  // Not if it agrees, nor outside of the kubelet's cgroups.
  EXPECT_EQ(PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi))->pod.containers.size(), 2U);
  sandbox.mutable_linux()->set_cgroup_parent("/other");
  EXPECT_FALSE(PodOfContainer(sandbox, container).ok());
}

TEST(AnnotationSource, PodThatWasMadeSmallerIsDecidedWithItsContainers) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(1536);
  EXPECT_FALSE(PodOfSandbox(sandbox).ok());
  sandbox.mutable_metadata()->set_attempt(1);
  const Result<std::optional<PodAsk>> pod = PodOfSandbox(sandbox);
  ASSERT_TRUE(pod.ok()) << pod.error().Text();
  EXPECT_FALSE(*pod);
  const Result<PodAsk> app = PodOfContainer(sandbox, Kubelet(1000, 1000, 64 * kMi));
  ASSERT_TRUE(app.ok()) << app.error().Text();
  EXPECT_EQ(ExclusiveCpus(app->pod, app->pod.containers.at(0)), 1);
}

// Before the containers, nothing shows which of them are larger now.
TEST(AnnotationSource, PodThatWasMadeLargerIsDecidedWithItsContainers) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  v1::LinuxContainerResources& shown = *sandbox.mutable_linux()->mutable_resources();
  const auto is_known = [&](uint32_t attempt) {
    sandbox.mutable_metadata()->set_attempt(attempt);
    const Result<std::optional<PodAsk>> ask = PodOfSandbox(sandbox);
    EXPECT_TRUE(ask.ok()) << ask.error().Text();
    return ask.ok() && ask->has_value();
  };
  EXPECT_TRUE(is_known(1)) << "an older kubelet shows nothing";
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(96 * kMi);
  EXPECT_TRUE(is_known(1));
  shown.set_cpu_shares(4608);
  EXPECT_FALSE(is_known(1));
  EXPECT_TRUE(is_known(0));
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(96 * kMi + 1);
  EXPECT_FALSE(is_known(1));
  EXPECT_TRUE(is_known(0));
}

// Its author may have changed what CRI does not show.
TEST(AnnotationSource, MemoryRequestOfAResizedContainerIsTheAnnotations) {
  const std::string text = R"({"app":{"requests":{"cpu":"1","memory":"32Mi"}}})";
  v1::ContainerConfig container = Kubelet(2000, 0, 0);
  container.mutable_metadata()->set_attempt(1);
  const Result<PodAsk> burstable =
      PodOfContainer(Annotated(text, "/kubepods/burstable/pod1"), container);
  ASSERT_TRUE(burstable.ok()) << burstable.error().Text();
  EXPECT_TRUE(burstable->is_estimate);
  EXPECT_TRUE(burstable->is_annotated);
  EXPECT_EQ(burstable->pod.containers.at(0).resources.requests.at("memory").Value(), 32 * kMi);
  // CRI shows all sizes of Guaranteed pods.
  v1::ContainerConfig guaranteed = Kubelet(4000, 4000, 64 * kMi);
  guaranteed.mutable_metadata()->set_attempt(1);
  const Result<PodAsk> ask = PodOfContainer(Annotated(kTwo), guaranteed);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_FALSE(ask->is_annotated);
}

TEST(AnnotationSource, EphemeralContainerOfAResizedPodRunsInThePool) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(1536);
  const v1::ContainerConfig debugger = Kubelet(0, 0, 0, "debugger");
  EXPECT_FALSE(PodOfContainer(sandbox, debugger).ok());
  sandbox.mutable_metadata()->set_attempt(1);
  const Result<PodAsk> ask = PodOfContainer(sandbox, debugger);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->source, "annotation alignd.io/resources, which does not name the container");
  EXPECT_TRUE(ask->pod.containers.at(0).resources.requests.empty());
  EXPECT_FALSE(PodOfContainer(sandbox, Kubelet(1000, 1000, 64 * kMi, "other")).ok());
}

TEST(AnnotationSource, IntelSidecarsOfAResizedPodAreNotGuessed) {
  v1::PodSandboxConfig sandbox = IntelPod({{"a", 1}, {"b", 1}}, 2, 3);
  const v1::ContainerConfig container = Kubelet(1000, 1000, 64 * kMi, "a");
  EXPECT_FALSE(PodOfContainer(sandbox, container).ok());
  sandbox.mutable_metadata()->set_attempt(1);
  const Result<PodAsk> ask = PodOfContainer(sandbox, container);
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  EXPECT_EQ(ask->pod.containers[0].kind, ContainerKind::kApp);
  EXPECT_FALSE(ask->pod.is_complete);
}

// Its own sizes agree, and no size of the sandbox says that its pod was not resized: the sum of
// other sizes can be the same.
TEST(AnnotationSource, IntelSidecarThatIsStartedAgainIsNoInitContainer) {
  for (int shown = 0; shown <= 4; ++shown) {
    SCOPED_TRACE(shown);
    v1::PodSandboxConfig sandbox = IntelPod({{"side", 1}}, 2, shown);
    v1::ContainerConfig side = Kubelet(1000, 1000, 64 * kMi, "side");
    side.mutable_metadata()->set_attempt(1);
    Result<PodAsk> ask = PodOfContainer(sandbox, side);
    ASSERT_TRUE(ask.ok()) << ask.error().Text();
    ASSERT_EQ(ask->pod.containers.size(), 1U);
    EXPECT_EQ(ask->pod.containers[0].kind, ContainerKind::kApp);
    EXPECT_FALSE(ask->pod.is_complete);
    EXPECT_EQ(ExclusiveCpus(ask->pod, ask->pod.containers[0]), 1);
    sandbox.mutable_metadata()->set_attempt(1);
    const Result<std::optional<PodAsk>> before = PodOfSandbox(sandbox);
    ASSERT_TRUE(before.ok()) << before.error().Text();
    EXPECT_FALSE(*before);
  }
}

TEST(AnnotationSource, IntelPodWithoutInitContainersThatIsStartedAgainIsKnownAsAWhole) {
  v1::PodSandboxConfig sandbox = IntelPod({}, 2, 2);
  sandbox.mutable_metadata()->set_attempt(1);
  const Result<std::optional<PodAsk>> before = PodOfSandbox(sandbox);
  ASSERT_TRUE(before.ok()) << before.error().Text();
  EXPECT_TRUE(*before);
  const Result<PodAsk> app = PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi));
  ASSERT_TRUE(app.ok()) << app.error().Text();
  EXPECT_TRUE(app->pod.is_complete);
}

// For example a sidecar that a service mesh has injected.
TEST(AnnotationSource, IntelPodThatIsStartedAgainMayHaveAnUnnamedContainer) {
  v1::PodSandboxConfig sandbox = IntelPod({{"side", 1}}, 2, 4);
  sandbox.mutable_metadata()->set_attempt(1);
  const Result<PodAsk> ask = PodOfContainer(sandbox, Kubelet(1000, 1000, 64 * kMi, "mesh"));
  ASSERT_TRUE(ask.ok()) << ask.error().Text();
  EXPECT_EQ(ask->source, "CRI estimate");
}

// The other container has become larger, which its own CreateContainer shows later.
TEST(AnnotationSource, ContainerThatAgreesIsKnownAloneIfItsPodWasMadeLarger) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo);
  sandbox.mutable_metadata()->set_attempt(1);
  v1::LinuxContainerResources& shown = *sandbox.mutable_linux()->mutable_resources();
  const auto containers = [&] {
    const Result<PodAsk> ask = PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi));
    EXPECT_TRUE(ask.ok()) << ask.error().Text();
    return ask.ok() ? ask->pod.containers.size() : 0;
  };
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(96 * kMi);
  EXPECT_EQ(containers(), 2U);
  shown.set_cpu_shares(4608);
  EXPECT_EQ(containers(), 1U);
  shown.set_cpu_shares(2560);
  shown.set_memory_limit_in_bytes(128 * kMi);
  EXPECT_EQ(containers(), 1U);
  sandbox.mutable_metadata()->set_attempt(0);
  EXPECT_EQ(containers(), 2U) << "a container that the annotation does not name may add to it";
}

TEST(AnnotationSource, WithoutAQosClassItMustNotContradictTheContainersSizes) {
  const v1::PodSandboxConfig sandbox = Annotated(kTwo, "/elsewhere");
  EXPECT_TRUE(PodOfContainer(sandbox, Kubelet(2000, 2000, 64 * kMi)).ok());
  const Result<PodAsk> burstable = PodOfContainer(sandbox, Kubelet(100, 0, 0));
  ASSERT_FALSE(burstable.ok());
  EXPECT_EQ(burstable.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(PodOfContainer(sandbox, Kubelet(2000, 2000, 32 * kMi)).ok());
  // A client that sends no sizes relies on the annotation.
  const Result<PodAsk> unsized = PodOfContainer(sandbox, Sized(0, 0, 0));
  ASSERT_TRUE(unsized.ok()) << unsized.error().Text();
  EXPECT_EQ(ExclusiveCpus(unsized->pod, unsized->pod.containers[0]), 2);
}

TEST(AnnotationSource, WithoutAQosClassItMustNotExceedTheSandbox) {
  v1::PodSandboxConfig sandbox = Annotated(kTwo, "/elsewhere");
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(2560);
  EXPECT_TRUE(PodOfSandbox(sandbox).ok());
  sandbox.mutable_linux()->mutable_resources()->set_cpu_shares(2559);
  EXPECT_FALSE(PodOfSandbox(sandbox).ok());
}

}  // namespace
}  // namespace alignd::podsource
