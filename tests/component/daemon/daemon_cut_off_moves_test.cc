// alignd ends at each of its calls that change a file or send to a socket while it moves a
// container for a new configuration, as in daemon_cut_off_test.cc.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>

#include "control/control_client.h"
#include "cut_off_fixture.h"
#include "daemon/change_undo.h"
#include "daemon/moves_file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

class DaemonCutOffMoves : public DaemonCutOff {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonCutOff::DaemonOptions();
    options.may_move = "if-needed";
    return options;
  }

  bool HasNoRecord() const {
    return !fs::exists(StateDir() / ChangeUndo::kFileName) &&
           !fs::exists(StateDir() / MovesFile::kFileName);
  }
  // The keeper is on these CPUs, everywhere, and nothing is left to do.
  bool Settles(const std::string& keeper, const std::string& pool) const {
    return Eventually([&] {
      return alignd_->HasEnded() ||
             (CpusOf(keeper_.container) == keeper && HasNoRecord() &&
              State().find("\"defaultCpuSet\":\"" + pool + "\"") != std::string::npos &&
              CpusOf(shared_.container) == pool);
    });
  }
  bool ReloadMoves(const std::string& reserved, const std::string& keeper,
                   const std::string& pool) const {
    tree_.Write({"config.yaml", CutOffConfig(reserved)});
    kill(alignd_->pid(), SIGHUP);
    return Settles(keeper, pool);
  }
  std::string File() const { return ReadText(tree_.root() / "config.yaml"); }
  void MoveBack() const {
    const bool is_moved = File() == CutOffConfig("0-1");
    EXPECT_TRUE(is_moved || File() == CutOffConfig("0")) << File();
    EXPECT_TRUE(is_moved ? Settles("2-4", "0-1,5-27") : Settles("1-3", "0,4-27"))
        << CpusOf(keeper_.container) << " " << CpusOf(shared_.container) << State()
        << alignd_->Log();
    const Running next = Ask();
    ExpectRunning(next);
    Remove(next);
    // Whatever is left of the interrupted moves: the next ones succeed.
    if (!is_moved) {
      AwaitListed();
      EXPECT_TRUE(ReloadMoves("0-1", "2-4", "0-1,5-27")) << alignd_->Log();
    }
    AwaitListed("0-1");
    EXPECT_TRUE(ReloadMoves("0", "2-4", "0-1,5-27")) << alignd_->Log();
    AwaitListed();
    EXPECT_TRUE(ReloadMoves("0,4", "1-3", "0,4-27")) << alignd_->Log();
    AwaitListed("0,4");
    EXPECT_TRUE(ReloadMoves("0", "1-3", "0,4-27")) << alignd_->Log();
    AwaitListed();
  }
  // With this configuration, alignd knows its containers: until then, no change is made.
  void AwaitListed(const std::string& reserved = "0") const {
    const control::ControlClient control(DaemonOptions().ControlSocket(), kPatience);
    control::v1::ChangeRequest request;
    request.set_config(CutOffConfig(reserved));
    EXPECT_TRUE(Eventually([&] {
      const auto planned = control.PlanChange(request);
      return planned.ok() && planned->settings().empty();
    })) << alignd_->Log();
  }
};

TEST_F(DaemonCutOffMoves, WhileTheFileIsReloaded) {
  // It ended before it noted the change. Then the file changed while alignd did not run.
  on_refused_start_ = [&] {
    EXPECT_NE(alignd_->Log().find("set reservedSystemCPUs"), std::string::npos) << alignd_->Log();
    tree_.Write({"config.yaml", CutOffConfig("0")});
  };
  CutOffEverywhere([&] { AwaitListed(); },
                   [&] { EXPECT_TRUE(ReloadMoves("0-1", "2-4", "0-1,5-27")) << alignd_->Log(); },
                   [&](bool) { MoveBack(); });
}

TEST_F(DaemonCutOffMoves, WhileAChangeIsApplied) {
  const control::ControlClient control(DaemonOptions().ControlSocket(), kPatience);
  CutOffEverywhere([&] { AwaitListed(); },
                   [&] {
                     control::v1::ChangeRequest request;
                     request.set_config(CutOffConfig("0-1"));
                     request.set_may_move(true);
                     const auto change = control.ApplyChange(request);
                     if (!change.ok()) return;
                     EXPECT_TRUE(change->admitted()) << change->ShortDebugString();
                     // The change begins when its caller asks for the outcome.
                     if (control.GetChange(change->change()).ok()) {
                       EXPECT_TRUE(Settles("2-4", "0-1,5-27")) << alignd_->Log();
                     }
                   },
                   [&](bool) { MoveBack(); });
}

// The containers have moved, and the configuration cannot be written: they go back.
TEST_F(DaemonCutOffMoves, WhileAFileCannotBeWritten) {
  const fs::path in_the_way = tree_.root() / ".config.yaml.alignd-new";
  const control::ControlClient control(DaemonOptions().ControlSocket(), kPatience);
  CutOffEverywhere(
      [&] {
        AwaitListed();
        fs::create_directories(in_the_way / "directory");
      },
      [&] {
        control::v1::ChangeRequest request;
        request.set_config(CutOffConfig("0-1"));
        request.set_may_move(true);
        const auto change = control.ApplyChange(request);
        if (!change.ok() || !control.GetChange(change->change()).ok()) return;
        EXPECT_TRUE(Eventually([&] {
          const auto outcome = control.GetChange(change->change());
          return alignd_->HasEnded() || (outcome.ok() && outcome->outcome() == "failed");
        })) << alignd_->Log();
      },
      [&](bool) {
        fs::remove_all(in_the_way);
        EXPECT_EQ(File(), CutOffConfig("0"));
        MoveBack();
      });
}

}  // namespace
}  // namespace alignd::daemon
