// Three running containers, of which two move to other CPUs with a change of the configuration.
// The fixture checks after every change of a container that no container runs on exclusive CPUs of
// another.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "daemon/change_undo.h"
#include "daemon/moves_file.h"
#include "reload_fixture.h"

namespace alignd::daemon {

namespace fs = std::filesystem;

inline constexpr char kUpdateCall[] = "UpdateContainerResources";

class DaemonMoves : public DaemonReload {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonReload::DaemonOptions();
    options.may_move = may_move_;
    return options;
  }

  control::v1::ChangeRequest RequestFor(const std::string& config) const {
    control::v1::ChangeRequest request;
    request.set_config(config);
    request.set_may_move(true);
    return request;
  }

  // The number of the change; 0: it was refused.
  uint64_t Begin(const std::string& config) const {
    const auto change = Control().ApplyChange(RequestFor(config));
    EXPECT_TRUE(change.ok()) << change.error().Text();
    return change.ok() ? change->change() : 0;
  }
  std::string Apply(const std::string& config) const { return Outcome(Begin(config)); }

  std::string ConfigFile() const { return ReadText(tree_.root() / "config.yaml"); }
  bool IsRecorded() const {
    return fs::exists(StateDir() / ChangeUndo::kFileName) ||
           fs::exists(StateDir() / MovesFile::kFileName);
  }
  std::string Originals() const { return ReadText(StateDir() / "cpu_originals"); }
  bool Becomes(const Running& running, const std::string& cpus) const {
    return Eventually([&] { return CpusOf(running.container) == cpus; });
  }
  // The containers `a` on CPUs 1-3, `b` on 4-6 and `shared` on the others.
  void StartThree() {
    StartProcess();
    a_ = RunOne(PodConfig("a"), Pinned(3));
    b_ = RunOne(PodConfig("b"), Pinned(3));
    shared_ = RunOne(BurstablePod("shared"), Shared());
    ASSERT_EQ(CpusOf(a_.container) + " " + CpusOf(b_.container), "1-3 4-6");
    ASSERT_EQ(CpusOf(shared_.container), "0,7-27");
    state_ = State();
  }
  void ExpectAsBefore() {
    EXPECT_TRUE(Becomes(a_, "1-3")) << CpusOf(a_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(b_, "4-6")) << CpusOf(b_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(shared_, "0,7-27")) << CpusOf(shared_.container) << alignd_->Log();
    EXPECT_TRUE(Eventually([&] { return !IsRecorded(); })) << alignd_->Log();
    EXPECT_EQ(State(), state_);
    EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0");
  }
  void ExpectMoved() {
    EXPECT_TRUE(Becomes(a_, "2-3,7")) << CpusOf(a_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(b_, "5-6,8")) << CpusOf(b_.container) << alignd_->Log();
    EXPECT_TRUE(Becomes(shared_, "0-1,4,9-27")) << CpusOf(shared_.container) << alignd_->Log();
    EXPECT_TRUE(Eventually([&] { return !IsRecorded(); })) << alignd_->Log();
    // After a start, the containers are there before alignd has rebuilt what they have.
    for (const char* pod : {R"("a":{"app":"2-3,7"})", R"("b":{"app":"5-6,8"})"}) {
      EXPECT_TRUE(Eventually([&] { return State().find(pod) != std::string::npos; })) << State();
    }
    EXPECT_EQ(Originals().find("\"app\""), std::string::npos) << Originals();
    EXPECT_EQ(Control().GetStatus()->reserved_cpus(), "0-1,4");
  }

  // Begins the change to reserved CPUs 0-1,4: `a` has moved, and the runtime holds the move of `b`
  // for that long. The number of the change.
  uint64_t BeginHalf(const std::string& config, milliseconds held = kPatience) {
    runtime_->SetDelay(kUpdateCall, held, b_.container);
    const uint64_t change = Begin(config);
    EXPECT_TRUE(Control().GetChange(change).ok());  // begins it
    EXPECT_TRUE(Becomes(a_, "2-3,7")) << alignd_->Log();
    return change;
  }
  // The runtime holds no move any more.
  void EndHold() {
    runtime_->SetDelay(kUpdateCall, milliseconds(0));
    runtime_->EndDelays();
  }
  // A change of the file, by `alignctl apply --may-move if-needed`, is half done when alignd ends.
  void KillInTheMiddle() {
    tree_.Write({"config.yaml", ConfigWith("0-1,4")});
    BeginHalf("");
    alignd_->Kill(SIGKILL);
    EndHold();
  }

  std::string may_move_ = "if-needed";
  Running a_;
  Running b_;
  Running shared_;
  std::string state_;
};

}  // namespace alignd::daemon
