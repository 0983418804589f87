// What the simulated runtime does not do: it restores pods, knows the cgroup driver or not, and
// streams lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "cli/status_command.h"
#include "edge/logged.h"
#include "edge/run_alignctl.h"
#include "edge/status_conditions.h"
#include "future_fields.h"
#include "raw_runtime_fixture.h"

namespace alignd::daemon {
namespace {

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
  // The default handler is runc.
  Configure(Containerd("true", "false"), kOfSystemd);
  answer = RuntimeConfig();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, std::string("\x0a\x02\x08\x00", 4));
  Configure(Containerd("true", "false"), kOfCgroupfs);
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

class BesideCrio : public BesideRawRuntime {
 protected:
  Options DaemonOptions() const override {
    Options options = BesideRawRuntime::DaemonOptions();
    options.listen = (tree_.root() / socket_).string();
    return options;
  }
  std::vector<control::v1::Condition> Changed() const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                 reconcile::ConditionType::kStatsProviderChanged);
  }
  int Status() const {
    return testing::RunAlignctl({cli::AddStatusCommand},
                                {"status", "--socket", DaemonOptions().ControlSocket()})
        .status;
  }

  std::string socket_ = "run/alignd/alignd.sock";
};

// The kubelet recognises CRI-O by the end of its endpoint.
TEST_F(BesideCrio, ASocketThatIsNotNamedAsOfCrioIsReportedUntilItIs) {
  testing::Logged logged;
  std::atomic<int> listings = 0;
  const auto version = [](const std::string&, std::string& answer) {
    v1::VersionResponse response;
    response.set_runtime_name("cri-o");
    answer = response.SerializeAsString();
    return grpc::Status::OK;
  };
  const auto list = [&](const std::string&, std::string&) {
    ++listings;
    return grpc::Status::OK;
  };
  StartBeside({{"/runtime.v1.RuntimeService/Version", Answering(version)},
               {"/runtime.v1.RuntimeService/ListContainers", Answering(list)}});
  ASSERT_TRUE(Eventually([&] { return !Changed().empty(); }));
  const control::v1::Condition changed = Changed()[0];
  EXPECT_NE(changed.message().find("alignd's socket is " + DaemonOptions().listen + ": "),
            std::string::npos)
      << changed.message();
  EXPECT_NE(changed.remedy().find("run/crio/crio.sock"), std::string::npos) << changed.remedy();
  EXPECT_EQ(Status(), cli::kFailure);
  EXPECT_NE(logged.Take().find("warning StatsProviderChanged: the runtime is CRI-O, but "),
            std::string::npos);

  StopDaemon();
  socket_ = "run/crio/crio.sock";
  listings = 0;
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return listings >= 2; }));  // the first one has been looked at
  EXPECT_TRUE(Changed().empty());
  EXPECT_EQ(Status(), cli::kSuccess);
  StopDaemon();
  const std::string log = logged.Take();
  EXPECT_EQ(log.find("StatsProviderChanged"), std::string::npos) << log;
}

}  // namespace
}  // namespace alignd::daemon
