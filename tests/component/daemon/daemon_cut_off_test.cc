// alignd, as a process, ends at each of its calls that change a file or send to a socket, in every
// kind of operation, and is started again. Nothing may be lost and nothing assigned twice, no
// running container changes, and the next decision is as without the end. ALIGND_ITERATIONS: how
// many points of each operation are tried (a number above that of its calls: all).
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <string>

#include "control/control_client.h"
#include "cut_off_fixture.h"
#include "daemon/change_undo.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

TEST_F(DaemonCutOff, WhileAPodIsAdmitted) {
  CutOffEverywhere([] {}, [&] { Ask(); },
                   [&](bool) {
                     const Running next = Ask();
                     ExpectRunning(next);
                     Remove(next);
                   });
}

TEST_F(DaemonCutOff, WhileAPodIsReleased) {
  Running next;
  CutOffEverywhere(
      [&] {
        next = Ask();
        ExpectRunning(next);
      },
      [&] {
        Remove(next);
        Eventually([&] { return alignd_->HasEnded() || Assigned() == assigned_; });
      },
      [&](bool) { Remove(next); });
}

TEST_F(DaemonCutOff, WhileExclusiveCpusAreResized) {
  Running next;
  const auto resize = [&](int cpus) {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(next.container);
    *request.mutable_linux() = Pinned(cpus).linux().resources();
    return Update(request);
  };
  CutOffEverywhere([&] { next = Ask(); }, [&] { resize(4); },
                   [&](bool) {
                     const std::string cpus = CpusOf(next.container);
                     EXPECT_TRUE(cpus == "14-15" || cpus == "14-17") << cpus;
                     const grpc::Status resized = resize(4);
                     EXPECT_TRUE(resized.ok()) << resized.error_message() << alignd_->Log();
                     EXPECT_EQ(CpusOf(next.container), "14-17");
                     EXPECT_NE(State().find(R"("next":{"app":"14-17"})"), std::string::npos)
                         << State();
                     Remove(next);
                   });
}

std::string StrictConfig() {
  return CutOffConfig("0,27", "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n");
}

class DaemonCutOffChange : public DaemonCutOff {
 protected:
  bool Becomes(const std::string& pool) const {
    return Eventually([&] {
      return alignd_->HasEnded() ||
             (State().find("\"defaultCpuSet\":\"" + pool + "\"") != std::string::npos &&
              !fs::exists(StateDir() / ChangeUndo::kFileName));
    });
  }
  bool Reload(const std::string& config, const std::string& pool) const {
    tree_.Write({"config.yaml", config});
    kill(alignd_->pid(), SIGHUP);
    return Becomes(pool);
  }
  void ExpectChangeBack() const {
    const Running next = Ask();
    ExpectRunning(next);
    Remove(next);
    EXPECT_TRUE(Reload(CutOffConfig("0"), "0,4-27")) << alignd_->Log();
  }
};

TEST_F(DaemonCutOffChange, WhileTheFileIsReloaded) {
  // It ended before it noted the change. Then the file changed while alignd did not run.
  on_refused_start_ = [&] {
    EXPECT_NE(alignd_->Log().find("set reservedSystemCPUs"), std::string::npos) << alignd_->Log();
    EXPECT_FALSE(fs::exists(StateDir() / ChangeUndo::kFileName));
    tree_.Write({"config.yaml", CutOffConfig("0")});
  };
  CutOffEverywhere([] {}, [&] { EXPECT_TRUE(Reload(StrictConfig(), "4-26")) << alignd_->Log(); },
                   [&](bool) { ExpectChangeBack(); });
}

// Each start succeeds, with the former configuration or with the new one.
TEST_F(DaemonCutOffChange, WhileAChangeIsApplied) {
  const control::ControlClient control(DaemonOptions().ControlSocket(), kPatience);
  CutOffEverywhere(
      [&] {  // until the runtime has been listed, no change is planned
        control::v1::ChangeRequest request;
        request.set_config(StrictConfig());
        EXPECT_TRUE(Eventually([&] { return control.PlanChange(request).ok(); }));
      },
      [&] {
        control::v1::ChangeRequest request;
        request.set_config(StrictConfig());
        const auto change = control.ApplyChange(request);
        if (!change.ok()) return;
        EXPECT_TRUE(change->admitted()) << change->ShortDebugString();
        // The change begins when its caller asks for the outcome.
        if (control.GetChange(change->change()).ok()) {
          EXPECT_TRUE(Becomes("4-26")) << alignd_->Log();
        }
      },
      [&](bool) {
        const std::string config = ReadText(tree_.root() / "config.yaml");
        EXPECT_TRUE(config == StrictConfig() || config == CutOffConfig("0")) << config;
        EXPECT_TRUE(Becomes(config == StrictConfig() ? "4-26" : "0,4-27")) << State();
        ExpectChangeBack();
      });
}

TEST_F(DaemonCutOff, WhileItStarts) {
  CutOffEverywhere([&] { alignd_->Kill(SIGKILL); },
                   [&] {
                     Launch();
                     IsReady();
                   },
                   [&](bool) {
                     const Running next = Ask();
                     ExpectRunning(next);
                     Remove(next);
                   });
}

// The state files are lost: they are rebuilt from the marks of the running containers.
TEST_F(DaemonCutOff, WhileTheStateIsRebuilt) {
  CutOffEverywhere(
      [&] {
        alignd_->Kill(SIGKILL);
        for (const char* name : {"cpu_manager_state", "memory_manager_state",
                                 "device-plugins/kubelet_internal_checkpoint"}) {
          fs::remove(StateDir() / name);
        }
      },
      [&] {
        Launch();
        if (IsReady()) {
          EXPECT_TRUE(Eventually([&] { return alignd_->HasEnded() || Assigned() == assigned_; }))
              << Assigned() << alignd_->Log();
        }
      },
      [&](bool) {
        const Running next = Ask();
        ExpectRunning(next);
        Remove(next);
      });
}

}  // namespace
}  // namespace alignd::daemon
