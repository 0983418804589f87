// alignd before a runtime whose answers are bytes of the test.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon_fixture.h"
#include "edge/raw_call.h"
#include "sync/mutex.h"

namespace alignd::daemon {

// The runtime runs one container.
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

}  // namespace alignd::daemon
