// Strings that are not UTF-8, and requests that are no messages: nothing gets past alignd by being
// unreadable, and nothing unreadable hides the rest.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "podresources/v1/podresources.grpc.pb.h"

namespace alignd::daemon {
namespace {

using google::protobuf::FieldDescriptor;

constexpr char kNotUtf8[] = "\xff\xc0 \xed\xa0\x80";

// Strings that alignd, or the simulated runtime, interprets.
bool IsInterpreted(const FieldDescriptor& field) {
  static const auto* const kNames = new std::set<std::string>{
      "uid",         "namespace",     "pod_sandbox_id", "container_id",   "cpuset_cpus",
      "cpuset_mems", "cgroup_parent", "page_size",      "runtime_handler"};
  const std::string& message = field.containing_type()->name();
  const bool is_name = field.name() == "name" && message.ends_with("Metadata");
  return is_name || kNames->contains(field.name());
}

// Makes every other string of the message, and of every message in it, one that is not UTF-8; adds
// one to each list, and an entry with such a key and value to each map. Returns how many.
int Spoil(google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  int spoilt = 0;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const field = type.field(i);
    if (field->is_map()) {
      google::protobuf::Message& entry = *reflection.AddMessage(&message, field);
      for (const char* const part : {"key", "value"}) {
        entry.GetReflection()->SetString(&entry, entry.GetDescriptor()->FindFieldByName(part),
                                         kNotUtf8);
        ++spoilt;
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !IsInterpreted(*field)) {
      if (field->is_repeated()) reflection.AddString(&message, field, kNotUtf8);
      if (!field->is_repeated()) reflection.SetString(&message, field, kNotUtf8);
      ++spoilt;
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) reflection.AddMessage(&message, field);
      if (!field->is_repeated()) spoilt += Spoil(*reflection.MutableMessage(&message, field));
      for (int j = 0; field->is_repeated() && j < reflection.FieldSize(message, field); ++j) {
        spoilt += Spoil(*reflection.MutableRepeatedMessage(&message, field, j));
      }
    }
  }
  return spoilt;
}

// A container without quota and CPU set, which alignd writes.
void ClearInjected(v1::LinuxContainerResources& resources) {
  resources.clear_cpuset_cpus();
  resources.clear_cpuset_mems();
  resources.clear_cpu_quota();
}

class ForeignBytes : public DaemonTest {
 protected:
  std::string LastRequest(const std::string& method) const {
    const auto requests = runtime_->Requests(method);
    return requests.empty() ? "" : requests.back().bytes;
  }
};

TEST_F(ForeignBytes, CreateContainerIsDecidedAndKeepsThem) {
  Start();
  v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox);
  *request.mutable_config() = Pinned(3);
  *request.mutable_sandbox_config() = pod;
  ASSERT_GT(Spoil(request), 25);
  // Sizes of the sandbox that are there and zero say that the pod has no CPUs.
  request.mutable_sandbox_config()->mutable_linux()->clear_resources();
  const auto created = Call<v1::CreateContainerResponse>("CreateContainer", request);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");

  v1::CreateContainerRequest received;
  ASSERT_TRUE(received.ParseFromString(LastRequest("CreateContainer")));
  EXPECT_EQ(received.mutable_config()->mutable_annotations()->erase("alignd.io/assignment"), 1U);
  EXPECT_EQ(received.mutable_config()->mutable_labels()->erase("alignd.io/assignment-id"), 1U);
  ClearInjected(*received.mutable_config()->mutable_linux()->mutable_resources());
  ClearInjected(*request.mutable_config()->mutable_linux()->mutable_resources());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(received, request));
}

TEST_F(ForeignBytes, RunPodSandboxIsDecidedAndKeepsThem) {
  Start();
  v1::RunPodSandboxRequest request;
  *request.mutable_config() = PodConfig("one", "", Annotation(3, 0));
  ASSERT_GT(Spoil(request), 8);
  request.mutable_config()->mutable_linux()->clear_resources();
  const auto answer = Call<v1::RunPodSandboxResponse>("RunPodSandbox", request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_NE(State().find("\"one\":{\"app\":\"1-3\"}"), std::string::npos) << State();
  EXPECT_EQ(LastRequest("RunPodSandbox"), request.SerializeAsString());
}

TEST_F(ForeignBytes, UpdateContainerResourcesKeepsTheAssignment) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running.container);
  request.mutable_linux()->set_cpuset_cpus("0-27");
  ASSERT_GT(Spoil(request), 3);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

TEST_F(ForeignBytes, UpdatePodSandboxResourcesSetsNoCpus) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  v1::UpdatePodSandboxResourcesRequest request;
  request.set_pod_sandbox_id(running.sandbox);
  request.mutable_resources()->set_cpuset_cpus("0-27");
  ASSERT_GT(Spoil(request), 3);
  Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request);
  v1::UpdatePodSandboxResourcesRequest received;
  ASSERT_TRUE(received.ParseFromString(LastRequest("UpdatePodSandboxResources")));
  EXPECT_EQ(received.pod_sandbox_id(), running.sandbox);
  EXPECT_EQ(received.resources().cpuset_cpus(), "");
}

// UIDs and names go into state files, reports and answers, which are text.
TEST_F(ForeignBytes, PodsAndContainersWithSuchNamesAreRefused) {
  Start();
  const v1::PodSandboxConfig good = PodConfig("good");
  const std::string sandbox = Run(good);
  std::vector<v1::PodSandboxConfig> pods(5, good);
  pods[0].mutable_metadata()->set_uid(kNotUtf8);
  pods[1].mutable_metadata()->set_name(kNotUtf8);
  pods[2].mutable_metadata()->set_namespace_(kNotUtf8);
  pods[3].mutable_metadata()->set_uid("new\nline");
  pods[4].mutable_metadata()->set_name(std::string("n\0l", 3));
  const size_t runs = runtime_->Requests("RunPodSandbox").size();
  for (const v1::PodSandboxConfig& pod : pods) {
    v1::RunPodSandboxRequest run;
    *run.mutable_config() = pod;
    const grpc::Status ran = Call<v1::RunPodSandboxResponse>("RunPodSandbox", run).status;
    EXPECT_EQ(ran.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << ran.error_message();
    const grpc::Status created = Create(sandbox, pod, Pinned(3)).status;
    EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << created.error_message();
  }
  for (const std::string& name : {std::string(kNotUtf8), std::string("a\x1b[1m"), std::string()}) {
    const grpc::Status created = Create(sandbox, good, Pinned(3, name)).status;
    EXPECT_EQ(created.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << created.error_message();
  }
  const grpc::Status shown = Create(sandbox, good, Pinned(3, kNotUtf8)).status;
  EXPECT_NE(shown.error_message().find(R"(container name "\xff\xc0 \xed\xa0\x80" is not UTF-8)"),
            std::string::npos)
      << shown.error_message();
  // A sandbox that alignd does not know, in place of the UID.
  const grpc::Status unknown = Create(kNotUtf8, v1::PodSandboxConfig(), Pinned(3)).status;
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << unknown.error_message();
  const grpc::Status nowhere = Create("", v1::PodSandboxConfig(), Pinned(3)).status;
  EXPECT_EQ(nowhere.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << nowhere.error_message();
  EXPECT_EQ(runtime_->Requests("RunPodSandbox").size(), runs);
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
}

// What no protobuf can read, the runtime never gets: it may read it differently.
TEST_F(ForeignBytes, WhatIsNoMessageIsRefusedAndNeverPassed) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  const auto expect_refused = [this](const std::string& method, const std::string& bytes) {
    const size_t before = runtime_->Requests(method).size();
    const std::string path = "/" + service_ + "/" + method;
    const grpc::Status status = testing::CallUnary(client_, path.c_str(), bytes).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_NE(status.error_message().find("malformed request"), std::string::npos)
        << method << ": " << status.error_message();
    EXPECT_EQ(runtime_->Requests(method).size(), before) << method;
  };
  for (const char* const method :
       {"RunPodSandbox", "CreateContainer", "StartContainer", "UpdateContainerResources",
        "UpdatePodSandboxResources", "StopPodSandbox", "RemovePodSandbox", "StopContainer",
        "RemoveContainer", "ContainerStatus"}) {
    expect_refused(method, std::string("\xff\xff\0\x01", 4));  // no tag
    expect_refused(method, "\x0a\x05 cut");                    // a string that ends too early
    expect_refused(method, "\x0b");                            // a group that does not end
    expect_refused(method, "\x0a\xff\xff\xff\xff\x0f");        // a length of 4 GiB
  }
  for (const char* const method :
       {"CreateContainer", "UpdateContainerResources", "UpdatePodSandboxResources"}) {
    expect_refused(method, "\x12\x02\x0a\x05");  // a string in an inner message
  }
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

// Before the runtime has been listed, alignd does not know which containers it guards.
TEST_F(ForeignBytes, UpdatesBeforeTheFirstListingAreRefused) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  StopDaemon();
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::UNAVAILABLE, "not yet"});
  StartDaemon();
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running.container);
  request.mutable_linux()->set_cpuset_cpus("0-27");
  v1::UpdatePodSandboxResourcesRequest sandbox;
  sandbox.set_pod_sandbox_id(running.sandbox);
  sandbox.mutable_resources()->set_cpuset_cpus("0-27");
  EXPECT_EQ(Update(request).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", sandbox)
                .status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(LastRequest("UpdatePodSandboxResources"), "");
  EXPECT_EQ(CpusOf(running.container), "1-3");
  runtime_->SetFailure("ListContainers", grpc::Status::OK);
  EXPECT_TRUE(Eventually([&] { return Update(request).ok(); }));
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

// They exist before alignd starts, and one is made at the runtime's own socket later.
TEST_F(ForeignBytes, OneSandboxHidesNoOther) {
  StartRuntime();
  client_ = *simulator::Dial(RuntimeEndpoint());
  v1::PodSandboxConfig odd = PodConfig("odd");
  (*odd.mutable_annotations())[kNotUtf8] = kNotUtf8;
  (*odd.mutable_labels())["io.kubernetes.pod.name"] = kNotUtf8;
  v1::ContainerConfig odd_container = Shared();
  (*odd_container.mutable_annotations())[kNotUtf8] = kNotUtf8;
  odd_container.mutable_image()->set_image(kNotUtf8);
  RunOne(odd, odd_container);
  v1::PodSandboxConfig nameless = PodConfig(kNotUtf8);
  RunOne(nameless, Shared(kNotUtf8));

  StartDaemon();
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  EXPECT_EQ(CpusOf(first.container), "1-3");
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(CpusOf(RunOne(PodConfig("second"), Pinned(3)).container), "4-6");
  EXPECT_TRUE(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kRuntimeUnavailable)
                  .empty());

  // Pod resources, too: one string that is not UTF-8 would make the whole answer unreadable.
  grpc::ClientContext context;
  ::v1::ListPodResourcesResponse pods;
  const auto stub =
      ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
  ASSERT_TRUE(stub->List(&context, ::v1::ListPodResourcesRequest(), &pods).ok());
  std::set<std::string> names;
  for (const ::v1::PodResources& pod : pods.pod_resources()) names.insert(pod.name());
  EXPECT_EQ(names, (std::set<std::string>{"pod-odd", R"(pod-\xff\xc0 \xed\xa0\x80)", "pod-first",
                                          "pod-second"}));

  const std::shared_ptr<grpc::Channel> through_alignd = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  v1::PodSandboxConfig late = PodConfig("late");
  late.mutable_metadata()->set_name(kNotUtf8);
  v1::ContainerConfig beside = Shared(kNotUtf8);
  beside.mutable_linux()->mutable_resources()->set_cpuset_cpus("0,7-27");  // no overlap
  RunOne(late, beside);
  client_ = through_alignd;
  ASSERT_TRUE(Eventually([&] {
    const auto unmanaged = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                                 reconcile::ConditionType::kUnmanagedContainer);
    return unmanaged.size() == 1 && unmanaged[0].pod() == R"(default/\xff\xc0 \xed\xa0\x80)" &&
           unmanaged[0].container() == R"(\xff\xc0 \xed\xa0\x80)";
  }));
}

// --- Methods that may create containers
// -----------------------------------------------------------

TEST_F(ForeignBytes, MethodsThatMayCreateContainersAreRefusedUnread) {
  Start();
  for (const std::string path :
       {"/runtime.v1.RuntimeService/CloneContainer", "/runtime.v2.RuntimeService/CreateContainer",
        "/runtime.v1.RuntimeService/createcontainer", "/runtime.v1.RuntimeService/CreateContainer/",
        "/runtime.v1.RuntimeService/", "/containerd.services.containers.v1.Containers/Create",
        "/containerd.services.tasks.v1.Tasks/Create"}) {
    // Before any message.
    testing::RawCall call(client_, path.c_str(), [](grpc::ClientContext& context) {
      context.set_deadline(std::chrono::system_clock::now() + kPatience);
    });
    EXPECT_EQ(call.Read(), std::nullopt) << path;
    const grpc::Status status = call.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
    EXPECT_NE(status.error_message().find("alignd does not support"), std::string::npos)
        << status.error_message();
    testing::CallUnary(client_, path.c_str(), "\x0a\x01x");
    for (const auto& [method, bytes] : runtime_->Requests()) EXPECT_NE(method, path);
  }
}

TEST_F(ForeignBytes, OtherMethodsOfCriReachTheRuntime) {
  Start();
  for (const std::string path :
       {"/runtime.v1.RuntimeService/Exec", "/runtime.v1.RuntimeService/CheckpointContainer",
        "/runtime.v1.RuntimeService/CheckpointPod", "/runtime.v1.RuntimeService/StreamContainers",
        "/runtime.v1alpha2.RuntimeService/ContainerStats", "/runtime.v1.ImageService/PullImage",
        "/runtime.v1.ImageService/NewInALaterCri", "/grpc.health.v1.Health/Check"}) {
    testing::CallUnary(client_, path.c_str(), "");
    bool received = false;
    for (const auto& [method, bytes] : runtime_->Requests()) received = received || method == path;
    EXPECT_TRUE(received) << path;
  }
}

}  // namespace
}  // namespace alignd::daemon
