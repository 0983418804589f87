// The state files are whole and valid, and not true: a backup or a snapshot was restored while
// containers ran. The fixture checks after every change of a container that no container runs on
// exclusive CPUs of another.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"

namespace alignd::daemon {

using control::v1::Condition;
using reconcile::ConditionType;

class StaleState : public DaemonTest {
 protected:
  ~StaleState() override {
    watch_.OnEvent({});
    watch_.ReadCpus({});
  }
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.on_bad_state = on_bad_state_;
    return options;
  }
  std::vector<Condition> ConditionsNow(ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  // The CPUs of the pods in the file of now; the rest of the file is that of now.
  void WriteState(const std::map<std::string, CpuSet>& pods) const {
    auto read = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(read.ok()) << read.error().Text();
    cpumanager::CpuState state = read->state;
    for (const auto& [uid, containers] : state.assignments) {
      for (const auto& [name, cpus] : containers) state.default_set |= cpus;
    }
    state.assignments.clear();
    for (const auto& [uid, cpus] : pods) {
      state.assignments[uid]["app"] = cpus;
      state.default_set -= cpus;
    }
    std::ofstream(StateDir() / "cpu_manager_state")
        << checkpoint::FormatCpuCheckpoint("static", state, checkpoint::StateForm::kData);
  }
  // The CPUs with which a container that has grown was created.
  void WriteOriginals(const std::string& uid, const CpuSet& cpus) const {
    checkpoint::Originals originals;
    originals[uid]["app"] = cpus;
    std::ofstream(StateDir() / "cpu_originals") << checkpoint::FormatOriginalsCheckpoint(originals);
  }
  std::map<std::string, std::string> CpusInState() const {
    std::map<std::string, std::string> pods;
    const auto read = checkpoint::ParseCpuCheckpoint(State());
    if (!read.ok()) return pods;
    for (const auto& [uid, containers] : read->state.assignments) {
      pods[uid] = containers.at("app").ToString();
    }
    return pods;
  }

  // The containers have cgroups, in which `watch_` sees where they are.
  void CreateCgroups() {
    cgroups_.emplace(CgroupRoot(), /*unified=*/true, "0-27");
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_->Apply(event); });
    watch_.ReadCpus([this](const std::string& cgroup) {
      // A file that alignd just writes may be empty. A kernel's never is.
      std::string cpus;
      Eventually([&] { return !(cpus = cgroups_->CpusOf(cgroup)).empty(); });
      return cpus;
    });
  }

  // At the runtime's own socket.
  void MoveAtRuntime(const std::string& id, const CpuSet& cpus) {
    const std::shared_ptr<grpc::Channel> ours =
        std::exchange(client_, *simulator::Dial(RuntimeEndpoint()));
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    *request.mutable_linux() = runtime_->FindContainer(id)->resources;
    request.mutable_linux()->set_cpuset_cpus(cpus.ToString());
    EXPECT_TRUE(Update(request).ok());
    client_ = ours;
  }
  // A container that runs on these CPUs; with a mark, exclusively.
  Running RunAtRuntime(const std::string& uid, const CpuSet& cpus, bool is_marked) {
    const std::shared_ptr<grpc::Channel> ours =
        std::exchange(client_, *simulator::Dial(RuntimeEndpoint()));
    v1::ContainerConfig container = is_marked ? Pinned(static_cast<int>(cpus.Count())) : Shared();
    container.mutable_linux()->mutable_resources()->set_cpuset_cpus(cpus.ToString());
    if (is_marked) {
      admission::AssignmentMark mark;
      mark.cpus = cpus;
      (*container.mutable_annotations())[checkpoint::kMarkAnnotation] =
          checkpoint::FormatMark({uid, "app"}, "id", mark);
      (*container.mutable_labels())[checkpoint::kMarkLabel] = "id";
    }
    const Running running = RunOne(PodConfig(uid), container);
    client_ = ours;
    return running;
  }
  // The updates of the container that the runtime got since its start, in order.
  std::vector<std::string> PlacesOf(const std::string& id) const {
    std::vector<std::string> places;
    for (const RuntimeModel::Event& event : watch_.events()) {
      if (event.container.id != id || event.container.state != v1::CONTAINER_RUNNING) continue;
      const std::string& cpus = event.container.resources.cpuset_cpus();
      if (places.empty() || places.back() != cpus) places.push_back(cpus);
    }
    return places;
  }

  using Places = std::vector<std::string>;
  using Pods = std::map<std::string, std::string>;
  allocation::OnBadState on_bad_state_ = allocation::OnBadState::kRebuild;
  std::optional<FakeCgroups> cgroups_;
};

}  // namespace alignd::daemon
