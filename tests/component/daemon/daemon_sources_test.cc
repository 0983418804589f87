// The sources of a pod's resource requests: Pods API, annotations, CRI.
#include <gtest/gtest.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "podsource/pods_api_source.h"
#include "simulator/kubelet_command.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

class DaemonSourcesTest : public DaemonTest {
 protected:
  void StartPodsApi() {
    auto api = simulator::PodsApi::Start(PodsApiEndpoint());
    ASSERT_TRUE(api.ok()) << api.error().Text();
    api_ = *std::move(api);
  }

  // Of the pod's last decision.
  std::string SourceOf(const std::string& pod) const {
    const control::ControlClient client(DaemonOptions().ControlSocket());
    const auto explained = client.Explain(pod, 1);
    if (!explained.ok()) return explained.error().Text();
    return explained->decisions().empty() ? "none" : explained->decisions(0).source();
  }

  std::unique_ptr<simulator::PodsApi> api_;
};

// What is logged as long as it exists.
class LogOf {
 public:
  LogOf() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("", lines_));
  }
  LogOf(const LogOf&) = delete;
  LogOf& operator=(const LogOf&) = delete;
  ~LogOf() { spdlog::set_default_logger(before_); }

  std::string text() const {
    std::string all;
    for (const std::string& line : lines_->last_formatted()) all += line;
    return all;
  }
  int Count(const std::string& part) const {
    int count = 0;
    for (const std::string& line : lines_->last_formatted()) {
      count += line.find(part) == std::string::npos ? 0 : 1;
    }
    return count;
  }

 private:
  const std::shared_ptr<spdlog::logger> before_;
  const std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
};

const std::map<std::string, std::string> kTwo = {{"cpu", "2"}, {"memory", "100Mi"}};
const std::map<std::string, std::string> kGpuAndThree = {
    {"cpu", "3"}, {"memory", "100Mi"}, {kGpu, "1"}};

// --- The kubelet's Pods API -------------------------------------------------------------------

TEST_F(DaemonSourcesTest, PodsApiShowsTheWholePodBeforeItsSandboxIsCreated) {
  Start();
  StartGpus();
  StartPodsApi();
  api_->SetPod(MakePod("whole", {Init("prepare", kTwo), App("app", kGpuAndThree)}));
  const v1::PodSandboxConfig pod = PodConfig("whole");
  const std::string sandbox = Run(pod);
  // The init container's CPUs are reused by the app container, whose CPUs are on the GPU's NUMA
  // node.
  EXPECT_NE(State().find(R"("whole":{"app":"1-3","prepare":"1-2"})"), std::string::npos) << State();
  EXPECT_EQ(SourceOf("pod-whole"), "kubelet's Pods API");
  const auto prepare = Create(sandbox, pod, Pinned(2, "prepare"));
  ASSERT_TRUE(prepare.status.ok()) << prepare.status.error_message();
  EXPECT_EQ(CpusOf(prepare.response.container_id()), "1-2");
  const auto app = Create(sandbox, pod, Pinned(3, "app"));
  ASSERT_TRUE(app.status.ok()) << app.status.error_message();
  EXPECT_EQ(CpusOf(app.response.container_id()), "1-3");
  EXPECT_EQ(runtime_->FindContainer(app.response.container_id())->config.devices_size(), 1);
  EXPECT_EQ(api_->asked(), std::vector<std::string>{"whole"});  // once, not per container
}

TEST_F(DaemonSourcesTest, PodsApiIsUsedFromWhenItAppears) {
  Start();
  const Running before = RunOne(PodConfig("before"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-before"), "CRI estimate");
  StartPodsApi();
  api_->SetPod(MakePod("after", {App("app", kTwo)}));
  const Running after = RunOne(PodConfig("after"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-after"), "kubelet's Pods API");
  api_.reset();
  RunOne(PodConfig("later"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-later"), "CRI estimate");
  EXPECT_EQ(CpusOf(after.container), "3-4");
}

TEST_F(DaemonSourcesTest, SimulatedKubeletServesThePodsApiWhileItRunsPods) {
  Start();
  tree_.Write({"pod.yaml",
               "apiVersion: v1\nkind: Pod\n"
               "metadata: {name: web, namespace: default, uid: web}\n"
               "spec:\n  initContainers:\n"
               "  - {name: side, image: i, restartPolicy: Always,"
               " resources: {limits: {cpu: 1, memory: 1Mi}}}\n"
               "  containers:\n"
               "  - {name: app, image: i, resources: {limits: {cpu: 2, memory: 1Mi}}}\n"});
  CLI::App app("alignsim");
  simulator::Action action;
  simulator::AddKubeletCommand(app, action);
  std::vector<std::string> arguments = {"kubelet",
                                        "--cri",
                                        DaemonOptions().listen,
                                        "run",
                                        "--no-annotation",
                                        "--pods-api",
                                        PodsApiEndpoint(),
                                        (tree_.root() / "pod.yaml").string()};
  std::ranges::reverse(arguments);
  app.parse(arguments);
  std::ostringstream out;
  const Result<Done> ran = action(out);
  ASSERT_TRUE(ran.ok()) << ran.error().Text() << out.str();
  EXPECT_EQ(SourceOf("web"), "kubelet's Pods API");
  EXPECT_TRUE(Eventually([&] {
    return State().find(R"("web":{"app":"2-3","side":"1"})") != std::string::npos;
  })) << State();
}

// UpdateContainerResources knows the pod's UID only.
TEST_F(DaemonSourcesTest, AnUpdateHasTheSizesOfCri) {
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", kGpuAndThree)}));
  podsource::PodsApiSource::Options options;
  options.endpoint = PodsApiEndpoint();
  options.timeout = kPatience;
  const auto source = podsource::PodsApiSource::Make(options);
  ASSERT_TRUE(source.ok()) << source.error().Text();
  const auto sandbox = std::make_shared<v1::PodSandboxConfig>();
  sandbox->mutable_metadata()->set_uid("p");
  sandbox->mutable_linux()->set_cgroup_parent("/kubepods/podp");
  std::promise<std::optional<podsource::PodAsk>> known;
  (*source)->Ask({sandbox, std::make_shared<v1::ContainerConfig>(Pinned(4))},
                 [&](const auto& answer) {
                   known.set_value(answer.ok() ? *answer : std::optional<podsource::PodAsk>());
                 });
  const std::optional<podsource::PodAsk> ask = known.get_future().get();
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask->pod.name_space + "/" + ask->pod.name, "default/p");
  EXPECT_EQ(ask->source,
            "kubelet's Pods API, cpu and memory from CRI (kubelet's Pods API: app: limits.cpu is "
            "3000m (quota 300000), but CRI says a quota of 400000 (4000m))");
  ASSERT_EQ(ask->pod.containers.size(), 1U);
  const ResourceList& requests = ask->pod.containers[0].resources.requests;
  EXPECT_EQ(requests.at("cpu").Value(), 4);
  EXPECT_EQ(requests.at(kGpu).Value(), 1);
  ASSERT_EQ(ask->spec.size(), 1U);
  EXPECT_EQ(ask->spec[0].resources.requests.at("cpu").Value(), 3);
}

// Before the containers, nothing shows what they are allocated.
TEST_F(DaemonSourcesTest, PodWithAPendingResizeIsDecidedWithItsContainers) {
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("app", kTwo)}));
  podsource::PodsApiSource::Options options;
  options.endpoint = PodsApiEndpoint();
  options.timeout = kPatience;
  const auto source = podsource::PodsApiSource::Make(options);
  ASSERT_TRUE(source.ok()) << source.error().Text();
  const auto sandbox = std::make_shared<v1::PodSandboxConfig>(PodConfig("p"));
  const LogOf log;
  int failures = 0;
  for (const int64_t shares : {1024, 2048, 4096}) {  // to more, none, to less
    sandbox->mutable_linux()->mutable_resources()->set_cpu_shares(shares);
    std::promise<bool> failed;
    (*source)->Ask({sandbox, nullptr}, [&](const auto& answer) { failed.set_value(!answer.ok()); });
    const bool has_failed = failed.get_future().get();
    EXPECT_EQ(has_failed, shares != 2048) << shares;
    failures += has_failed ? 1 : 0;
    EXPECT_EQ(log.Count("pod default/p (p): kubelet's Pods API: the pod's requests.cpu are 2000m"),
              failures)
        << log.text();
  }
}

// A kubelet that starts, before it has seen all sources of pods.
TEST_F(DaemonSourcesTest, PodsApiThatIsNotReadyDelaysNothingAndIsAskedForTheNextContainer) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("static", {App("a", kTwo), App("b", kTwo)}));
  api_->SetPod(MakePod("other", {App("app", kTwo)}));
  api_->SetStage(simulator::PodsApi::Stage::kNotReady);
  const LogOf log;
  const v1::PodSandboxConfig pod = PodConfig("static");
  const std::string sandbox = Run(pod);
  const auto first = Create(sandbox, pod, Pinned(2, "a"));
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(CpusOf(first.response.container_id()), "1-2");
  EXPECT_EQ(SourceOf("pod-static"),
            "CRI estimate (kubelet's Pods API: is not ready: kubelet is not ready)");
  RunOne(PodConfig("other"), Pinned(2));
  api_->SetStage(simulator::PodsApi::Stage::kReady);
  const auto second = Create(sandbox, pod, Pinned(2, "b"));
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(SourceOf("pod-static"), "kubelet's Pods API");
  EXPECT_EQ(CpusOf(first.response.container_id()), "1-2");
  EXPECT_EQ(CpusOf(second.response.container_id()), "5-6");
  EXPECT_EQ(api_->asked(),
            (std::vector<std::string>{"static", "static", "other", "other", "static"}));
  EXPECT_EQ(log.Count("Pods API is not ready: kubelet is not ready"), 1);  // not for each pod
  EXPECT_EQ(log.Count("Pods API is ready"), 1);
  EXPECT_EQ(log.Count("warning"), 0) << log.text();
}

// The kubelet serves the socket all the same.
TEST_F(DaemonSourcesTest, PodsApiWithItsFeatureGateOffIsLeftAloneUntilItsSocketIsMadeAnew) {
  Start();
  StartPodsApi();
  api_->SetStage(simulator::PodsApi::Stage::kGateIsOff);
  const LogOf log;
  RunOne(PodConfig("first"), Pinned(2));
  RunOne(PodConfig("second"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-second"), "CRI estimate");
  EXPECT_EQ(api_->asked(), std::vector<std::string>{"first"});
  EXPECT_EQ(log.Count("feature gate PodsAPI of the kubelet is off"), 1);
  EXPECT_EQ(log.Count("warning"), 0) << log.text();
  api_.reset();
  StartPodsApi();
  api_->SetPod(MakePod("third", {App("app", kTwo)}));
  RunOne(PodConfig("third"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-third"), "kubelet's Pods API");
}

TEST_F(DaemonSourcesTest, CallsBeyondTheRateLimitOfThePodsApiAreRepeated) {
  constexpr int kPods = 40;  // the kubelet allows a burst of 10
  StartPodsApi();
  api_->LimitRate();
  for (int pod = 0; pod < kPods; ++pod) {
    api_->SetPod(MakePod("p" + std::to_string(pod), {App("app", kTwo)}));
  }
  podsource::PodsApiSource::Options options;
  options.endpoint = PodsApiEndpoint();
  options.timeout = kPatience;
  options.repeat_for = kPatience;
  const auto source = podsource::PodsApiSource::Make(options);
  ASSERT_TRUE(source.ok()) << source.error().Text();
  std::vector<std::promise<bool>> known(kPods);
  for (std::size_t pod = 0; pod < known.size(); ++pod) {
    (*source)->Ask(
        {std::make_shared<v1::PodSandboxConfig>(PodConfig("p" + std::to_string(pod))), nullptr},
        [&, pod](const auto& answer) { known[pod].set_value(answer.ok() && *answer); });
  }
  for (std::promise<bool>& pod : known) EXPECT_TRUE(pod.get_future().get());
}

TEST_F(DaemonSourcesTest, CallIsRepeatedUntilItIsAllowedOrTheSourceEnds) {
  StartPodsApi();
  api_->SetFailure({grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"});
  podsource::PodsApiSource::Options options;
  options.endpoint = PodsApiEndpoint();
  options.timeout = kPatience;
  options.repeat_for = 10 * kPatience;
  auto source = podsource::PodsApiSource::Make(options);
  ASSERT_TRUE(source.ok()) << source.error().Text();
  api_->SetPod(MakePod("p", {App("app", kTwo)}));
  const auto ask = [&](std::promise<bool>& known) {
    (*source)->Ask({std::make_shared<v1::PodSandboxConfig>(PodConfig("p")), nullptr},
                   [&](const auto& answer) { known.set_value(answer.ok() && *answer); });
  };
  std::promise<bool> known;
  ask(known);
  ASSERT_TRUE(Eventually([&] { return api_->asked().size() > 2; }));
  api_->SetFailure(grpc::Status::OK);
  EXPECT_TRUE(known.get_future().get());
  api_->SetFailure({grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"});
  const size_t before = api_->asked().size();
  std::promise<bool> ended;
  ask(ended);
  ASSERT_TRUE(Eventually([&] { return api_->asked().size() > before + 2; }));
  source->reset();
  EXPECT_FALSE(ended.get_future().get());
}

// Repeated, an answer that is too large would be sent 40 times.
TEST_F(DaemonSourcesTest, CallThatIsExhaustedForAnotherReasonIsNotRepeated) {
  StartPodsApi();
  podsource::PodsApiSource::Options options;
  options.endpoint = PodsApiEndpoint();
  options.timeout = kPatience;
  auto source = podsource::PodsApiSource::Make(options);
  ASSERT_TRUE(source.ok()) << source.error().Text();
  for (const char* const text : {"received message larger than max (5 vs. 4)",
                                 "the 5 bytes have so many parts", "the call was reset"}) {
    api_->SetFailure({grpc::StatusCode::RESOURCE_EXHAUSTED, text});
    const size_t before = api_->asked().size();
    const auto remarks = std::make_shared<std::string>();
    std::promise<bool> known;
    podsource::Question question{std::make_shared<v1::PodSandboxConfig>(PodConfig("p")), nullptr};
    question.remarks = remarks;
    (*source)->Ask(question, [&](const auto& answer) { known.set_value(answer.ok() && *answer); });
    EXPECT_FALSE(known.get_future().get());
    EXPECT_EQ(api_->asked().size(), before + 1) << text;
    EXPECT_EQ(*remarks, std::string("kubelet's Pods API: ") + text);
  }
}

// A kubelet gives an ephemeral container of such a pod the sizes of the whole pod.
TEST_F(DaemonSourcesTest, ContainerThatThePodIsNotAdmittedWithRunsInThePoolWithItsQuota) {
  Start();
  StartGpus();
  StartPodsApi();
  const ResourceList all = Amounts({{"cpu", "4"}, {"memory", "200Mi"}});
  Pod podlevel = MakePod("podlevel", {App("app", kTwo)});
  podlevel.pod_level = Resources{all, all};
  api_->SetPod(podlevel);
  api_->SetPod(MakePod("p", {App("app", kGpuAndThree)}));
  struct Case {
    std::string uid;
    std::string app_cpus;
    std::string debugger_cpus;
  };
  for (const auto& [uid, app_cpus, debugger_cpus] :
       {Case{"podlevel", "0-27", "0-27"}, Case{"p", "1-3", "0,4-27"}}) {
    const v1::PodSandboxConfig pod = PodConfig(uid);
    const std::string sandbox = Run(pod);
    const auto app = Create(sandbox, pod, Pinned(uid == "p" ? 3 : 2));
    ASSERT_TRUE(app.status.ok()) << app.status.error_message();
    EXPECT_EQ(CpusOf(app.response.container_id()), app_cpus);
    const std::string state = State();
    api_->AddEphemeral(uid, "debugger");
    for (const auto& [name, source] :
         {std::pair{"debugger", "kubelet's Pods API, ephemeral container"},
          std::pair{"intruder", "kubelet's Pods API, which does not list the container"}}) {
      const auto created = Create(sandbox, pod, Pinned(4, name));
      ASSERT_TRUE(created.status.ok()) << created.status.error_message();
      EXPECT_EQ(SourceOf("pod-" + uid), source);
      const auto container = runtime_->FindContainer(created.response.container_id());
      ASSERT_TRUE(container);
      EXPECT_EQ(container->resources.cpuset_cpus(), debugger_cpus) << uid;
      EXPECT_EQ(container->resources.cpu_quota(), 400'000) << uid;
      EXPECT_EQ(container->config.devices_size(), 0) << uid;
    }
    EXPECT_EQ(State(), state);
  }
}

// kubectl debug: an ephemeral container is not in the pod spec's list of containers.
TEST_F(DaemonSourcesTest, ContainerForDebuggingRunsInThePoolAndTheRestStaysDecided) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("p", {Init("prepare", kTwo), App("app", kTwo)}));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  const std::string state = State();
  v1::ContainerConfig debugger = Shared("debugger");
  debugger.mutable_linux()->mutable_resources()->set_cpu_shares(2);
  const auto created = Create(sandbox, pod, debugger);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "0,3-27");
  EXPECT_EQ(State(), state);
  const auto app = Create(sandbox, pod, Pinned(2));
  ASSERT_TRUE(app.status.ok()) << app.status.error_message();
  EXPECT_EQ(CpusOf(app.response.container_id()), "1-2");
}

// critest and crictl create pods that the kubelet does not know.
TEST_F(DaemonSourcesTest, PodThatTheKubeletDoesNotKnowIsTakenFromTheNextSource) {
  Start();
  StartPodsApi();
  RunOne(PodConfig("unknown", "", R"({"app":{"limits":{"cpu":"2","memory":"100Mi"}}})"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-unknown"), "annotation alignd.io/resources");
}

TEST_F(DaemonSourcesTest, PodsApiThatHangsDelaysOnePodAndNoOther) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("first", {App("app", kTwo)}));
  api_->SetManner(simulator::Manner::kHang);
  const Running first = RunOne(PodConfig("first"), Pinned(2));
  EXPECT_EQ(CpusOf(first.container), "1-2");
  EXPECT_EQ(SourceOf("pod-first"),
            "CRI estimate (kubelet's Pods API: is not called for a while after a timeout)");
  const Running second = RunOne(PodConfig("second"), Pinned(2));
  EXPECT_EQ(CpusOf(second.container), "3-4");
  EXPECT_EQ(api_->asked(), std::vector<std::string>{"first"});
}

TEST_F(DaemonSourcesTest, PodsApiThatFailsOrTalksNonsenseIsPassedOver) {
  Start();
  StartPodsApi();
  api_->SetManner(simulator::Manner::kFail);
  RunOne(PodConfig("failed"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-failed"), "CRI estimate (kubelet's Pods API: simulated failure)");
  api_->SetManner(simulator::Manner::kAnswer);
  api_->SetFailure({grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"});
  RunOne(PodConfig("limited"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-limited"), "CRI estimate (kubelet's Pods API: rejected by rate limit)");
  api_->SetFailure(grpc::Status::OK);
  api_->SetPodBytes("nonsense", "\xff\xff");
  RunOne(PodConfig("nonsense"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-nonsense"),
            "CRI estimate (kubelet's Pods API: not a v1.Pod in protobuf)");
  api_->SetPodBytes("another", simulator::ToV1Pod(MakePod("whose", {App("app", kTwo)})));
  RunOne(PodConfig("another"), Pinned(2));
  EXPECT_EQ(SourceOf("pod-another"),
            "CRI estimate (kubelet's Pods API: requested pod another, got pod whose)");
}

// A resize that the kubelet has not allowed yet: the API shows the desired size, CRI the actual
// one.
TEST_F(DaemonSourcesTest, SizeInCreateContainerTakesPrecedenceOverTheApi) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("resized", {App("app", {{"cpu", "5"}, {"memory", "100Mi"}})}));
  v1::PodSandboxConfig pod = PodConfig("resized");
  pod.mutable_linux()->mutable_resources()->set_cpu_shares(2048);
  const Running running = RunOne(pod, Pinned(2));
  EXPECT_EQ(CpusOf(running.container), "1-2");
  const std::string source = SourceOf("pod-resized");
  EXPECT_TRUE(
      source.starts_with("kubelet's Pods API, cpu and memory from CRI (kubelet's Pods API: "
                         "the pod's requests.cpu"))
      << source;
}

// The kubelet may not allow the resize for days, and the API may be away meanwhile.
TEST_F(DaemonSourcesTest, ContainersHaveTheirDevicesWhileAResizeIsPending) {
  Start();
  StartGpus();
  StartPodsApi();
  api_->SetPod(MakePod("p", {App("a", {{"cpu", "5"}, {"memory", "100Mi"}, {kGpu, "1"}}),
                             App("b", {{"cpu", "2"}, {"memory", "100Mi"}, {kGpu, "1"}})}));
  v1::PodSandboxConfig pod = PodConfig("p");
  pod.mutable_linux()->mutable_resources()->set_cpu_shares(4096);
  const std::string sandbox = Run(pod);
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
  for (const bool is_away : {false, true}) {
    if (is_away) api_->SetManner(simulator::Manner::kFail);
    const auto created = Create(sandbox, pod, Pinned(2, is_away ? "b" : "a"));
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    const auto known = runtime_->FindContainer(created.response.container_id());
    ASSERT_TRUE(known);
    EXPECT_EQ(CpuSet::Parse(known->resources.cpuset_cpus())->Count(), 2);
    EXPECT_EQ(known->config.devices_size(), 1);
    const std::string source = SourceOf("pod-p");
    EXPECT_TRUE(source.starts_with("kubelet's Pods API, cpu and memory from CRI (")) << source;
    EXPECT_EQ(source.find("simulated failure") != std::string::npos, is_away) << source;
  }
  api_->SetManner(simulator::Manner::kAnswer);
  api_->AddEphemeral("p", "debugger");
  ASSERT_TRUE(Create(sandbox, pod, Pinned(2, "debugger")).status.ok());
  EXPECT_EQ(SourceOf("pod-p"), "kubelet's Pods API, ephemeral container");
}

// A kubelet changes no annotation when it resizes a pod.
TEST_F(DaemonSourcesTest, ResizedContainerWithAnAnnotationIsCreatedAgain) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod =
      PodConfig("p", "", R"({"app":{"limits":{"cpu":"2","memory":"100Mi","nvidia.com/gpu":"1"}}})");
  const Running running = RunOne(pod, Pinned(2));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running.container);
  *request.mutable_linux() = Pinned(4).linux().resources();
  ASSERT_TRUE(
      Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", request).status.ok());
  ASSERT_TRUE(runtime_->EndContainer(running.container, 137));
  v1::ContainerConfig again = Pinned(4);
  EXPECT_EQ(Create(running.sandbox, pod, again).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(running.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-4");
  EXPECT_EQ(runtime_->FindContainer(created.response.container_id())->config.devices_size(), 1);
}

// The new sandbox is no resize to what the annotation says.
TEST_F(DaemonSourcesTest, ResizedContainerKeepsItsCpusInANewSandbox) {
  Start();
  v1::PodSandboxConfig pod =
      PodConfig("p", "", R"({"app":{"limits":{"cpu":"2","memory":"100Mi"}}})");
  pod.mutable_linux()->mutable_resources()->set_cpu_shares(2048);
  const Running running = RunOne(pod, Pinned(2));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running.container);
  *request.mutable_linux() = Pinned(4).linux().resources();
  ASSERT_TRUE(
      Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", request).status.ok());
  ASSERT_TRUE(runtime_->EndContainer(running.container, 137));
  const std::string state = State();
  pod.mutable_metadata()->set_attempt(1);
  pod.mutable_linux()->mutable_resources()->set_cpu_shares(4096);
  const std::string sandbox = Run(pod);
  EXPECT_EQ(State(), state);
  v1::ContainerConfig again = Pinned(4);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-4");
}

// The containers run in the shared pool, whatever sizes CRI shows.
TEST_F(DaemonSourcesTest, PodLevelResourcesAreNeverExclusive) {
  Start();
  StartPodsApi();
  Pod podlevel = MakePod("podlevel", {App("a", {}), App("b", kTwo)});
  podlevel.pod_level = Resources{Amounts({{"cpu", "4"}, {"memory", "200Mi"}}),
                                 Amounts({{"cpu", "4"}, {"memory", "200Mi"}})};
  api_->SetPod(podlevel);
  const v1::PodSandboxConfig pod = PodConfig("podlevel");
  const std::string sandbox = Run(pod);
  for (const v1::ContainerConfig& config : {Pinned(4, "a"), Pinned(2, "b")}) {
    const auto created = Create(sandbox, pod, config);
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    EXPECT_EQ(CpusOf(created.response.container_id()), "0-27");
  }
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
}

TEST_F(DaemonSourcesTest, SidecarKeepsItsCpus) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("sidecar", {Sidecar("side", kTwo), App("app", kTwo)}));
  Run(PodConfig("sidecar"));
  EXPECT_NE(State().find(R"("sidecar":{"app":"3-4","side":"1-2"})"), std::string::npos) << State();
}

TEST_F(DaemonSourcesTest, ScopeOfPodIsDecidedForTheWholePod) {
  Start(StaticConfig("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n"));
  StartPodsApi();
  const std::map<std::string, std::string> eight = {{"cpu", "8"}, {"memory", "100Mi"}};
  api_->SetPod(MakePod("wide", {App("a", eight), App("b", eight)}));  // no NUMA node has 16 CPUs
  const v1::PodSandboxConfig pod = PodConfig("wide");
  const std::string sandbox = Run(pod);
  ASSERT_NE(sandbox, "");  // CreateContainer refuses it
  const auto created = Create(sandbox, pod, Pinned(8, "a"));
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(created.status.error_message().find("TopologyAffinityError"), std::string::npos)
      << created.status.error_message();
}

// Every CreateContainer is refused until enough CPUs are free.
TEST_F(DaemonSourcesTest, RefusedPodStartsOnceCpusAreFree) {
  Start();
  StartPodsApi();
  const Running holder = RunOne(PodConfig("holder"), Pinned(20));
  const std::map<std::string, std::string> ten = {{"cpu", "10"}, {"memory", "100Mi"}};
  api_->SetPod(MakePod("waits", {App("app", ten)}));
  const v1::PodSandboxConfig pod = PodConfig("waits");
  const std::string sandbox = Run(pod);
  ASSERT_NE(sandbox, "");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto refused = Create(sandbox, pod, Pinned(10));
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(refused.status.error_message(), "");
  }
  StopSandbox(holder.sandbox);
  RemoveSandbox(holder.sandbox);
  const auto created = Create(sandbox, pod, Pinned(10));
  EXPECT_TRUE(created.status.ok()) << created.status.error_message();
}

TEST_F(DaemonSourcesTest, AfterARestartTheApiIsAskedAgain) {
  Start();
  StartPodsApi();
  api_->SetPod(MakePod("kept", {App("a", kTwo), App("b", kTwo)}));
  const v1::PodSandboxConfig pod = PodConfig("kept");
  const std::string sandbox = Run(pod);
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return Create(sandbox, pod, Pinned(2, "b")).status.ok(); }));
  EXPECT_EQ(runtime_->Containers().back().resources.cpuset_cpus(), "3-4");
  EXPECT_EQ(api_->asked(), (std::vector<std::string>{"kept", "kept"}));
}

// --- Annotations ------------------------------------------------------------------------------

TEST_F(DaemonSourcesTest, MalformedAnnotationRefusesThePodWithThePlace) {
  Start();
  for (const std::string key : {"alignd.io/resources", "intel.com/resources",
                                "node.koordinator.sh/extended-resource-spec"}) {
    v1::PodSandboxConfig pod = PodConfig("bad");
    (*pod.mutable_annotations())[key] = R"({"containers":{"app":{"limits":{"a.b/c":"x"}}}})";
    const std::string sandbox = Run(pod);
    ASSERT_NE(sandbox, "") << key;
    const auto created = Create(sandbox, pod, Pinned(2));
    EXPECT_EQ(created.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << key;
    EXPECT_NE(created.status.error_message().find("annotation " + key + ": containers"),
              std::string::npos)
        << created.status.error_message();
  }
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
}

TEST_F(DaemonSourcesTest, IntelsAnnotationGivesDevices) {
  Start();
  StartGpus();
  v1::PodSandboxConfig pod = PodConfig("intel");
  (*pod.mutable_annotations())["intel.com/resources"] =
      R"({"initContainers":{},"containers":{"app":{"limits":{"cpu":"3","memory":"100Mi",)"
      R"("nvidia.com/gpu":"1"},"requests":{"cpu":"3","memory":"100Mi","nvidia.com/gpu":"1"}}}})";
  const Running running = RunOne(pod, Pinned(3));
  EXPECT_EQ(runtime_->FindContainer(running.container)->config.devices_size(), 1);
  EXPECT_EQ(SourceOf("pod-intel"), "annotation intel.com/resources");
}

TEST_F(DaemonSourcesTest, KoordinatorsAnnotationGivesDevicesBesideTheEstimate) {
  Start();
  StartGpus();
  v1::PodSandboxConfig pod = PodConfig("koordinator");
  (*pod.mutable_annotations())["node.koordinator.sh/extended-resource-spec"] =
      R"({"containers":{"app":{"limits":{"nvidia.com/gpu":"1"},"requests":{"nvidia.com/gpu":"1"}}}})";
  const Running running = RunOne(pod, Pinned(3));
  EXPECT_EQ(CpusOf(running.container), "1-3");
  EXPECT_EQ(runtime_->FindContainer(running.container)->config.devices_size(), 1);
}

// --- Pods of every kind -----------------------------------------------------------------------

TEST_F(DaemonSourcesTest, StaticMirrorAndHostNetworkPodsAreLikeAnyOther) {
  Start();
  v1::PodSandboxConfig static_pod = PodConfig("0b2e5ecd48b94b93c3b8bcbd5c03a5e1");
  (*static_pod.mutable_annotations())["kubernetes.io/config.source"] = "file";
  (*static_pod.mutable_annotations())["kubernetes.io/config.hash"] = static_pod.metadata().uid();
  (*static_pod.mutable_annotations())["kubernetes.io/config.seen"] = "2026-11-21T20:00:00Z";
  EXPECT_EQ(CpusOf(RunOne(static_pod, Pinned(2)).container), "1-2");
  // The mirror pod of a static pod in the API server, which has another UID.
  v1::PodSandboxConfig mirror = PodConfig("6f1d3f4e-5f7c-4b8e-9d57-3c1f6f0a7b11");
  (*mirror.mutable_annotations())["kubernetes.io/config.mirror"] = static_pod.metadata().uid();
  EXPECT_EQ(CpusOf(RunOne(mirror, Pinned(2)).container), "3-4");
  v1::PodSandboxConfig host = PodConfig("host-network");
  host.mutable_linux()->mutable_security_context()->mutable_namespace_options()->set_network(
      v1::NODE);
  EXPECT_EQ(CpusOf(RunOne(host, Pinned(2)).container), "5-6");
}

}  // namespace
}  // namespace alignd::daemon
