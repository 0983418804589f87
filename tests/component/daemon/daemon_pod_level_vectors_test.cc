// Recorded decisions of the kubelet about pods with pod-level resources, made by the daemon.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/vector_files.h"
#include "pod_level_fixture.h"

namespace alignd::daemon {
namespace {

using nlohmann::json;

// All of them, if they are here; otherwise the selection.
std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> all = VectorFiles("podlevel.jsonl");
  if (all.size() > 1) return {all.back()};
  for (std::filesystem::path& file : VectorFiles("podlevel-2.jsonl"))
    all.push_back(std::move(file));
  return all;
}

// Without those with devices: docs/differences.md has when alignd allocates these. In one more, the
// containers request more than their pod, which the API server refuses: the daemon then does not
// believe the Pods API.
std::vector<json> Vectors() {
  std::vector<json> vectors;
  for (const std::filesystem::path& file : Files()) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      json vector = json::parse(line);
      const json& node = vector["node"];
      const bool has_devices = node.contains("devices") && !node["devices"].empty();
      if (!has_devices &&
          vector["name"] != "empty pool: shared init container after sidecars that take all") {
        vectors.push_back(std::move(vector));
      }
    }
  }
  return vectors;
}

// Runs one vector, in a node of its own.
class OneVector : public PodLevelTest {
 public:
  explicit OneVector(const json& vector) : vector_(vector) {}

  void TestBody() override {
    tree_.Write({"node.json", vector_["node"].dump()});
    json config = vector_["config"];
    config["kind"] = "KubeletConfiguration";
    config["apiVersion"] = "kubelet.config.k8s.io/v1beta1";
    ASSERT_NO_FATAL_FAILURE(Start(config.dump()));
    StartPodsApi();
    for (size_t i = 0; i < vector_["steps"].size() && is_alike_; ++i) {
      const json& step = vector_["steps"][i];
      const json& expected = vector_["expect"][i];
      SCOPED_TRACE("step " + std::to_string(i));
      if (step["op"] == "restart") {
        StopDaemon();
        ASSERT_NO_FATAL_FAILURE(StartDaemon(config.dump()));
      } else if (step["op"] == "removePod") {
        End(step["podUID"]);
      } else if (step["op"] == "start") {
        ASSERT_NO_FATAL_FAILURE(StartPod(step["podUID"]));
      } else if (step["op"] == "removeContainer") {
        // A container is also removed when it is created again: what it has stays with its pod.
        is_alike_ = false;
      } else if (step["op"] == "admit") {
        ASSERT_NO_FATAL_FAILURE(Admit(step["pod"], expected));
      }
      if (!is_alike_) return;
      ExpectStates(expected);
      ++compared_;
    }
  }

  int compared() const { return compared_; }  // steps

 private:
  void Admit(const json& spec, const json& expected) {
    const std::string uid = spec["metadata"]["uid"];
    if (!pods_.contains(uid)) pods_[uid] = RunPod(WithImages(spec).dump());
    KubeletPod& pod = pods_[uid];
    ASSERT_NE(pod.sandbox, "");
    ++pod.attempts;
    const std::vector<Container>& containers = pod.manifest.pod.containers;
    if (!expected["admitted"].get<bool>()) {
      const grpc::Status refused = CreateIn(pod, containers.front().name);
      const std::string reason = expected["reason"];
      const std::string message = expected["message"];
      EXPECT_NE(refused.error_message().find(reason), std::string::npos) << reason;
      EXPECT_NE(refused.error_message().find(message), std::string::npos)
          << message << " is not in: " << refused.error_message();
      return End(uid);
    }
    for (const Container& container : containers) {
      const grpc::Status created = CreateIn(pod, container.name);
      ASSERT_TRUE(created.ok()) << container.name << ": " << created.error_message();
      ExpectCpus(pod, container.name, expected);
    }
  }

  // Its init containers end one after the other; all others run. A pod that was refused is gone.
  void StartPod(const std::string& uid) {
    const auto pod = pods_.find(uid);
    if (pod == pods_.end() || !started_.insert(uid).second) return;
    for (const Container& container : pod->second.manifest.pod.containers) {
      const std::string id = pod->second.ids.at(container.name);
      ASSERT_TRUE(StartContainer(id).ok()) << container.name;
      if (container.kind != ContainerKind::kInit) continue;
      ASSERT_TRUE(runtime_->EndContainer(id, 0));
      // docs/differences.md: the kubelet forgets the memory of an ended init container of a pod
      // with memory as a whole, and keeps the CPUs of all others until the pod ends.
      ended_init_.insert(uid);
      const std::string state = State();
      const size_t wholes = state.find("podEntries");
      is_alike_ =
          is_alike_ && wholes != std::string::npos && state.find(uid, wholes) != std::string::npos;
    }
  }

  static json WithImages(json pod) {
    for (const char* const list : {"initContainers", "containers"}) {
      if (!pod["spec"].contains(list)) continue;
      for (json& container : pod["spec"][list]) container["image"] = "i";
    }
    return pod;
  }

  void ExpectCpus(const KubeletPod& pod, const std::string& name, const json& expected) {
    const json& here = expected["containers"][name];
    const bool has_cpus = here.contains("cpuset");
    if (!has_cpus && !expected.contains("defaultCpuSet")) return;  // cpuManagerPolicy none
    const std::string cpus = has_cpus ? here["cpuset"] : expected["defaultCpuSet"];
    EXPECT_EQ(CpusIn(pod, name), cpus) << name;
    const bool is_own = has_cpus && here.value("isolation", "container") == "container";
    EXPECT_EQ(QuotaIn(pod, name) < 0, is_own) << name;
  }

  void End(const std::string& uid) {
    const auto pod = pods_.extract(uid);
    if (pod.empty()) return;  // it was refused
    started_.erase(uid);
    ended_init_.erase(uid);
    EXPECT_TRUE(StopSandbox(pod.mapped().sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(pod.mapped().sandbox).ok());
  }

  void ExpectStates(const json& expected) {
    if (expected.contains("cpu_manager_state_1_37")) {
      const std::string state = expected["cpu_manager_state_1_37"];
      EXPECT_TRUE(Eventually([&] { return State() == state; }))
          << "expected: " << state << "\nis:       " << State();
    }
    // With several types of memory, the kubelet writes them in a random order.
    const bool is_ordered = !expected.contains("memory_manager_state_unordered");
    if (is_ordered && ended_init_.empty() && expected.contains("memory_manager_state_1_37")) {
      const std::string state = expected["memory_manager_state_1_37"];
      EXPECT_TRUE(Eventually([&] { return MemoryState() == state; }))
          << "expected: " << state << "\nis:       " << MemoryState();
    }
  }

  const json& vector_;
  std::map<std::string, KubeletPod> pods_;  // by UID
  std::set<std::string> started_;           // UIDs
  bool is_alike_ = true;                    // so far, to the kubelet's
  std::set<std::string> ended_init_;        // UIDs of pods with ended init containers
  int compared_ = 0;
};

TEST(DaemonPodLevelVectors, AreDecidedAsByTheKubelet) {
  const std::vector<json> vectors = Vectors();
  ASSERT_GE(vectors.size(), 80U);
  int compared = 0;
  for (const json& vector : vectors) {
    SCOPED_TRACE(vector["name"].get<std::string>());
    OneVector one(vector);
    one.TestBody();
    compared += one.compared();
  }
  EXPECT_GE(compared, 150);
}

}  // namespace
}  // namespace alignd::daemon
