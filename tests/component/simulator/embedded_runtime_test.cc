#include "simulator/embedded_runtime.h"

#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <thread>

#include "edge/fake_tree.h"
#include "edge/raw_call.h"
#include "runtime/v1/cri.pb.h"
#include "simulator/client_call.h"
#include "simulator/grpc_socket.h"
#include "simulator/runtime_command.h"

namespace alignd::simulator {
namespace {

namespace cri = runtime::v1;
using grpc::StatusCode;

class EmbeddedRuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto runtime = EmbeddedRuntime::Start(
        Endpoint(), [this](const RuntimeModel::Event& event) { printed_ += Describe(event); });
    ASSERT_TRUE(runtime.ok()) << runtime.error().Text();
    runtime_ = std::move(runtime).value();
    auto channel = Dial(Endpoint());
    ASSERT_TRUE(channel.ok()) << channel.error().Text();
    channel_ = *channel;
  }

  std::string Endpoint() const { return (tree_.root() / "runtime.sock").string(); }

  grpc::Status Call(const std::string& method, const google::protobuf::Message& request,
                    google::protobuf::Message& response) {
    grpc::ClientContext context;
    return simulator::CallUnaryAndWait(channel_, &context, "/runtime.v1.RuntimeService/" + method,
                                       request, &response);
  }

  std::string RunSandbox() {
    cri::RunPodSandboxRequest request;
    request.mutable_config()->mutable_metadata()->set_name("web-0");
    request.mutable_config()->mutable_metadata()->set_uid("u1");
    cri::RunPodSandboxResponse response;
    EXPECT_TRUE(Call("RunPodSandbox", request, response).ok());
    return response.pod_sandbox_id();
  }

  grpc::Status Create(const std::string& sandbox, const std::string& name, std::string* id) {
    cri::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox);
    cri::ContainerConfig& config = *request.mutable_config();
    config.mutable_metadata()->set_name(name);
    (*config.mutable_labels())["io.kubernetes.pod.namespace"] = "default";
    (*config.mutable_labels())["io.kubernetes.pod.name"] = "web-0";
    config.mutable_linux()->mutable_resources()->set_cpuset_cpus("2-3");
    config.mutable_linux()->mutable_resources()->set_cpu_shares(512);
    cri::CreateContainerResponse response;
    const grpc::Status status = Call("CreateContainer", request, response);
    if (id != nullptr) *id = response.container_id();
    return status;
  }

  // A call whose request is only a container id.
  template <typename Request, typename Response>
  grpc::Status OnContainer(const std::string& method, const std::string& id) {
    Request request;
    request.set_container_id(id);
    Response response;
    return Call(method, request, response);
  }
  grpc::Status StartContainer(const std::string& id) {
    return OnContainer<cri::StartContainerRequest, cri::StartContainerResponse>("StartContainer",
                                                                                id);
  }
  grpc::Status StopContainer(const std::string& id) {
    return OnContainer<cri::StopContainerRequest, cri::StopContainerResponse>("StopContainer", id);
  }
  grpc::Status RemoveContainer(const std::string& id) {
    return OnContainer<cri::RemoveContainerRequest, cri::RemoveContainerResponse>("RemoveContainer",
                                                                                  id);
  }

  cri::ContainerStatus StatusOf(const std::string& id) {
    cri::ContainerStatusRequest request;
    request.set_container_id(id);
    cri::ContainerStatusResponse response;
    const grpc::Status status = Call("ContainerStatus", request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  const testing::FakeTree tree_;
  std::string printed_;
  std::unique_ptr<EmbeddedRuntime> runtime_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(EmbeddedRuntimeTest, StatusOfASandboxHasItsNamespaces) {
  for (const cri::NamespaceMode mode : {cri::NODE, cri::POD}) {
    cri::RunPodSandboxRequest request;
    request.mutable_config()->mutable_metadata()->set_name("web-" + std::to_string(mode));
    request.mutable_config()->mutable_metadata()->set_uid("u" + std::to_string(mode));
    request.mutable_config()
        ->mutable_linux()
        ->mutable_security_context()
        ->mutable_namespace_options()
        ->set_network(mode);
    cri::RunPodSandboxResponse made;
    ASSERT_TRUE(Call("RunPodSandbox", request, made).ok());
    cri::PodSandboxStatusRequest which;
    which.set_pod_sandbox_id(made.pod_sandbox_id());
    cri::PodSandboxStatusResponse response;
    ASSERT_TRUE(Call("PodSandboxStatus", which, response).ok());
    ASSERT_TRUE(response.status().linux().namespaces().has_options());
    EXPECT_EQ(response.status().linux().namespaces().options().network(), mode);
  }
}

TEST_F(EmbeddedRuntimeTest, ContainerGoesThroughAllStates) {
  const std::string sandbox = RunSandbox();
  std::string id;
  ASSERT_TRUE(Create(sandbox, "main", &id).ok());
  EXPECT_EQ(StatusOf(id).state(), cri::CONTAINER_CREATED);
  EXPECT_GT(StatusOf(id).created_at(), 0);
  EXPECT_EQ(StatusOf(id).started_at(), 0);
  ASSERT_TRUE(StartContainer(id).ok());
  EXPECT_EQ(StatusOf(id).state(), cri::CONTAINER_RUNNING);
  EXPECT_FALSE(StartContainer(id).ok());
  ASSERT_TRUE(runtime_->EndContainer(id, 3));
  EXPECT_EQ(StatusOf(id).state(), cri::CONTAINER_EXITED);
  EXPECT_EQ(StatusOf(id).exit_code(), 3);
  EXPECT_GE(StatusOf(id).finished_at(), StatusOf(id).started_at());
  EXPECT_TRUE(RemoveContainer(id).ok());
  EXPECT_TRUE(runtime_->Containers().empty());
  EXPECT_EQ(printed_,
            "create  default/web-0 main (…0002)  cpuset 2-3  mems -  memory 0  quota 0/0\n"
            "start   default/web-0 main (…0002)\n"
            "stop    default/web-0 main (…0002)  exit 3\n"
            "remove  default/web-0 main (…0002)\n");
}

TEST_F(EmbeddedRuntimeTest, StoppingTheSandboxStopsItsContainers) {
  const std::string sandbox = RunSandbox();
  std::string id;
  ASSERT_TRUE(Create(sandbox, "main", &id).ok());
  ASSERT_TRUE(StartContainer(id).ok());
  cri::StopPodSandboxRequest request;
  request.set_pod_sandbox_id(sandbox);
  cri::StopPodSandboxResponse response;
  ASSERT_TRUE(Call("StopPodSandbox", request, response).ok());
  EXPECT_EQ(StatusOf(id).state(), cri::CONTAINER_EXITED);
  EXPECT_EQ(runtime_->Sandboxes().at(0).state, cri::SANDBOX_NOTREADY);
  EXPECT_FALSE(Create(sandbox, "late", nullptr).ok());
}

TEST_F(EmbeddedRuntimeTest, UpdatesKeepWhatTheyDoNotName) {
  std::string id;
  ASSERT_TRUE(Create(RunSandbox(), "main", &id).ok());
  cri::UpdateContainerResourcesRequest request;
  request.set_container_id(id);
  request.mutable_linux()->set_cpuset_cpus("4");
  request.mutable_linux()->set_memory_limit_in_bytes(1 << 20);
  cri::UpdateContainerResourcesResponse response;
  ASSERT_TRUE(Call("UpdateContainerResources", request, response).ok());
  const cri::LinuxContainerResources resources = StatusOf(id).resources().linux();
  EXPECT_EQ(resources.cpuset_cpus(), "4");
  EXPECT_EQ(resources.cpu_shares(), 512);
  EXPECT_EQ(resources.memory_limit_in_bytes(), 1 << 20);
}

TEST_F(EmbeddedRuntimeTest, AnswersUnknownIdsAsContainerdDoes) {
  EXPECT_EQ(StartContainer("nope").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Create("nope", "main", nullptr).error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(StopContainer("nope").error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(RemoveContainer("nope").ok());
}

TEST_F(EmbeddedRuntimeTest, SpeaksBothVersionsAndNamesWhatItDoesNotKnow) {
  using testing::CallUnary;
  EXPECT_TRUE(CallUnary(channel_, "/runtime.v1alpha2.RuntimeService/Version", "").status.ok());
  const auto unknown = CallUnary(channel_, "/runtime.v2.RuntimeService/Version", "").status;
  EXPECT_EQ(unknown.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(unknown.error_message(), "unknown service runtime.v2.RuntimeService");
  const auto config = CallUnary(channel_, "/runtime.v1.RuntimeService/RuntimeConfig", "").status;
  EXPECT_EQ(config.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(config.error_message(), "method RuntimeConfig not implemented");
}

TEST_F(EmbeddedRuntimeTest, KeepsRequestsAsTheyCame) {
  const std::string unknown_field("\xfa\x07\x03xyz", 6);
  testing::CallUnary(channel_, "/runtime.v1.RuntimeService/Version", unknown_field);
  const auto requests = runtime_->Requests("Version");
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests[0].bytes, unknown_field);
}

TEST_F(EmbeddedRuntimeTest, FailsAndDelaysOnDemand) {
  const std::string sandbox = RunSandbox();
  runtime_->SetFailure("CreateContainer", {StatusCode::UNKNOWN, "disk full"});
  EXPECT_EQ(Create(sandbox, "main", nullptr).error_message(), "disk full");
  EXPECT_TRUE(runtime_->Containers().empty());
  runtime_->SetFailure("CreateContainer", grpc::Status::OK);
  runtime_->SetDelay("CreateContainer", std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(Create(sandbox, "main", nullptr).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));

  runtime_->SetDelay("CreateContainer", std::chrono::hours(1));  // and stopping does not wait
  std::thread hanging([&] { EXPECT_FALSE(Create(sandbox, "other", nullptr).ok()); });
  while (runtime_->Requests("CreateContainer").size() < 3) std::this_thread::yield();
  runtime_.reset();
  hanging.join();
}

TEST_F(EmbeddedRuntimeTest, StreamsEvents) {
  testing::RawCall events(channel_, "/runtime.v1.RuntimeService/GetContainerEvents");
  events.Write(cri::GetEventsRequest().SerializeAsString());
  events.WritesDone();
  events.WaitForInitialMetadata();
  std::string id;
  ASSERT_TRUE(Create(RunSandbox(), "main", &id).ok());
  ASSERT_TRUE(StartContainer(id).ok());
  for (const auto type : {cri::CONTAINER_CREATED_EVENT, cri::CONTAINER_STARTED_EVENT}) {
    const std::optional<std::string> message = events.Read();
    cri::ContainerEventResponse event;
    ASSERT_TRUE(message.has_value() && event.ParseFromString(*message));
    EXPECT_EQ(event.container_event_type(), type);
    EXPECT_EQ(event.container_id(), id);
    EXPECT_EQ(event.pod_sandbox_status().metadata().uid(), "u1");
  }
  events.context().TryCancel();
  EXPECT_EQ(events.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(runtime_->EndContainer(id, 0));  // after the last listener has gone
}

}  // namespace
}  // namespace alignd::simulator
