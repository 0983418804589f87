// Replays the recorded CRI calls of real kubelets to the whole daemon. Every container gets the
// resources of its pod; everything else reaches the runtime unchanged.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/checkpoint/mark_annotation.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/captured_pods.h"
#include "host/file.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using testing::Made;

// The node of the recorded scenarios, with huge pages and a static memory manager.
std::string NodeWithHugepages() {
  std::string node = BlogNode();
  const std::string memory = "\"memory\":67645734912,";
  for (size_t at = node.find(memory); at != std::string::npos; at = node.find(memory, at + 1)) {
    node.insert(at + memory.size(), "\"hugepages\":{\"2097152\":512},");
  }
  return node;
}

constexpr char kPinMemory[] =
    "topologyManagerPolicy: best-effort\nmemoryManagerPolicy: Static\n"
    "kubeReserved: {memory: 924Mi}\n"
    "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n";

// The pod as the kubelet's Pods API would serve it.
Pod PodOf(const std::string& uid, const std::string& name, const Made& made) {
  Pod pod = MakePod(uid, {});
  for (const auto& [container, sizes] : made.containers) {
    const ContainerKind kind = container == "prepare" || container == "once" ? ContainerKind::kInit
                               : container == "side" ? ContainerKind::kSidecar
                                                     : ContainerKind::kApp;
    std::map<std::string, std::string> requests;
    std::map<std::string, std::string> limits;
    if (sizes[0] > 0) requests["cpu"] = std::to_string(sizes[0]) + "m";
    if (sizes[1] > 0) limits["cpu"] = std::to_string(sizes[1]) + "m";
    if (sizes[2] > 0) requests["memory"] = limits["memory"] = std::to_string(sizes[2]) + "Mi";
    if (sizes.size() > 3) limits["hugepages-2Mi"] = std::to_string(sizes[3]) + "Mi";
    if (name.starts_with("podlevel-") && container == "a") requests.clear(), limits.clear();
    pod.containers.push_back({container, kind, {Amounts(requests), Amounts(limits)}});
  }
  // The containers start in the order of the pod spec: the sidecar first.
  std::ranges::stable_sort(pod.containers, {}, [](const Container& container) {
    return container.kind == ContainerKind::kSidecar ? -1 : static_cast<int>(container.kind);
  });
  if (name.starts_with("podlevel-")) {
    const ResourceList amounts = Amounts({{"cpu", "1"}, {"memory", "100Mi"}});
    pod.pod_level = Resources{amounts, amounts};
  }
  pod.stated_qos = made.qos;
  return pod;
}

class DaemonReplayTest : public DaemonTest {
 protected:
  DaemonReplayTest() { tree_.Write({"node.json", NodeWithHugepages()}); }

  // Sends every request of the directory, in order. `api`: the Pods API serves the pods.
  void Replay(const fs::path& directory, bool api) {
    const auto names = host::ListDirectory(directory);
    ASSERT_TRUE(names.ok()) << names.error().Text();
    if (api) {
      auto server = simulator::PodsApi::Start(PodsApiEndpoint());
      ASSERT_TRUE(server.ok()) << server.error().Text();
      api_ = *std::move(server);
    }
    for (const std::string& name : *names) {
      if (!name.ends_with(".req.bin")) continue;
      SCOPED_TRACE((directory / name).string());
      const std::string stem = name.substr(0, name.size() - std::string(".req.bin").size());
      Say(stem.substr(stem.find('-') + 1), testing::BytesOf(directory / name),
          testing::BytesOf(directory / (stem + ".resp.bin")));
      if (HasFatalFailure()) return;
    }
  }

  int creates() const { return creates_; }

 private:
  void Say(const std::string& method, const std::string& request, const std::string& response) {
    if (method == "RunPodSandbox") return SayRun(request, response);
    if (method == "CreateContainer") return SayCreate(request, response);
    if (method == "StartContainer") return SayStart(request);
    if (method == "StopContainer") return SayOf<v1::StopContainerRequest>(method, request);
    if (method == "RemoveContainer") return SayOf<v1::RemoveContainerRequest>(method, request);
    if (method == "StopPodSandbox") return SayOfSandbox<v1::StopPodSandboxRequest>(method, request);
    if (method == "RemovePodSandbox") {
      return SayOfSandbox<v1::RemovePodSandboxRequest>(method, request);
    }
    if (method == "UpdateContainerResources") return SayUpdate(request);
    FAIL() << "unknown method";
  }

  void SayRun(const std::string& bytes, const std::string& response) {
    v1::RunPodSandboxRequest request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    const v1::PodSandboxMetadata& metadata = request.config().metadata();
    const Made* made = testing::MadeOf(metadata.name());
    ASSERT_NE(made, nullptr) << metadata.name();
    if (api_) api_->SetPod(PodOf(metadata.uid(), metadata.name(), *made));
    const auto answer = Relayed<v1::RunPodSandboxResponse>("RunPodSandbox", bytes);
    v1::RunPodSandboxResponse recorded;
    ASSERT_TRUE(recorded.ParseFromString(response));
    ids_[recorded.pod_sandbox_id()] = answer.pod_sandbox_id();
  }

  void SayCreate(const std::string& bytes, const std::string& response) {
    v1::CreateContainerRequest sent;
    ASSERT_TRUE(sent.ParseFromString(bytes));
    sent.set_pod_sandbox_id(IdNow(sent.pod_sandbox_id()));
    const auto answer = Call<v1::CreateContainerResponse>("CreateContainer", sent);
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    v1::CreateContainerResponse recorded;
    ASSERT_TRUE(recorded.ParseFromString(response));
    ids_[recorded.container_id()] = answer.response.container_id();
    v1::CreateContainerRequest received;
    ASSERT_TRUE(received.ParseFromString(runtime_->Requests("CreateContainer").back().bytes));
    CheckReceived(sent, received);
    ++creates_;
  }

  // Checks the allocated resources, and that nothing else was changed.
  void CheckReceived(v1::CreateContainerRequest sent, v1::CreateContainerRequest received) const {
    const std::string& pod = sent.sandbox_config().metadata().name();
    const Made* made = testing::MadeOf(pod);
    ASSERT_NE(made, nullptr) << pod;
    const std::string& container = sent.config().metadata().name();
    SCOPED_TRACE(pod + " " + container);
    const int64_t millis = made->containers.at(container)[0];
    const bool guaranteed = made->qos == QosClass::kGuaranteed;
    // Only the API shows that pod-level resources replace the container's.
    const bool pod_level = pod.starts_with("podlevel-") && api_;
    const int cpus = guaranteed && !pod_level && millis % 1000 == 0 ? int(millis / 1000) : 0;

    v1::LinuxContainerResources& asked =
        *sent.mutable_config()->mutable_linux()->mutable_resources();
    v1::LinuxContainerResources& allocated =
        *received.mutable_config()->mutable_linux()->mutable_resources();
    const Result<CpuSet> cpuset = CpuSet::Parse(allocated.cpuset_cpus());
    ASSERT_TRUE(cpuset.ok()) << allocated.cpuset_cpus();
    if (cpus > 0) {
      EXPECT_EQ(cpuset->Count(), cpus) << allocated.cpuset_cpus();
      EXPECT_EQ(allocated.cpu_quota(), -1);
    } else {
      EXPECT_TRUE(cpuset->Contains(0))
          << allocated.cpuset_cpus();  // reserved, and therefore in the shared pool
      EXPECT_EQ(allocated.cpu_quota(), asked.cpu_quota());
    }
    EXPECT_EQ(allocated.cpuset_mems(), guaranteed && !pod_level ? "0" : asked.cpuset_mems());
    auto& annotations = *received.mutable_config()->mutable_annotations();
    auto& labels = *received.mutable_config()->mutable_labels();
    const size_t marks = guaranteed && !pod_level ? 1 : 0;
    EXPECT_EQ(annotations.erase(checkpoint::kMarkAnnotation), marks);
    EXPECT_EQ(labels.erase(checkpoint::kMarkLabel), marks);
    for (v1::LinuxContainerResources* resources : {&asked, &allocated}) {
      resources->clear_cpuset_cpus();
      resources->clear_cpuset_mems();
      resources->clear_cpu_quota();
    }
    // Unknown fields, too.
    std::string differences;
    MessageDifferencer differencer;
    differencer.ReportDifferencesToString(&differences);
    EXPECT_TRUE(differencer.Compare(sent, received)) << differences;
  }

  void SayStart(const std::string& bytes) {
    v1::StartContainerRequest request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    request.set_container_id(IdNow(request.container_id()));
    Relayed<v1::StartContainerResponse>("StartContainer", request.SerializeAsString());
    const auto started = runtime_->FindContainer(request.container_id());
    ASSERT_TRUE(started);
    const std::string& name = started->config.metadata().name();
    if (name == "prepare" || name == "once") runtime_->EndContainer(started->id, 0);
  }

  template <typename Request>
  void SayOf(const std::string& method, const std::string& bytes) {
    Request request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    request.set_container_id(IdNow(request.container_id()));
    Relayed<v1::StopContainerResponse>(method, request.SerializeAsString());
  }
  template <typename Request>
  void SayOfSandbox(const std::string& method, const std::string& bytes) {
    Request request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    request.set_pod_sandbox_id(IdNow(request.pod_sandbox_id()));
    Relayed<v1::StopPodSandboxResponse>(method, request.SerializeAsString());
  }

  // The kubelet has a CPU manager of its own; alignd's cpuset wins.
  void SayUpdate(const std::string& bytes) {
    v1::UpdateContainerResourcesRequest request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    request.set_container_id(IdNow(request.container_id()));
    const std::string before = CpusOf(request.container_id());
    EXPECT_TRUE(Update(request).ok());
    EXPECT_EQ(CpusOf(request.container_id()), before);
  }

  // The runtime's answer. The runtime must have received exactly these bytes. Containers of before
  // the recording are missing here.
  template <typename Response>
  Response Relayed(const std::string& method, const std::string& bytes) {
    const testing::RawAnswer raw = testing::CallUnary(
        client_, ("/" + service_ + "/" + method).c_str(), bytes, [](grpc::ClientContext& context) {
          context.set_deadline(std::chrono::system_clock::now() + kPatience);
        });
    EXPECT_TRUE(raw.status.ok() || raw.status.error_code() == grpc::StatusCode::NOT_FOUND)
        << raw.status.error_message();
    EXPECT_TRUE(runtime_->Requests(method).back().bytes == bytes);
    Response response;
    EXPECT_TRUE(!raw.message || response.ParseFromString(*raw.message));
    return response;
  }

  std::string IdNow(const std::string& recorded) const {
    const auto id = ids_.find(recorded);
    return id == ids_.end() ? recorded : id->second;
  }

  std::map<std::string, std::string>
      ids_;  // recorded id -> id of this run; sandboxes and containers
  std::unique_ptr<simulator::PodsApi> api_;
  int creates_ = 0;
};

// --- The selection in this repository ---------------------------------------------------------

struct Recording {
  const char* directory;
  bool api;
};
std::string NameOf(const ::testing::TestParamInfo<Recording>& info) {
  std::string name = info.param.directory;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.' || c == '/'; }, '_');
  return name + (info.param.api ? "_with_pods_api" : "");
}

class DaemonReplay : public DaemonReplayTest, public ::testing::WithParamInterface<Recording> {
 protected:
  void ReplayIn(const fs::path& recordings) {
    const std::string directory = GetParam().directory;
    if (directory.starts_with("kubelet-1.20")) service_ = "runtime.v1alpha2.RuntimeService";
    Start(StaticConfig(kPinMemory));
    Replay(recordings / directory, GetParam().api);
  }
};

class SelectedRequests : public DaemonReplay {};

TEST_P(SelectedRequests, GiveEachContainerWhatItsPodWasMadeWith) {
  ReplayIn(fs::path(ALIGND_SOURCE_DIR) / "tests" / "data" / "replay");
  EXPECT_GE(creates(), 2);
}
INSTANTIATE_TEST_SUITE_P(Replay, SelectedRequests,
                         ::testing::Values(Recording{"kubelet-1.36", false},
                                           Recording{"kubelet-1.36", true},
                                           Recording{"kubelet-1.36-cgroup-v2", false},
                                           Recording{"kubelet-1.36-cgroup-v2", true},
                                           Recording{"kubelet-1.20", false}),
                         NameOf);

class AllRequests : public DaemonReplay {};

TEST_P(AllRequests, GiveEachContainerWhatItsPodWasMadeWith) {
  const fs::path captures = testing::AllCaptures();
  if (!fs::exists(captures)) GTEST_SKIP() << "no captures in " << captures;
  ReplayIn(captures);
  EXPECT_GE(creates(), 4);
}
INSTANTIATE_TEST_SUITE_P(Replay, AllRequests,
                         ::testing::Values(Recording{"kubelet-1.36", false},
                                           Recording{"kubelet-1.36", true},
                                           Recording{"kubelet-1.36/cgroup-v2", false},
                                           Recording{"kubelet-1.36/cgroup-v2", true},
                                           Recording{"kubelet-1.36/static-policy", false},
                                           Recording{"kubelet-1.20", false}),
                         NameOf);

}  // namespace
}  // namespace alignd::daemon
