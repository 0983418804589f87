// A node with a kubelet that manages CPUs and memory itself, and an alignd that is to take over.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../kubelet/kubelet_node.h"
#include "alignd/admission/admission.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "core/device_states.h"
#include "core/pod_builder.h"
#include "daemon/managed_node.h"
#include "host/file.h"
#include "moving/handover.h"
#include "moving/services.h"

namespace alignd::moving {

inline constexpr char kTwoNodes[] =
    R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0],[2,2,0,0,0],[3,3,1,1,1],[4,4,1,1,1],[5,5,1,1,1]],)"
    R"("numa":[{"id":0,"memory":1073741824,"distances":[10,21]},)"
    R"({"id":1,"memory":1073741824,"distances":[21,10]}]})";

inline constexpr char kPolicies[] =
    "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\ntopologyManagerPolicy: best-effort\n"
    "memoryManagerPolicy: Static\n"
    "reservedMemory:\n- numaNode: 0\n  limits:\n    memory: 100Mi\n";

// Services that only remember whether they run. One call can be made to fail.
class FakeServices final : public Services {
 public:
  // Of the calls that change something, the one with this number fails; 0: none.
  int fails_at = 0;
  bool fails_after_effect = false;
  std::string ignores_stop_of;  // it runs on, and no error is reported
  int calls = 0;
  std::map<std::string, bool> active = {{"kubelet.service", true}};
  std::function<void(const std::string& call)> before_call;

  std::set<std::string> Running() const {
    std::set<std::string> units;
    for (const auto& [unit, is_active] : active) {
      if (is_active) units.insert(unit);
    }
    return units;
  }

  Result<bool> IsActive(const std::string& unit) override { return active[unit]; }
  Result<bool> IsStopped(const std::string& unit) override { return !active[unit]; }
  Result<Done> Start(const std::string& unit) override { return Set("start ", unit, true); }
  Result<Done> Stop(const std::string& unit) override {
    return Set("stop ", unit, unit == ignores_stop_of);
  }
  Result<Done> ReloadUnits() override {
    return Call("reload", [] {});
  }

 private:
  template <typename Effect>
  Result<Done> Call(const std::string& name, const Effect& effect) {
    if (before_call) before_call(name);
    const bool fails = ++calls == fails_at;
    if (!fails || fails_after_effect) effect();
    if (!fails) return Done{};
    return Error{ErrorCode::kIo, name + " fails", "let the test not make it fail"};
  }
  Result<Done> Set(const std::string& name, const std::string& unit, bool is_active) {
    return Call(name + unit, [&] { active[unit] = is_active; });
  }
};

class MovingNode : public kubelet::KubeletNodeTest {
 public:
  using KubeletNodeTest::All;
  using KubeletNodeTest::Has;
  using KubeletNodeTest::Read;
  using KubeletNodeTest::Write;

  explicit MovingNode(const std::string& policies = kPolicies) {
    WriteKubeadmWithFlag(policies);
    Write("/etc/alignd/kubelet-config.yaml", policies);
    Write("/usr/lib/systemd/system/alignd.service",
          "[Service]\nExecStart=/usr/bin/alignd --config /etc/alignd/kubelet-config.yaml "
          "--runtime-endpoint " +
              std::string(kubelet::kContainerd) + "\n");
    Write("/node.json", kTwoNodes);
    Write("/cgroup/cgroup.controllers", "cpuset cpu\n");
    const Result<admission::Node> node = daemon::MakeNode(Options());
    EXPECT_TRUE(node.ok()) << node.error().Text();
    admission::NodeState state = admission::NodeState::Initial(*node);
    for (const char* const uid : {"uid-1", "uid-2"}) {
      admission::Admission admission =
          Admit(*node, state, MakePod(uid, {App("app", {{"cpu", "1"}, {"memory", "64Mi"}})}),
                devicemanager::NoPreference);
      EXPECT_TRUE(admission.admitted());
      Run(uid, admission.assignments.at("app").exclusive.ToString());
      state = std::move(admission.next);
    }
    WriteFiles("/var/lib/kubelet", state, checkpoint::StateForm::kPlain);
  }

  daemon::Options Options() const {
    daemon::Options options;
    options.config = tree_.root() / "etc/alignd/kubelet-config.yaml";
    options.root = tree_.root();
    options.node = tree_.root() / "node.json";
    options.state_dir = tree_.root() / "var/lib/alignd";
    return options;
  }

  HandoverRequest Request() const {
    HandoverRequest request;
    request.root = tree_.root().string();
    request.node = tree_.root() / "node.json";
    request.cgroup_root = tree_.root() / "cgroup";
    return request;
  }

  allocation::StatePaths KubeletPaths() const {
    return {tree_.root() / "var/lib/kubelet", tree_.root() / "var/lib/kubelet/device-plugins"};
  }

  // The cgroup of a container of the pod.
  void Run(const std::string& uid, const std::string& cpus, const std::string& id = "one",
           const std::string& mems = "0") {
    std::string slice = uid;
    std::ranges::replace(slice, '-', '_');
    const std::string scope =
        "/cgroup/kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope/";
    for (const char* const file : {"cpuset.cpus", "cpuset.cpus.effective"}) {
      Write(scope + file, cpus + "\n");
    }
    for (const char* const file : {"cpuset.mems", "cpuset.mems.effective"}) {
      Write(scope + file, mems + "\n");
    }
  }

  void WriteFiles(const std::string& directory, const admission::NodeState& state,
                  checkpoint::StateForm form) {
    Write(directory + "/cpu_manager_state",
          checkpoint::FormatCpuCheckpoint("static", state.cpu, form));
    Write(directory + "/memory_manager_state",
          checkpoint::FormatMemoryCheckpoint("Static", state.memory, form));
  }

  cpumanager::CpuState CpusIn(const std::string& directory) const {
    const auto read = checkpoint::ParseCpuCheckpoint(Read(directory + "/cpu_manager_state"));
    EXPECT_TRUE(read.ok()) << directory;
    return read.ok() ? read->state : cpumanager::CpuState{};
  }

  // All files that a handover must restore: not copies, and not the lock.
  std::map<std::string, std::string> Kept() const {
    std::map<std::string, std::string> files = All();
    std::erase_if(files, [](const auto& file) {
      return file.first.starts_with("/var/lib/alignd/before-") ||
             file.first == "/var/lib/alignd/alignd.lock";
    });
    const std::string record = "/var/lib/alignd/kubelet/attachment.json";
    if (std::filesystem::exists(tree_.root() / record.substr(1))) files[record] = Read(record);
    return files;
  }

  const std::filesystem::path& root() const { return tree_.root(); }

 private:
  void TestBody() override {}
};

}  // namespace alignd::moving
