// State files are damaged or removed while containers run: every exclusive container keeps its
// CPUs, memory nodes and devices, and the next decision is as without the damage. The fixture
// checks after every change of a container that no container runs on exclusive CPUs of another.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using control::v1::Condition;
using reconcile::ConditionType;

constexpr char kAdoptCpu[] = "cpu_manager_state";
constexpr char kAdoptMemory[] = "memory_manager_state";
constexpr char kAdoptDevices[] = "device-plugins/kubelet_internal_checkpoint";

std::string WithMemory() {
  return StaticConfig(
      "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
      "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
      "topologyManagerPolicy: best-effort\n");
}

admission::AssignmentMark MarkOfCpus(const CpuSet& cpus) {
  admission::AssignmentMark mark;
  mark.cpus = cpus;
  return mark;
}

class DaemonAdoption : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.on_bad_state = on_bad_state_;
    return options;
  }

  // A text that replaces that of a file; nullopt: the file is removed.
  using Damage = std::function<std::optional<std::string>(const std::string& text)>;
  static std::map<std::string, Damage> Damages() {
    return {
        {"removed", [](const std::string&) { return std::nullopt; }},
        {"empty", [](const std::string&) { return ""; }},
        {"truncated", [](const std::string& text) { return text.substr(0, text.size() / 2); }},
        {"changed",
         [](std::string text) {
           text[text.size() * 3 / 4] ^= 1;
           return text;
         }},
        {"edited", [](const std::string& text) { return text.substr(0, text.size() - 2) + "}"; }},
        {"foreign", [](const std::string&) { return R"({"version":99,"state":[]})"; }},
        {"noise", [](const std::string&) { return std::string("\0\xff\x01", 3); }},
    };
  }
  void Apply(const Damage& damage, const fs::path& file) const {
    const std::optional<std::string> text = damage(ReadText(file));
    if (text) {
      std::ofstream(file, std::ios::binary) << *text;
    } else {
      fs::remove(file);
    }
  }
  // The names that bad files were given.
  std::vector<fs::path> KeptFiles() const {
    std::vector<fs::path> kept;
    for (const auto& entry : fs::recursive_directory_iterator(StateDir())) {
      if (entry.path().filename().string().find(".bad-") != std::string::npos) {
        kept.push_back(entry.path());
      }
    }
    return kept;
  }
  std::vector<Condition> ConditionsNow(ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  // After the start: the runtime has been listed, and what was adopted is on the disk.
  void AwaitState(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(Eventually([&] { return ReadText(StateDir() / name) == text; }))
        << ReadText(StateDir() / name) << "\n instead of \n"
        << text;
  }
  std::map<std::string, std::set<std::string>> GpusInState() const {
    std::map<std::string, std::set<std::string>> gpus;
    const auto read = checkpoint::ParseDeviceCheckpoint(ReadText(StateDir() / kAdoptDevices));
    if (!read.ok()) return gpus;
    for (const auto& [key, resources] : read->allocations) {
      gpus[key.pod_uid] = resources.at(kGpu).Ids();
    }
    return gpus;
  }

  std::string PlaceOf(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    if (!container) return "gone";
    std::string place =
        container->resources.cpuset_cpus() + " mems " + container->resources.cpuset_mems();
    for (const auto& env : container->config.envs()) {
      if (env.key() == "NVIDIA_VISIBLE_DEVICES") place += " " + env.value();
    }
    return place;
  }
  std::string MarkOf(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    const auto& annotations = container->config.annotations();
    const auto mark = annotations.find(checkpoint::kMarkAnnotation);
    return mark == annotations.end() ? "none" : mark->second;
  }
  std::string MarkIdOf(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    const auto label = container->config.labels().find(checkpoint::kMarkLabel);
    return label == container->config.labels().end() ? "none" : label->second;
  }
  // Creates the container of the pod again, as a kubelet does after it has ended.
  std::string CreateAgain(Running& running, const v1::PodSandboxConfig& pod,
                          v1::ContainerConfig container) const {
    EXPECT_TRUE(runtime_->EndContainer(running.container, 1));
    container.mutable_metadata()->set_attempt(1);
    const auto created = Create(running.sandbox, pod, container);
    EXPECT_TRUE(created.status.ok()) << created.status.error_message();
    const grpc::Status started = StartContainer(created.response.container_id());
    EXPECT_TRUE(started.ok()) << started.error_message();
    running.container = created.response.container_id();
    return PlaceOf(running.container);
  }

  // A container at the runtime's own socket, with the mark of these CPUs; without a label if that
  // is empty.
  Running RunMarked(const std::string& uid, const CpuSet& cpus, const std::string& label = "id") {
    const std::shared_ptr<grpc::Channel> ours = client_;
    client_ = *simulator::Dial(RuntimeEndpoint());
    v1::ContainerConfig container = Shared();
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus(cpus.ToString());
    (*container.mutable_annotations())[checkpoint::kMarkAnnotation] =
        checkpoint::FormatMark({uid, "app"}, "id", MarkOfCpus(cpus));
    if (!label.empty()) (*container.mutable_labels())[checkpoint::kMarkLabel] = label;
    const Running running = RunOne(PodConfig(uid), container);
    client_ = ours;
    return running;
  }

  allocation::OnBadState on_bad_state_ = allocation::OnBadState::kRebuild;
};

TEST_F(DaemonAdoption, AnyDamageOfAnyFileChangesNothingForContainersAndDecisions) {
  Start(WithMemory());
  StartGpus();
  const v1::PodSandboxConfig pod = PodConfig("gpu", "", Annotation(3, 1));
  Running with_gpu = RunOne(pod, Pinned(3));
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(14));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const std::string gpu_place = PlaceOf(with_gpu.container);
  const std::string pinned_place = PlaceOf(pinned.container);
  ASSERT_EQ(gpu_place, std::string("1-3 mems 0 ") + kGpuOfNode0);
  const Running probe = RunOne(PodConfig("probe"), Pinned(2));
  const std::string probe_place = PlaceOf(probe.container);
  ASSERT_TRUE(RemoveSandbox(probe.sandbox).ok());
  ASSERT_TRUE(Eventually([&] {
    return (State() + ReadText(StateDir() / kAdoptMemory)).find("probe") == std::string::npos;
  }));
  const std::string cpu_text = State();
  const std::string memory_text = ReadText(StateDir() / kAdoptMemory);
  const auto gpus = GpusInState();

  int round = 0;
  const std::vector<std::vector<std::string>> sets = {
      {kAdoptCpu}, {kAdoptMemory}, {kAdoptDevices}, {kAdoptCpu, kAdoptMemory, kAdoptDevices}};
  for (const std::vector<std::string>& files : sets) {
    for (const auto& [name, damage] : Damages()) {
      SCOPED_TRACE(files.front() + (files.size() > 1 ? " and all others " : " ") + name);
      StopDaemon();
      for (const std::string& file : files) Apply(damage, StateDir() / file);
      StartDaemon(WithMemory());
      const Running next = RunOne(PodConfig("next" + std::to_string(round)), Pinned(2));
      EXPECT_EQ(PlaceOf(next.container), probe_place);
      ASSERT_TRUE(RemoveSandbox(next.sandbox).ok());
      AwaitState(kAdoptCpu, cpu_text);
      AwaitState(kAdoptMemory, memory_text);
      EXPECT_TRUE(Eventually([&] { return GpusInState() == gpus; }));
      EXPECT_EQ(PlaceOf(with_gpu.container), gpu_place);
      EXPECT_EQ(PlaceOf(pinned.container), pinned_place);
      EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-13"; }))
          << CpusOf(shared.container);
      ASSERT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
      const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
      EXPECT_NE(message.find(files.front()), std::string::npos) << message;
      EXPECT_NE(message.find("container app of pod default/pod-gpu: "), std::string::npos)
          << message;
      EXPECT_EQ(ConditionsNow(ConditionType::kAssignmentUnknown).size(), 0U);
      EXPECT_EQ(KeptFiles().size(), name == "removed" ? size_t{0} : files.size());
      for (const fs::path& kept : KeptFiles()) fs::remove(kept);
      ++round;
    }
  }
  // Without the answer of its plugin in the file: the plugin gives it again, for the same device.
  ASSERT_TRUE(Eventually([&] {
    return ReadText(StateDir() / kAdoptDevices).find("9b341c59") != std::string::npos;
  }));  // its plugin has registered
  EXPECT_EQ(CreateAgain(with_gpu, pod, Pinned(3)), gpu_place);
}

TEST_F(DaemonAdoption, RefuseEndsTheStartAndChangesNothing) {
  Start();
  RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  on_bad_state_ = allocation::OnBadState::kRefuse;
  const fs::path file = StateDir() / kAdoptCpu;
  const std::string intact = ReadText(file);
  for (const auto& [name, damage] : Damages()) {
    if (name == "removed") continue;
    SCOPED_TRACE(name);
    std::ofstream(file, std::ios::binary) << intact;
    Apply(damage, file);
    const std::string damaged = ReadText(file);
    const auto started = Daemon::Start(DaemonOptions());
    ASSERT_FALSE(started.ok());
    EXPECT_NE(started.error().Text().find(file.string()), std::string::npos);
    EXPECT_NE(started.error().remedy.find("--on-bad-state=rebuild"), std::string::npos)
        << started.error().remedy;
    EXPECT_EQ(ReadText(file), damaged);
    EXPECT_TRUE(KeptFiles().empty());
  }
}

// An older copy of the files was restored: they are valid, and lack a container.
TEST_F(DaemonAdoption, ContainersThatAValidFileLacksAreAdopted) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const std::string old = State();
  const Running second = RunOne(PodConfig("second"), Pinned(4));
  const std::string now = State();
  StopDaemon();
  std::ofstream(StateDir() / kAdoptCpu) << old;
  StartDaemon();
  AwaitState(kAdoptCpu, now);
  EXPECT_EQ(CpusOf(first.container), "1-3");
  EXPECT_EQ(CpusOf(second.container), "4-7");
  ASSERT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
  EXPECT_EQ(ConditionsNow(ConditionType::kStateRebuilt)[0].message(),
            "containers run whose assignments the state files do not have. The assignments of 1 "
            "container were rebuilt from the runtime (container app of pod default/pod-second: "
            "CPUs 4-7)");
}

// Without a lost file, a container that has ended and has no entry was released.
TEST_F(DaemonAdoption, EndedContainersAreAdoptedOnlyIfAFileIsLost) {
  Start();
  const Running running = RunOne(PodConfig("running"), Pinned(3));
  const std::string before = State();
  const Running ended = RunOne(PodConfig("ended"), Pinned(4));
  const std::string with_ended = State();
  ASSERT_TRUE(runtime_->EndContainer(ended.container, 0));
  StopDaemon();
  std::ofstream(StateDir() / kAdoptCpu) << before;
  StartDaemon();
  // Decided after the adoption: the CPUs of the one that has ended are free.
  const Running next = RunOne(PodConfig("next"), Pinned(4));
  EXPECT_EQ(CpusOf(next.container), "4-7");
  EXPECT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 0U);
  ASSERT_TRUE(RemoveSandbox(next.sandbox).ok());
  AwaitState(kAdoptCpu, before);
  StopDaemon();
  fs::remove(StateDir() / kAdoptCpu);
  StartDaemon();
  AwaitState(kAdoptCpu, with_ended);
}

TEST_F(DaemonAdoption, OrdinaryPodsAreRebuiltWithTheGateOfPodLevelResourceManagers) {
  const std::string gate = StaticConfig() + "featureGates: {PodLevelResourceManagers: true}\n";
  Start(gate);
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::string cpus = State();
  StopDaemon();
  std::ofstream(StateDir() / kAdoptCpu) << "damage";
  StartDaemon(gate);
  AwaitState(kAdoptCpu, cpus);
  EXPECT_EQ(KeptFiles().size(), 1U);
  const Running next = RunOne(PodConfig("next"), Pinned(3));
  EXPECT_EQ(CpusOf(next.container), "4-6");
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
}

// The bad file is set aside before another one ends the start: the log says so.
TEST_F(DaemonAdoption, AFileThatIsSetAsideIsLoggedEvenIfTheStartEnds) {
  Start(WithMemory());
  RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  std::ofstream(StateDir() / kAdoptCpu) << "damage";
  std::string config = WithMemory();
  config.replace(config.find("memory: 1Gi"), 11, "memory: 2Gi");
  config.replace(config.find("924Mi"), 5, "1948Mi");
  tree_.Write({"config.yaml", config});
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  const auto started = Daemon::Start(DaemonOptions());
  spdlog::set_default_logger(before);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, ErrorCode::kInvalidArgument) << started.error().Text();
  EXPECT_NE(started.error().remedy.find("set reservedMemory as before"), std::string::npos)
      << started.error().remedy;
  ASSERT_EQ(KeptFiles().size(), 1U);
  EXPECT_NE(log.str().find((StateDir() / kAdoptCpu).string() + " cannot be used and is kept as " +
                           KeptFiles().front().string()),
            std::string::npos)
      << log.str();
}

TEST_F(DaemonAdoption, AResizedContainerKeepsItsCpusAndItsOriginalOnes) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(pinned.container);
  *request.mutable_linux() = Pinned(4).linux().resources();
  ASSERT_TRUE(Update(request).ok());
  ASSERT_EQ(CpusOf(pinned.container), "1-4");
  const std::string state = State();
  const std::string originals = ReadText(StateDir() / "cpu_originals");
  const std::vector<std::vector<std::string>> sets = {
      {"cpu_originals"}, {kAdoptCpu}, {kAdoptCpu, "cpu_originals"}};
  for (const auto& files : sets) {
    for (const auto& [name, damage] : Damages()) {
      SCOPED_TRACE(files.front() + " " + name);
      StopDaemon();
      for (const std::string& file : files) Apply(damage, StateDir() / file);
      StartDaemon();
      AwaitState(kAdoptCpu, state);
      AwaitState("cpu_originals", originals);
      EXPECT_EQ(CpusOf(pinned.container), "1-4");
    }
  }
  *request.mutable_linux() = Pinned(1).linux().resources();
  EXPECT_EQ(Update(request).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  *request.mutable_linux() = Pinned(2).linux().resources();
  EXPECT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
}

// The state files are of a machine with other CPUs.
TEST_F(DaemonAdoption, FilesOfAMachineWithOtherCpusAreRebuilt) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  std::string node = BlogNode();
  const std::string last = ",[27,27,1,1,1]";
  node.erase(node.find(last), last.size());
  tree_.Write({"node.json", node});
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return State().find(R"("app":"1-3")") != std::string::npos; }));
  EXPECT_NE(State().find(R"("defaultCpuSet":"0,4-26")"), std::string::npos) << State();
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(KeptFiles().size(), 1U);
}

TEST_F(DaemonAdoption, NoPodGetsWhatTwoContainersClaim) {
  Start();
  RunOne(PodConfig("first"), Pinned(3));  // CPUs 1-3
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  StopDaemon();
  const Running a = RunMarked("a", {4, 5});
  const Running b = RunMarked("b", {5, 6});
  StartDaemon();
  const Running next = RunOne(PodConfig("next"), Pinned(3));
  EXPECT_EQ(CpusOf(next.container), "7-9");
  EXPECT_EQ(CpusOf(a.container), "4-5");
  EXPECT_EQ(CpusOf(b.container), "5-6");
  const auto unknown = ConditionsNow(ConditionType::kAssignmentUnknown);
  ASSERT_EQ(unknown.size(), 2U);
  std::map<std::string, std::string> messages;
  for (const Condition& condition : unknown) messages[condition.pod()] = condition.message();
  EXPECT_NE(messages["default/pod-a"].find("container app of pod default/pod-b (CPUs 5-6)"),
            std::string::npos)
      << messages["default/pod-a"];
  EXPECT_NE(messages["default/pod-b"].find("container app of pod default/pod-a (CPUs 4-5)"),
            std::string::npos)
      << messages["default/pod-b"];
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,10-27"; }))
      << CpusOf(shared.container);
  ASSERT_TRUE(RemoveSandbox(a.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4,10-27"; }));
  EXPECT_EQ(CpusOf(b.container), "5-6");
  // Only one claims them now: the next start knows whose they are.
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return State().find(R"("b":{"app":"5-6"})") != std::string::npos; }))
      << State();
}

TEST_F(DaemonAdoption, OnlyAligndWritesMarks) {
  Start();
  StartGpus();
  v1::ContainerConfig forged = Pinned(3);
  const std::string claim =
      checkpoint::FormatMark({"pinned", "app"}, "mine", MarkOfCpus({1, 2, 3, 4}));
  (*forged.mutable_annotations())[checkpoint::kMarkAnnotation] = claim;
  (*forged.mutable_labels())[checkpoint::kMarkLabel] = "mine";
  const Running pinned = RunOne(PodConfig("pinned", "", Annotation(3, 1)), forged);
  const auto mark = checkpoint::ParseMark({"pinned", "app"}, MarkIdOf(pinned.container),
                                          MarkOf(pinned.container));
  ASSERT_TRUE(mark.ok()) << mark.error().Text();
  EXPECT_EQ(mark->cpus, (CpuSet{1, 2, 3}));
  EXPECT_EQ(mark->devices.at(kGpu).at(0), std::vector<std::string>{kGpuOfNode0});

  v1::ContainerConfig shared = Shared();
  (*shared.mutable_annotations())[checkpoint::kMarkAnnotation] = claim;
  (*shared.mutable_labels())[checkpoint::kMarkLabel] = "mine";
  const Running unmarked = RunOne(BurstablePod("shared"), shared);
  EXPECT_EQ(MarkOf(unmarked.container), "none");
  EXPECT_EQ(MarkIdOf(unmarked.container), "none");
  // Without any policy, requests are forwarded as they came, but for the mark.
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  StopDaemon();
  fs::remove_all(StateDir());
  StartDaemon("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n");
  (*shared.mutable_annotations())["other"] = "kept";
  const Running plain = RunOne(BurstablePod("plain"), shared);
  EXPECT_EQ(MarkOf(plain.container), "none");
  EXPECT_EQ(MarkIdOf(plain.container), "none");
  EXPECT_EQ(runtime_->FindContainer(plain.container)->config.annotations().at("other"), "kept");
}

// CRI-O takes the annotations of a restored container from the checkpoint, an image that the pod's
// author has made, and the labels from alignd's request. Such a mark is not believed, neither
// beside sound state files nor without any.
TEST_F(DaemonAdoption, MarkOfACheckpointIsNotBelieved) {
  Start();
  RunOne(PodConfig("pinned"), Pinned(3));  // CPUs 1-3
  StopDaemon();
  RunMarked("shared", {4, 5, 6}, "");        // alignd's request had no mark
  RunMarked("exclusive", {7, 8, 9}, "own");  // it had another one
  for (const bool lost : {false, true}) {
    if (lost) fs::remove_all(StateDir());
    StartDaemon();
    const Running next = RunOne(PodConfig("next"), Pinned(24));
    EXPECT_EQ(CpusOf(next.container), "4-27") << lost;
    ASSERT_TRUE(RemoveSandbox(next.sandbox).ok());
    const auto unknown = ConditionsNow(ConditionType::kAssignmentUnknown);
    ASSERT_EQ(unknown.size(), 2U) << lost;
    for (const Condition& condition : unknown) {
      EXPECT_EQ(condition.message(),
                "its mark cannot be read: alignd did not write it for this container; the "
                "container may have been restored from a checkpoint; it runs in the shared pool");
    }
    StopDaemon();
  }
}

// A runtime that answers late or with errors delays the first decision, and leads to no wrong one.
TEST_F(DaemonAdoption, NothingIsDecidedBeforeTheRuntimeHasSaidWhatRuns) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  fs::remove_all(StateDir());
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::INTERNAL, "busy"});
  StartDaemon();
  const std::string sandbox = Run(PodConfig("early"));
  const auto early = Create(sandbox, PodConfig("early"), Pinned(3));
  EXPECT_EQ(early.status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << early.status.error_message();
  runtime_->SetFailure("ContainerStatus", grpc::Status::OK);
  runtime_->SetDelay("ContainerStatus", milliseconds(300));
  const auto late = Create(sandbox, PodConfig("early"), Pinned(3));
  ASSERT_TRUE(late.status.ok()) << late.status.error_message();
  EXPECT_EQ(CpusOf(late.response.container_id()), "4-6");
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

TEST_F(DaemonAdoption, ContainersWithoutAMarkAreCountedWhenAFileIsBad) {
  Start();
  RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  v1::ContainerConfig direct = Shared();
  direct.mutable_linux()->mutable_resources()->set_cpuset_cpus("0,4-27");
  v1::ContainerConfig unreadable = direct;
  (*unreadable.mutable_annotations())[checkpoint::kMarkAnnotation] = R"({"version":7})";
  RunOne(PodConfig("newer"), unreadable);
  RunOne(PodConfig("direct"), direct);
  client_ = ours;
  std::ofstream(StateDir() / kAdoptCpu) << "x";
  StartDaemon();
  RunOne(PodConfig("next"), Pinned(1));
  ASSERT_EQ(ConditionsNow(ConditionType::kStateRebuilt).size(), 1U);
  const std::string message = ConditionsNow(ConditionType::kStateRebuilt)[0].message();
  EXPECT_NE(message.find(". 1 container without a mark"), std::string::npos) << message;
  const auto unknown = ConditionsNow(ConditionType::kAssignmentUnknown);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(unknown[0].message(),
            "its mark cannot be read: its version is 7, and this alignd reads 1 only; it runs in "
            "the shared pool");
}

}  // namespace
}  // namespace alignd::daemon
