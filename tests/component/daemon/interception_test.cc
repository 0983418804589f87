// alignd changes the allocated resources in a request and nothing else. Unknown fields are kept.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"
#include "future_fields.h"

namespace alignd::daemon {
namespace {

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
