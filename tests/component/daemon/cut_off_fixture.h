// alignd, as a process, ends at each of its calls that change a file or send to a socket, and is
// started again.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "alignd/checkpoint/device_checkpoint.h"
#include "core/property_seed.h"
#include "cut_off/cut_off.h"
#include "host/descriptor.h"
#include "process_fixture.h"

namespace alignd::daemon {
inline std::string CutOffConfig(const std::string& reserved, const std::string& more = "") {
  return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
         "cpuManagerPolicy: static\nreservedSystemCPUs: \"" +
         reserved +
         "\"\ncpuManagerReconcilePeriod: 1s\nmemoryManagerPolicy: Static\nreservedMemory:\n"
         "- numaNode: 0\n  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
         "topologyManagerPolicy: best-effort\n" +
         more;
}

// The pod `keeper` has CPUs 1-3 and a GPU throughout, and the pod `shared` the CPUs of the pool.
class DaemonCutOff : public DaemonProcessTest {
 protected:
  DaemonCutOff() {
    tree_.Write({"config.yaml", CutOffConfig("0")});
    tree_.Write({"cut-off", std::string(sizeof(CutOff), '\0')});
    const host::Descriptor file(open((tree_.root() / "cut-off").c_str(), O_RDWR | O_CLOEXEC));
    void* const mapped =
        mmap(nullptr, sizeof(CutOff), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
    if (mapped != MAP_FAILED) plan_ = static_cast<CutOff*>(mapped);
  }
  ~DaemonCutOff() override {
    if (plan_ != nullptr) munmap(plan_, sizeof(CutOff));
  }

  void SetUp() override {
    ASSERT_NE(plan_, nullptr);
    StartRuntime();
    Launch();
    ASSERT_TRUE(IsReady()) << alignd_->Log();
    StartGpus();
    keeper_ = RunOne(PodConfig("keeper", "", Annotation(3, 1)), Pinned(3));
    shared_ = RunOne(BurstablePod("shared"), Shared());
    ASSERT_EQ(CpusOf(keeper_.container), "1-3");
    ASSERT_TRUE(Eventually([&] { return CpusOf(shared_.container) == "0,4-27"; }));
    assigned_ = Assigned();
    ASSERT_NE(assigned_.find("keeper"), std::string::npos) << assigned_;
  }

  // After the next call number `last` since now, nothing of the process is done; 0: it goes on.
  void Count(int64_t last) {
    plan_->calls = 0;
    plan_->last = last;
    __atomic_store_n(&plan_->is_counting, 1, __ATOMIC_SEQ_CST);
  }
  void StopCounting() { __atomic_store_n(&plan_->is_counting, 0, __ATOMIC_SEQ_CST); }

  void Launch() {
    client_.reset();
    LaunchAlignd(DaemonOptions(), {"env", "LD_PRELOAD=" ALIGND_CUT_OFF_LIBRARY,
                                   kCutOffVariable "=" + (tree_.root() / "cut-off").string()});
    client_ = *simulator::Dial(DaemonOptions().listen);
  }

  // False: it has ended before.
  bool IsReady() const {
    EXPECT_TRUE(Eventually([&] {
      return alignd_->HasEnded() || alignd_->Log().find("ready: ") != std::string::npos;
    })) << alignd_->Log();
    return !alignd_->HasEnded();
  }

  // Starts it again if it has ended. Answers whether it had.
  bool Restart() {
    StopCounting();
    // Its sockets are closed before its end can be seen.
    const bool is_ending = plan_->last > 0 && plan_->calls >= plan_->last;
    EXPECT_TRUE(!is_ending || Eventually([&] { return alignd_->HasEnded(); }));
    if (!alignd_->HasEnded()) return false;
    Launch();
    if (!IsReady() && on_refused_start_) {
      on_refused_start_();
      Launch();
    }
    EXPECT_TRUE(IsReady()) << alignd_->Log();
    return true;
  }

  // What the state files say of assignments.
  std::string Assigned() const {
    const std::filesystem::path file = StateDir() / "device-plugins/kubelet_internal_checkpoint";
    const auto devices = checkpoint::ParseDeviceCheckpoint(ReadText(file));
    if (!devices.ok()) return devices.error().Text();
    std::string assigned = State() + ReadText(StateDir() / "memory_manager_state");
    // Absent before the first resize, without entries after the last one.
    const std::string originals = ReadText(StateDir() / "cpu_originals");
    if (originals.find("\"entries\":{}") == std::string::npos) assigned += originals;
    for (const auto& [key, resources] : devices->allocations) {
      for (const auto& [resource, allocation] : resources) {
        assigned += "\n" + key.pod_uid + " " + key.container + " " + resource;
        for (const std::string& id : allocation.Ids()) assigned += " " + id;
      }
    }
    return assigned;
  }

  void ExpectOnlyTheKeeper() const {
    EXPECT_EQ(CpusOf(keeper_.container), "1-3");
    EXPECT_TRUE(Eventually([&] { return Assigned() == assigned_; }))
        << Assigned() << "\nexpected: " << assigned_ << alignd_->Log();
    EXPECT_TRUE(Eventually([&] { return CpusOf(shared_.container) == "0,4-27"; }))
        << CpusOf(shared_.container) << alignd_->Log();
    EXPECT_EQ(CpusOf(keeper_.container), "1-3");
  }

  static v1::PodSandboxConfig Next() { return PodConfig("next", "", Annotation(2, 1)); }

  // As a kubelet: an existing sandbox or container is used, a missing one is made. Calls that the
  // end of alignd interrupts fail.
  Running Ask() const {
    Running running;
    for (const simulator::SimulatedSandbox& sandbox : runtime_->Sandboxes()) {
      if (sandbox.config.metadata().uid() == "next") running.sandbox = sandbox.id;
    }
    if (running.sandbox.empty()) running.sandbox = Run(Next());
    if (running.sandbox.empty()) return running;
    for (const simulator::SimulatedContainer& container : runtime_->Containers()) {
      if (container.sandbox_id == running.sandbox) running.container = container.id;
    }
    if (running.container.empty()) {
      running.container = Create(running.sandbox, Next(), Pinned(2)).response.container_id();
    }
    const auto container = runtime_->FindContainer(running.container);
    if (container && container->state == v1::CONTAINER_CREATED) {
      StartContainer(running.container);  // repeated if it fails
    }
    return running;
  }

  void ExpectRunning(const Running& next) const {
    const auto container = runtime_->FindContainer(next.container);
    ASSERT_TRUE(container.has_value()) << alignd_->Log();
    EXPECT_EQ(container->state, v1::CONTAINER_RUNNING);
    EXPECT_EQ(container->resources.cpuset_cpus(), "14-15");
    const auto& variables = container->config.envs();
    EXPECT_TRUE(std::ranges::any_of(variables, [](const v1::KeyValue& variable) {
      return variable.key() == "NVIDIA_VISIBLE_DEVICES" && variable.value().starts_with("GPU-9b34");
    })) << container->config.ShortDebugString();
  }

  void Remove(const Running& running) const {
    StopSandbox(running.sandbox);  // repeated if it fails
    RemoveSandbox(running.sandbox);
  }

  // `operation` ends at each point in turn; `afterwards` is the rest, without an end.
  void CutOffEverywhere(const std::function<void()>& prepare,
                        const std::function<void()>& operation,
                        const std::function<void(bool has_ended)>& afterwards) {
    // All calls are counted once first.
    int64_t calls = 0;
    int64_t tried = 0;
    for (int64_t point = 0; point <= tried; ++point) {
      const int64_t last = tried == 0 ? 0 : 1 + (point - 1) * calls / tried;
      SCOPED_TRACE("at call " + std::to_string(last) + " of " + std::to_string(calls));
      prepare();
      Count(last);
      operation();
      if (point == 0) calls = plan_->calls;
      const bool has_ended = Restart();
      ended_ += has_ended ? 1 : 0;
      afterwards(has_ended);
      ExpectOnlyTheKeeper();
      if (HasFailure()) return;
      if (point > 0) continue;
      EXPECT_FALSE(has_ended);
      ASSERT_GT(calls, 0);
      tried = std::min(calls, int64_t{Iterations(20)});
    }
    std::cout << calls << " calls, " << tried << " points, ended at " << ended_ << "\n";
    // Not all: how many calls there are differs a little.
    EXPECT_GT(2 * ended_, tried);
  }

  CutOff* plan_ = nullptr;
  Running keeper_;
  Running shared_;
  std::string assigned_;
  std::function<void()> on_refused_start_;
  int64_t ended_ = 0;
};

}  // namespace alignd::daemon
