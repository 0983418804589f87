// CreateContainer without a proxy around it: when the caller is answered, and on which thread.
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cri/container_handlers.h"
#include "cri/ended_init_containers.h"
#include "edge/allocation_node.h"
#include "edge/cri_pods.h"
#include "edge/raw_call.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"
#include "simulator/embedded_runtime.h"
#include "simulator/grpc_socket.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;
using podsource::Annotated;
using podsource::kMi;
using podsource::Kubelet;
using podsource::Sandbox;

constexpr std::chrono::seconds kPatience{20};
constexpr int64_t kMaxLimit = std::numeric_limits<int64_t>::max();

// Knows no container.
class NoSource final : public podsource::ResourceSource {
 public:
  void Ask(const podsource::Question&, Answer answer) override {
    answer(std::optional<podsource::PodAsk>());
  }
};

class CreateContainerTest : public ::testing::Test {
 protected:
  explicit CreateContainerTest(bool has_cgroup_v2 = false) : cgroups_(Cgroups(has_cgroup_v2)) {
    allocation_.Up();
    auto runtime = simulator::EmbeddedRuntime::Start(RuntimeSocket());
    EXPECT_TRUE(runtime.ok());
    runtime_ = *std::move(runtime);
    client_ = std::make_unique<reconcile::RuntimeClient>(*service::Client::Dial(RuntimeSocket()),
                                                         kPatience);
    reconcile::Reconciler::Options options;
    options.lister.period = std::chrono::hours(1);  // no listing but those that a test causes
    reconciler_ = std::make_unique<reconcile::Reconciler>(
        reconcile::Reconciler::Threads{background_, io_, events_}, allocation_.node,
        *allocation_.manager, registry_, *client_, cgroups_, conditions_, options);
    reconciler_->Start();
    events_->Start();
  }
  ~CreateContainerTest() override {
    reconciler_->Stop();
    events_->Stop();
    io_.Stop();
    allocation_.Down();
  }

  cgroup::CgroupTree Cgroups(bool are_v2) const {
    if (are_v2) allocation_.tree.Write({"cgroup/cgroup.controllers", "cpuset cpu\n"});
    return cgroup::CgroupTree(allocation_.tree.root() / "cgroup");
  }
  std::string RuntimeSocket() const { return (allocation_.tree.root() / "runtime.sock").string(); }

  HandlerContext Context() {
    return {allocation_.node,
            *allocation_.manager,
            *allocation_.plugins,
            registry_,
            *reconciler_,
            *client_,
            *source_,
            conditions_,
            *events_,
            io_,
            cgroups_};
  }

  struct Answered {
    proxy::CallHandler::Decision decision;
    bool call_under_way = false;
    std::thread::id thread;
  };
  Answered Create(const v1::PodSandboxConfig& sandbox, const v1::ContainerConfig& container) {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id("sandbox");
    *request.mutable_sandbox_config() = sandbox;
    *request.mutable_config() = container;
    std::promise<Answered> answered;
    events_->Post([&, bytes = request.SerializeAsString()] {
      const std::shared_ptr<proxy::CallHandler> handler =
          MakeContainerHandlers(Context())("/runtime.v1.RuntimeService/CreateContainer");
      handler->OnRequest(bytes, [&, handler](proxy::CallHandler::Decision decision) {
        answered.set_value(
            {std::move(decision), !registry_.IsGone("uid"), std::this_thread::get_id()});
      });
    });
    return answered.get_future().get();
  }
  std::thread::id EventsThread() const {
    std::promise<std::thread::id> id;
    events_->Post([&] { id.set_value(std::this_thread::get_id()); });
    return id.get_future().get();
  }

  template <typename Response, typename Request>
  Response CallRuntime(const std::string& method, const Request& request) const {
    const std::string path = "/runtime.v1.RuntimeService/" + method;
    const testing::RawAnswer answer = testing::CallUnary(*simulator::Dial(RuntimeSocket()),
                                                         path.c_str(), request.SerializeAsString());
    EXPECT_TRUE(answer.status.ok()) << method << ": " << answer.status.error_message();
    Response response;
    EXPECT_TRUE(response.ParseFromString(answer.message.value_or("")));
    return response;
  }
  // A container that has run and ended with exit code 0. Returns the id of its new sandbox.
  std::string RunToItsEnd(const v1::PodSandboxConfig& pod, const v1::ContainerConfig& container) {
    v1::RunPodSandboxRequest run;
    *run.mutable_config() = pod;
    v1::CreateContainerRequest create;
    create.set_pod_sandbox_id(
        CallRuntime<v1::RunPodSandboxResponse>("RunPodSandbox", run).pod_sandbox_id());
    *create.mutable_config() = container;
    *create.mutable_sandbox_config() = pod;
    v1::StartContainerRequest start;
    start.set_container_id(
        CallRuntime<v1::CreateContainerResponse>("CreateContainer", create).container_id());
    CallRuntime<v1::StartContainerResponse>("StartContainer", start);
    EXPECT_TRUE(runtime_->EndContainer(start.container_id(), 0));
    return create.pod_sandbox_id();
  }

  testing::AllocationNode allocation_;
  reconcile::ContainerRegistry registry_;
  reconcile::Conditions conditions_;
  TaskQueue background_{"background"};
  TaskQueue io_{"io"};
  const std::shared_ptr<host::EventLoop> events_ = host::EventLoop::Make().value();
  const cgroup::CgroupTree cgroups_;
  std::unique_ptr<simulator::EmbeddedRuntime> runtime_;
  std::unique_ptr<reconcile::RuntimeClient> client_;
  std::unique_ptr<reconcile::Reconciler> reconciler_;
  std::unique_ptr<podsource::ResourceSource> source_ = podsource::AnnotationsAndEstimate();
};

// A caller that has the answer may remove the pod at once: no call of the pod is under way then.
TEST_F(CreateContainerTest, CallHasEndedBeforeTheCallerIsRefused) {
  v1::ContainerConfig marked = Kubelet(100, 0, 0);
  (*marked.mutable_annotations())["alignd.io/dev.0123456789abcdef"] = "no marker";
  const Answered malformed_marker = Create(Sandbox(), marked);
  EXPECT_TRUE(std::holds_alternative<grpc::Status>(malformed_marker.decision));
  EXPECT_FALSE(malformed_marker.call_under_way);

  const Answered contradiction =
      Create(Annotated(R"({"app":{"limits":{"cpu":"4"}}})"), Kubelet(1000, 1000, kMi));
  EXPECT_TRUE(std::holds_alternative<grpc::Status>(contradiction.decision));
  EXPECT_FALSE(contradiction.call_under_way);

  const Answered too_large = Create(Sandbox(), Kubelet(64'000, 64'000, kMi));
  EXPECT_TRUE(std::holds_alternative<grpc::Status>(too_large.decision));
  EXPECT_FALSE(too_large.call_under_way);

  source_ = std::make_unique<NoSource>();
  const Answered unknown = Create(Sandbox(), Kubelet(1000, 1000, kMi));
  EXPECT_TRUE(std::holds_alternative<grpc::Status>(unknown.decision));
  EXPECT_FALSE(unknown.call_under_way);
}

TEST_F(CreateContainerTest, CallIsUnderWayWhileTheRuntimeCreatesTheContainer) {
  const Answered forwarded = Create(Sandbox(), Kubelet(2000, 2000, kMi));
  ASSERT_TRUE(std::holds_alternative<std::string>(forwarded.decision));
  EXPECT_TRUE(forwarded.call_under_way);
  v1::CreateContainerRequest request;
  ASSERT_TRUE(request.ParseFromString(std::get<std::string>(forwarded.decision)));
  EXPECT_FALSE(request.config().linux().resources().cpuset_cpus().empty());
}

// Injection and the answer do not delay the next decision.
TEST_F(CreateContainerTest, AnswersOnTheEventsThread) {
  EXPECT_EQ(Create(Sandbox(), Kubelet(2000, 2000, kMi)).thread, EventsThread());
  EXPECT_EQ(Create(Sandbox(), Kubelet(64'000, 64'000, kMi)).thread, EventsThread());
}

// In cgroup v2, the kernel would run the container on all CPUs of the parent instead.
TEST_F(CreateContainerTest, CpusThatTheParentLacksAreRefusedUntilItHasThem) {
  v1::PodSandboxConfig sandbox = Sandbox();
  const std::string parent = "cgroup/cpuset" + sandbox.linux().cgroup_parent();
  for (const char* const file : {"cpuset.cpus", "cpuset.mems", "cpuset.effective_mems"}) {
    allocation_.tree.Write({parent + "/" + file, "0\n"});
  }
  allocation_.tree.Write({parent + "/cpuset.effective_cpus", "0\n"});
  const Answered refused = Create(sandbox, Kubelet(2000, 2000, kMi));
  ASSERT_TRUE(std::holds_alternative<grpc::Status>(refused.decision));
  const grpc::Status status = std::get<grpc::Status>(refused.decision);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("may use CPUs 0 only"), std::string::npos)
      << status.error_message();
  EXPECT_FALSE(refused.call_under_way);
  allocation_.tree.Write({parent + "/cpuset.effective_cpus", "0-63\n"});
  EXPECT_TRUE(
      std::holds_alternative<std::string>(Create(sandbox, Kubelet(2000, 2000, kMi)).decision));
}

class CreateContainerCgroupV2Test : public CreateContainerTest {
 protected:
  CreateContainerCgroupV2Test() : CreateContainerTest(/*has_cgroup_v2=*/true) {}
};

// The kernel would run it on all CPUs of the parent, which are exclusive to another container.
TEST_F(CreateContainerCgroupV2Test, SharedContainerIsRefusedIfItsParentHasNoSharedCpu) {
  const Answered exclusive = Create(Sandbox(), Kubelet(2000, 2000, kMi));
  v1::CreateContainerRequest pinned;
  ASSERT_TRUE(pinned.ParseFromString(std::get<std::string>(exclusive.decision)));
  const std::string cpus = pinned.config().linux().resources().cpuset_cpus();
  v1::PodSandboxConfig sandbox = Sandbox();
  sandbox.mutable_metadata()->set_uid("other");
  const std::string parent = "cgroup" + sandbox.linux().cgroup_parent();
  allocation_.tree.Write({parent + "/cpuset.cpus", "\n"});
  allocation_.tree.Write({parent + "/cpuset.mems", "\n"});
  allocation_.tree.Write({parent + "/cpuset.mems.effective", "0\n"});
  allocation_.tree.Write({parent + "/cpuset.cpus.effective", cpus + "\n"});
  const Answered refused = Create(sandbox, Kubelet(1500, 1500, kMi));
  ASSERT_TRUE(std::holds_alternative<grpc::Status>(refused.decision));
  const grpc::Status status = std::get<grpc::Status>(refused.decision);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("may use CPUs " + cpus + " only"), std::string::npos)
      << status.error_message();
  allocation_.tree.Write({parent + "/cpuset.cpus.effective", "0," + cpus + "\n"});
  EXPECT_TRUE(
      std::holds_alternative<std::string>(Create(sandbox, Kubelet(1500, 1500, kMi)).decision));
}

// The runtime has made the sandbox and the container, and answers with bytes that are no answer, or
// without an id. alignd looks for them.
TEST_F(CreateContainerTest, WhatAMalformedAnswerHidesIsFoundByAListing) {
  // What the runtime answered when it got what the handler sent.
  const auto call = [this](const std::string& method, const google::protobuf::Message& request,
                           const std::string& malformed) {
    const std::string path = "/runtime.v1.RuntimeService/" + method;
    std::shared_ptr<proxy::CallHandler> handler;
    std::promise<std::string> sent;
    events_->Post([&] {
      handler = MakeContainerHandlers(Context())(path);
      handler->OnRequest(request.SerializeAsString(), [&](proxy::CallHandler::Decision decision) {
        sent.set_value(std::get<std::string>(std::move(decision)));
      });
    });
    const testing::RawAnswer answer = testing::CallUnary(*simulator::Dial(RuntimeSocket()),
                                                         path.c_str(), sent.get_future().get());
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    std::promise<void> ended;
    events_->Post([&] {
      handler->OnResponse(grpc::Status::OK, &malformed);
      handler.reset();
      ended.set_value();
    });
    ended.get_future().wait();
    return answer.message.value_or("");
  };
  const auto found = [](const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_so() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return is_so();
  };
  for (const std::string malformed : {"\xff\xff", ""}) {
    v1::RunPodSandboxRequest run;
    *run.mutable_config() = Sandbox();
    v1::RunPodSandboxResponse ran;
    ASSERT_TRUE(ran.ParseFromString(call("RunPodSandbox", run, malformed)));
    EXPECT_TRUE(found([&] { return registry_.PodOfSandbox(ran.pod_sandbox_id()) == "uid"; }));

    v1::CreateContainerRequest create;
    create.set_pod_sandbox_id(ran.pod_sandbox_id());
    *create.mutable_sandbox_config() = Sandbox();
    *create.mutable_config() = Kubelet(1000, 1000, kMi);
    v1::CreateContainerResponse created;
    ASSERT_TRUE(created.ParseFromString(call("CreateContainer", create, malformed)));
    EXPECT_TRUE(found([&] { return registry_.KeyOf(created.container_id()).has_value(); }));
  }
}

TEST_F(CreateContainerTest, LargestLimitDoesNotHideThatAnInitContainerHasEnded) {
  registry_.BeginCall("uid");  // the pod is not released although the runtime does not list it
  const std::string gibibyte = std::to_string(1024 * kMi);
  const Container init = Init("init", {{"cpu", "1"}, {"memory", gibibyte}});
  const allocation::Outcome admitted = allocation_.Admit(MakePod("uid", {init}));
  ASSERT_TRUE(std::holds_alternative<allocation::Allocated>(admitted));

  v1::CreateContainerRequest request;
  *request.mutable_sandbox_config() = Sandbox();
  v1::LinuxContainerResources& shown =
      *request.mutable_sandbox_config()->mutable_linux()->mutable_resources();
  shown.set_cpu_shares(2048);
  shown.set_memory_limit_in_bytes(2048 * kMi);
  request.set_pod_sandbox_id(
      RunToItsEnd(request.sandbox_config(), Kubelet(1000, 1000, 1024 * kMi, "init")));

  const Container app = App("app", {{"cpu", "1"}, {"memory", std::to_string(kMaxLimit)}});
  std::promise<podsource::PodAsk> added;
  std::thread::id thread;  // no other thread works for the call
  AddEndedInitContainers(Context(), request, {MakePod("uid", {app}), "test"},
                         [&](podsource::PodAsk ask) {
                           thread = std::this_thread::get_id();
                           added.set_value(std::move(ask));
                         });
  const Pod pod = added.get_future().get().pod;
  ASSERT_EQ(pod.containers.size(), 2u);
  EXPECT_EQ(pod.containers[0].name, "init");
  EXPECT_EQ(pod.containers[1].name, "app");
  EXPECT_EQ(thread, EventsThread());
}

}  // namespace
}  // namespace alignd::cri
