// alignd changes the allocated resources in a request and nothing else. Unknown fields are kept.
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

constexpr int kFuture = 9999;  // not used by any version of the CRI API

// Adds an unknown field to `message` and to every message in it.
void AddFuture(google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->is_map() || field->cpp_type() != field->CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) AddFuture(*reflection.MutableMessage(&message, field));
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      AddFuture(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
  google::protobuf::UnknownFieldSet& unknown = *reflection.MutableUnknownFields(&message);
  unknown.AddLengthDelimited(kFuture, std::string("\0\xff future", 9));
  unknown.AddVarint(kFuture + 1, 7);
}

void ClearWhatIsAssigned(v1::LinuxContainerResources& resources) {
  resources.clear_cpuset_cpus();
  resources.clear_cpuset_mems();
  resources.clear_cpu_quota();
}

using Interception = DaemonTest;

TEST_F(Interception, CreateKeepsWhatItDoesNotKnow) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("one");
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(Run(pod));
  *request.mutable_config() = Pinned(3);
  request.mutable_config()->add_envs()->set_key("MINE");
  request.mutable_config()->add_mounts()->set_container_path("/mine");
  *request.mutable_sandbox_config() = pod;
  AddFuture(request);
  ASSERT_TRUE(Call<v1::CreateContainerResponse>("CreateContainer", request).status.ok());

  v1::CreateContainerRequest heard;
  ASSERT_TRUE(heard.ParseFromString(runtime_->Requests("CreateContainer").back().bytes));
  EXPECT_EQ(heard.config().linux().resources().cpuset_cpus(), "1-3");
  EXPECT_EQ(heard.mutable_config()->mutable_annotations()->erase(checkpoint::kMarkAnnotation), 1U);
  EXPECT_EQ(heard.mutable_config()->mutable_labels()->erase(checkpoint::kMarkLabel), 1U);
  ClearWhatIsAssigned(*heard.mutable_config()->mutable_linux()->mutable_resources());
  ClearWhatIsAssigned(*request.mutable_config()->mutable_linux()->mutable_resources());
  EXPECT_EQ(heard.SerializeAsString(), request.SerializeAsString());
}

TEST_F(Interception, UpdateKeepsWhatItDoesNotKnow) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(running.container);
  request.mutable_linux()->set_cpu_shares(3072);
  (*request.mutable_annotations())["mine"] = "yes";
  AddFuture(request);
  ASSERT_TRUE(Update(request).ok());

  // alignd's own updates, before and afterwards, have no annotations.
  v1::UpdateContainerResourcesRequest heard;
  for (const auto& [method, bytes] : runtime_->Requests("UpdateContainerResources")) {
    ASSERT_TRUE(heard.ParseFromString(bytes));
    if (heard.annotations_size() > 0) break;
  }
  EXPECT_EQ(heard.linux().cpuset_cpus(), "1-3");
  ClearWhatIsAssigned(*heard.mutable_linux());
  ClearWhatIsAssigned(*request.mutable_linux());
  EXPECT_EQ(heard.SerializeAsString(), request.SerializeAsString());
}

// Calls that alignd only reads are passed on unchanged, also in an unusual encoding.
TEST_F(Interception, WhatIsOnlyLookedAtPassesByteForByte) {
  Start();
  const Running running = RunOne(PodConfig("one"), Pinned(3));
  // An unknown field, then field 1 twice: the last value is valid.
  const auto odd = [](const std::string& id) {
    const std::string field = std::string("\x0a") + static_cast<char>(id.size()) + id;
    return "\x9a\x06\x01x" + std::string("\x0a\x01-") + field;
  };
  for (const auto& [method, id] : {std::pair{"StartContainer", running.container},
                                   std::pair{"RemoveContainer", std::string("unknown")},
                                   std::pair{"StopPodSandbox", running.sandbox},
                                   std::pair{"RemovePodSandbox", running.sandbox}}) {
    const std::string path = "/" + service_ + "/" + method;
    testing::CallUnary(client_, path.c_str(), odd(id));
    const auto heard = runtime_->Requests(method);
    ASSERT_FALSE(heard.empty()) << method;
    EXPECT_EQ(heard.back().bytes, odd(id)) << method;
  }
}

// CRI 0.37: Mount.mount_options is field 11, and the value of an environment variable is bytes.
TEST_F(Interception, CreateKeepsMountOptionsAndValuesThatAreNoText) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("one");
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(Run(pod));
  *request.mutable_config() = Pinned(3);
  v1::Mount& mount = *request.mutable_config()->add_mounts();
  mount.set_container_path("/data");
  google::protobuf::UnknownFieldSet& options = *mount.GetReflection()->MutableUnknownFields(&mount);
  options.AddLengthDelimited(11, "noexec");
  options.AddLengthDelimited(11, "size=\xff");
  v1::KeyValue& env = *request.mutable_config()->add_envs();
  env.set_key("BYTES");
  env.set_value(std::string("\xc3\x28\0\xff", 4));
  *request.mutable_sandbox_config() = pod;
  ASSERT_TRUE(Call<v1::CreateContainerResponse>("CreateContainer", request).status.ok());
  v1::CreateContainerRequest heard;
  ASSERT_TRUE(heard.ParseFromString(runtime_->Requests("CreateContainer").back().bytes));
  EXPECT_EQ(heard.config().linux().resources().cpuset_cpus(), "1-3");
  ASSERT_EQ(heard.config().mounts_size(), 1);
  EXPECT_EQ(heard.config().mounts(0).SerializeAsString(),
            "\x0a\x05/data\x5a\x06noexec\x5a\x06size=\xff");
  ASSERT_EQ(heard.config().envs_size(), 1);
  EXPECT_EQ(heard.config().envs(0).value(), std::string("\xc3\x28\0\xff", 4));
}

// A runtime whose answers are bytes of the test. It runs one container.
class BesideRawRuntime : public DaemonTest {
 protected:
  using Unary = std::function<grpc::Status(const std::string& request, std::string& answer)>;

  ~BesideRawRuntime() override { StopDaemon(); }

  static testing::RawMethod Answering(Unary answer) {
    return [answer = std::move(answer)](grpc::ServerContext&, testing::RawStream& stream) {
      grpc::ByteBuffer request;
      if (!stream.Read(&request)) return grpc::Status(grpc::StatusCode::INTERNAL, "no request");
      std::string message;
      const grpc::Status status = answer(testing::ToText(request), message);
      if (status.ok()) stream.Write(testing::ToBuffer(message));
      return status;
    };
  }

  void StartBeside(std::map<std::string, testing::RawMethod> methods) {
    const std::string service = "/runtime.v1.RuntimeService/";
    const auto add = [&](const std::string& method, Unary answer) {
      methods.emplace(service + method, Answering(std::move(answer)));
    };
    add("Version", [](const std::string&, std::string& answer) {
      v1::VersionResponse response;
      response.set_runtime_name("containerd");
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    add("ListPodSandbox", [this](const std::string&, std::string& answer) {
      v1::ListPodSandboxResponse response;
      const MutexLock lock(mutex_);
      if (restored_) {
        v1::PodSandbox& restored = *response.add_items();
        restored.set_id("s2");
        restored.mutable_metadata()->set_uid("restored");
      }
      v1::PodSandbox& sandbox = *response.add_items();
      sandbox.set_id("s1");
      sandbox.mutable_metadata()->set_uid("one");
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    add("ListContainers", [this](const std::string&, std::string& answer) {
      v1::ListContainersResponse response;
      const MutexLock lock(mutex_);
      for (const char* const name : {"a", "b", "debugger"}) {
        if (!restored_) break;
        v1::Container& restored = *response.add_containers();
        restored.set_id(std::string("restored-") + name);
        restored.set_pod_sandbox_id("s2");
        restored.mutable_metadata()->set_name(name);
        restored.set_state(v1::CONTAINER_CREATED);
      }
      v1::Container& container = *response.add_containers();
      container.set_id("c1");
      container.set_pod_sandbox_id("s1");
      container.mutable_metadata()->set_name("app");
      container.set_state(v1::CONTAINER_RUNNING);
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    add("UpdateContainerResources", [this](const std::string& bytes, std::string&) {
      v1::UpdateContainerResourcesRequest request;
      request.ParseFromString(bytes);
      const MutexLock lock(mutex_);
      done_.push_back(request.container_id() + " on " + request.linux().cpuset_cpus());
      return grpc::Status::OK;
    });
    add("StartContainer", [this](const std::string& bytes, std::string&) {
      v1::StartContainerRequest request;
      request.ParseFromString(bytes);
      const MutexLock lock(mutex_);
      done_.push_back(request.container_id() + " starts");
      return grpc::Status::OK;
    });
    add("RestorePod", [this](const std::string& bytes, std::string& answer) {
      v1::RestorePodRequest request;
      request.ParseFromString(bytes);
      v1::RestorePodResponse response;
      const MutexLock lock(mutex_);
      heard_.push_back(request);
      if (fails_) return grpc::Status(grpc::StatusCode::UNKNOWN, "no such checkpoint");
      restored_ = true;
      response.set_pod_sandbox_id("s2");
      for (const v1::ContainerConfig& config : request.container_configs()) {
        v1::RestoredContainer& container = *response.add_restored_containers();
        container.set_name(config.metadata().name());
        container.set_container_id("restored-" + std::string(config.metadata().name()));
      }
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    add("ContainerStatus", [this](const std::string&, std::string& answer) {
      v1::ContainerStatusResponse response;
      const MutexLock lock(mutex_);
      (*response.mutable_info())["info"] =
          R"({"runtimeSpec":{"linux":{"cgroupsPath":")" + cgroup_ + R"("}}})";
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    add("Status", [this](const std::string& request, std::string& answer) {
      v1::StatusRequest asked;
      v1::StatusResponse response;
      const MutexLock lock(mutex_);
      if (asked.ParseFromString(request) && asked.verbose() && !config_.empty()) {
        (*response.mutable_info())["config"] = config_;
      }
      answer = response.SerializeAsString();
      return grpc::Status::OK;
    });
    raw_ = std::make_unique<testing::RawServer>(RuntimeEndpoint(), methods);
    StartDaemon();
  }

  void Configure(std::string config, std::string cgroup) {
    const MutexLock lock(mutex_);
    config_ = std::move(config);
    cgroup_ = std::move(cgroup);
  }

  testing::RawAnswer RuntimeConfig() const {
    return testing::CallUnary(client_, "/runtime.v1.RuntimeService/RuntimeConfig", "",
                              [](grpc::ClientContext& context) {
                                context.set_deadline(std::chrono::system_clock::now() + kPatience);
                              });
  }

  grpc::Status Restore(const v1::RestorePodRequest& request) const {
    return Call<v1::RestorePodResponse>("RestorePod", request).status;
  }
  std::vector<v1::RestorePodRequest> Heard() {
    const MutexLock lock(mutex_);
    return heard_;
  }

  Mutex mutex_;
  bool fails_ GUARDED_BY(mutex_) = false;     // RestorePod
  bool restored_ GUARDED_BY(mutex_) = false;  // a pod
  std::vector<v1::RestorePodRequest> heard_ GUARDED_BY(mutex_);
  std::vector<std::string> done_ GUARDED_BY(mutex_);
  std::string config_ GUARDED_BY(mutex_);
  std::string cgroup_ GUARDED_BY(mutex_);
  std::unique_ptr<testing::RawServer> raw_;
};

// CRI-O restores a container from an image that is a checkpoint, without the devices of the
// request.
TEST_F(BesideRawRuntime, CrioRestoresNoContainerWithDevices) {
  std::atomic<int> created = 0;
  const auto version = [](const std::string&, std::string& answer) {
    v1::VersionResponse response;
    response.set_runtime_name("cri-o");
    answer = response.SerializeAsString();
    return grpc::Status::OK;
  };
  const auto image_status = [](const std::string& bytes, std::string& answer) {
    v1::ImageStatusRequest request;
    request.ParseFromString(bytes);
    v1::ImageStatusResponse response;
    const std::string image = request.image().image();
    if (image == "broken") return grpc::Status(grpc::StatusCode::INTERNAL, "its storage is broken");
    if (image != "absent") response.mutable_image()->set_id(image);
    auto& annotations = *response.mutable_image()->mutable_spec()->mutable_annotations();
    annotations["org.opencontainers.image.created"] = "now";
    if (image == "checkpoint") {
      annotations["io.kubernetes.cri-o.annotations.checkpoint.name"] = "app";
    }
    if (image == "absent") response.clear_image();
    answer = response.SerializeAsString();
    return grpc::Status::OK;
  };
  const auto create = [&](const std::string&, std::string& answer) {
    v1::CreateContainerResponse response;
    response.set_container_id("created-" + std::to_string(++created));
    answer = response.SerializeAsString();
    return grpc::Status::OK;
  };
  StartBeside({{"/runtime.v1.RuntimeService/Version", Answering(version)},
               {"/runtime.v1.ImageService/ImageStatus", Answering(image_status)},
               {"/runtime.v1.RuntimeService/CreateContainer", Answering(create)}});
  const v1::PodSandboxConfig pod = PodConfig("one", "", Annotation(3, 1));
  v1::ContainerConfig container = Shared();
  container.mutable_metadata()->set_name("other");
  const auto answer_for = [&](const char* image) {
    container.mutable_image()->set_image(image);
    return Create("s1", pod, container).status;
  };
  const grpc::Status without_devices = answer_for("checkpoint");
  EXPECT_TRUE(without_devices.ok()) << without_devices.error_message();
  EXPECT_EQ(created, 1);
  StartGpus();
  EXPECT_EQ(answer_for("checkpoint").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  container = Pinned(3);
  const grpc::Status refused = answer_for("checkpoint");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(refused.error_message().find("image checkpoint is a checkpoint: CRI-O gives"),
            std::string::npos)
      << refused.error_message();
  EXPECT_EQ(answer_for("/var/lib/checkpoint.tar").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // What is not known is refused.
  EXPECT_NE(answer_for("broken").error_message().find("its storage is broken"), std::string::npos);
  EXPECT_NE(answer_for("absent").error_message().find("no such image"), std::string::npos);
  EXPECT_EQ(created, 1);
  const grpc::Status accepted = answer_for("plain");
  EXPECT_TRUE(accepted.ok()) << accepted.error_message();
  EXPECT_EQ(created, 2);
}

constexpr char kOfSystemd[] = "kubepods-podone.slice:cri-containerd:c1";
constexpr char kOfCgroupfs[] = "/kubepods/podone/c1";

// The configuration of containerd with this value of its runtime handlers runc and other.
std::string Containerd(const std::string& runc, const std::string& other) {
  return R"({"containerd":{"defaultRuntimeName":"runc","runtimes":{)"
         R"("other":{"runtimeType":"io.containerd.runc.v2","options":{"SystemdCgroup":)" +
         other + R"(}},"runc":{"runtimeType":"io.containerd.runc.v2","options":{"SystemdCgroup":)" +
         runc + R"(}}}}})";
}

// containerd 1.6 and 1.7; kubelets from 1.38 refuse a runtime without it.
TEST_F(BesideRawRuntime, RuntimeConfigIsAnsweredFromTheRuntimesConfigurationIfCgroupsAgree) {
  StartBeside({});
  const auto unimplemented = [this] {
    return RuntimeConfig().status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  };
  Configure(Containerd("true", "true"), kOfSystemd);
  testing::RawAnswer answer = RuntimeConfig();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, std::string("\x0a\x02\x08\x00", 4));
  Configure(Containerd("false", "false"), kOfCgroupfs);
  answer = RuntimeConfig();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, "\x0a\x02\x08\x01");
  Configure(Containerd("false", "false"), "/k8s.io/c1");  // not of a kubelet
  EXPECT_TRUE(RuntimeConfig().status.ok());
  Configure(Containerd("false", "false"), kOfSystemd);
  EXPECT_TRUE(unimplemented());
  Configure(Containerd("true", "true"), kOfCgroupfs);
  EXPECT_TRUE(unimplemented());
  Configure(Containerd("true", "false"), kOfSystemd);
  EXPECT_TRUE(unimplemented());
  Configure("", kOfSystemd);
  EXPECT_TRUE(unimplemented());
}

TEST_F(BesideRawRuntime, RuntimeConfigOfARuntimeThatHasItPassesByteForByte) {
  const std::string odd("\x9a\x06\x01x\x0a\x04\x08\x00\x10\x07", 10);
  std::atomic<bool> fails = false;
  StartBeside({{"/runtime.v1.RuntimeService/RuntimeConfig",
                Answering([&](const std::string&, std::string& answer) {
                  answer = odd;
                  return fails ? grpc::Status(grpc::StatusCode::INTERNAL, "its own reason")
                               : grpc::Status::OK;
                })}});
  Configure(Containerd("false", "false"), kOfCgroupfs);
  testing::RawAnswer answer = RuntimeConfig();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, odd);
  fails = true;
  answer = RuntimeConfig();
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(answer.status.error_message(), "its own reason");
}

v1::RestorePodRequest Restoring(const std::string& uid,
                                const std::vector<v1::ContainerConfig>& containers) {
  v1::RestorePodRequest request;
  request.set_checkpoint_path("/checkpoints/one");
  *request.mutable_config() = PodConfig(uid);
  (*request.mutable_options())["tcp"] = "close";
  for (const v1::ContainerConfig& config : containers) *request.add_container_configs() = config;
  return request;
}

TEST_F(BesideRawRuntime, RestoredContainersGetWhatCreateContainerGives) {
  StartBeside({});
  v1::ContainerConfig debugger = Shared("debugger");
  debugger.mutable_linux()->mutable_resources()->set_cpu_shares(2);
  v1::RestorePodRequest request = Restoring("restored", {Pinned(2, "a"), Pinned(1, "b"), debugger});
  AddFuture(request);
  const grpc::Status status = Restore(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(Heard().size(), 1U);
  v1::RestorePodRequest heard = Heard()[0];
  const auto resources = [&](int container) {
    return heard.container_configs(container).linux().resources();
  };
  EXPECT_EQ(resources(0).cpuset_cpus(), "1-2");
  EXPECT_EQ(resources(0).cpu_quota(), -1);
  EXPECT_EQ(resources(1).cpuset_cpus(), "3");
  EXPECT_EQ(resources(1).cpu_quota(), -1);
  EXPECT_EQ(resources(2).cpuset_cpus(), "0,4-27");
  EXPECT_EQ(resources(2).cpu_quota(), 0);
  size_t marks = 0;
  for (v1::RestorePodRequest* message : {&heard, &request}) {
    for (v1::ContainerConfig& config : *message->mutable_container_configs()) {
      ClearWhatIsAssigned(*config.mutable_linux()->mutable_resources());
      marks += config.mutable_annotations()->erase(checkpoint::kMarkAnnotation);
      marks += config.mutable_labels()->erase(checkpoint::kMarkLabel);
    }
  }
  EXPECT_EQ(marks, 4U);  // the debug container is of the shared pool
  EXPECT_EQ(heard.SerializeAsString(), request.SerializeAsString());
  EXPECT_NE(State().find(R"("restored":{"a":"1-2","b":"3"})"), std::string::npos) << State();
  // The other container leaves the exclusive CPUs before the first one starts.
  const grpc::Status started = StartContainer("restored-a");
  ASSERT_TRUE(started.ok()) << started.error_message();
  const MutexLock lock(mutex_);
  const auto moved = std::ranges::find(done_, "c1 on 0,4-27");
  ASSERT_NE(moved, done_.end());
  EXPECT_NE(std::find(moved, done_.end(), "restored-a starts"), done_.end());
}

TEST_F(BesideRawRuntime, PodThatIsNotRestoredKeepsNothing) {
  StartBeside({});
  const auto nothing_is_kept = [this] {
    return Eventually([this] { return State().find("entries") == std::string::npos; });
  };
  // The second container does not fit.
  const grpc::Status refused = Restore(Restoring("p", {Pinned(2, "a"), Pinned(40, "b")}));
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Heard().empty());
  EXPECT_TRUE(nothing_is_kept()) << State();
  const grpc::Status same = Restore(Restoring("p", {Pinned(2, "a"), Pinned(1, "a")}));
  EXPECT_EQ(same.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Heard().empty());
  {
    const MutexLock lock(mutex_);
    fails_ = true;
  }
  const grpc::Status failed = Restore(Restoring("p", {Pinned(2, "a")}));
  EXPECT_EQ(failed.error_code(), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(failed.error_message(), "no such checkpoint");
  ASSERT_EQ(Heard().size(), 1U);
  EXPECT_EQ(Heard()[0].container_configs(0).linux().resources().cpuset_cpus(), "1-2");
  EXPECT_TRUE(nothing_is_kept()) << State();
}

// Bytes of CRI 0.37, encoded by hand: two pod sandboxes, one more with a field that no version has,
// and an end with or without an error.
TEST_F(BesideRawRuntime, StreamsOfListsPassMessageByMessage) {
  const std::string metadata("\x12\x0e\x0a\x03web\x12\x01u\x1a\x02ns\x20\x01", 16);
  const std::vector<std::string> messages = {
      std::string("\x0a\x15\x0a\x01"
                  "a",
                  5) +
          metadata + std::string("\x18\x00", 2) +
          std::string("\x0a\x13\x0a\x01"
                      "b",
                      5) +
          metadata,
      std::string("\x0a\x08\x0a\x01"
                  "c\x9a\x06\x02\xff\x00",
                  10),
      "",
  };
  std::map<std::string, testing::RawMethod> methods;
  const std::vector<std::string> names = {
      "/runtime.v1.RuntimeService/StreamPodSandboxes",
      "/runtime.v1.RuntimeService/StreamContainers",
      "/runtime.v1.RuntimeService/StreamContainerStats",
      "/runtime.v1.RuntimeService/StreamPodSandboxStats",
      "/runtime.v1.RuntimeService/StreamPodSandboxMetrics",
      "/runtime.v1.ImageService/StreamImages",
  };
  for (const std::string& name : names) {
    methods[name] = [&messages](grpc::ServerContext&, testing::RawStream& stream) {
      grpc::ByteBuffer request;
      if (!stream.Read(&request)) return grpc::Status(grpc::StatusCode::INTERNAL, "no request");
      for (const std::string& message : messages) stream.Write(testing::ToBuffer(message));
      return testing::ToText(request).empty()
                 ? grpc::Status::OK
                 : grpc::Status(grpc::StatusCode::NOT_FOUND, "no such filter");
    };
  }
  StartBeside(methods);
  for (const std::string& name : names) {
    for (const std::string request : {"", "\x0a\x03\x0a\x01x"}) {
      testing::RawCall call(client_, name.c_str(), [](grpc::ClientContext& context) {
        context.set_deadline(std::chrono::system_clock::now() + kPatience);
      });
      call.Write(request);
      call.WritesDone();
      for (const std::string& message : messages) EXPECT_EQ(call.Read(), message) << name;
      EXPECT_EQ(call.Read(), std::nullopt) << name;
      EXPECT_EQ(call.Finish().error_message(), request.empty() ? "" : "no such filter") << name;
    }
  }
}

// CreateContainer waits for no other pod's device plugin, runtime call or reconciliation.
TEST_F(Interception, ContainerWithoutExclusiveResourcesIsNotDelayed) {
  Start();
  StartGpus();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const v1::PodSandboxConfig pinned = PodConfig("pinned");
  const std::string sandbox = Run(pinned);
  for (const char* const method :
       {"UpdateContainerResources", "ListPodSandbox", "ListContainers", "Status"}) {
    runtime_->SetDelay(method, seconds(60));
  }
  gpus_->SetManner(simulator::Manner::kHang);
  auto wants_gpu = std::async(std::launch::async, [&] {
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = PodConfig("wants", "", Annotation(2, 1));
    return Call<v1::RunPodSandboxResponse>("RunPodSandbox", request).status;
  });
  const auto created = Create(sandbox, pinned, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  auto start = std::async(std::launch::async,
                          [&] { return StartContainer(created.response.container_id()); });
  auto status = std::async(std::launch::async, [&] {
    return Call<v1::StatusResponse>("Status", v1::StatusRequest()).status;
  });
  // The update that moves the shared container hangs.
  ASSERT_TRUE(Eventually([&] { return !runtime_->Requests("UpdateContainerResources").empty(); }));

  const Running other = RunOne(BurstablePod("other"), Shared());
  // The order of the calls that need the GPU makes no difference.
  const CpuSet own = *CpuSet::Parse(CpusOf(created.response.container_id()));
  EXPECT_EQ(own.Count(), 3);
  EXPECT_EQ(CpusOf(other.container), (*CpuSet::Parse("0-27") - own).ToString());
  EXPECT_EQ(CpusOf(shared.container), "0-27");  // still
  daemon_.reset();
  EXPECT_FALSE(wants_gpu.get().ok());
  EXPECT_FALSE(start.get().ok());
  EXPECT_FALSE(status.get().ok());
}

}  // namespace
}  // namespace alignd::daemon
