#include "reconcile/bypass.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "conditions_fixture.h"
#include "edge/fake_tree.h"

namespace alignd::reconcile {
namespace {

using State = Bypass::State;

class BypassSwitch : public ::testing::Test {
 protected:
  BypassSwitch() {
    bypass_->ReportTo(conditions_);
    bypass_->OnList([this] {
      seen_.push_back(bypass_->state());
      return std::ssize(seen_) != failing_;
    });
  }
  std::filesystem::path File() const { return tree_.root() / "state" / Bypass::kFileName; }
  bool IsReported() const { return !conditions_.Report().empty(); }
  static bool Has(const Error& error, const std::string& text) {
    return error.Text().find(text) != std::string::npos;
  }

  Logged logged_;
  const testing::FakeTree tree_{{"state/empty", ""}};
  Conditions conditions_;
  const std::unique_ptr<Bypass> bypass_ = *Bypass::Load(File(), std::chrono::milliseconds(30));
  std::vector<State> seen_;  // at each listing
  int failing_ = 0;          // the listing that fails; 0: none
};

TEST_F(BypassSwitch, ListsTheRuntimeTwiceBeforeItIsOff) {
  ASSERT_TRUE(bypass_->TurnOn().ok());
  EXPECT_EQ(bypass_->state(), State::kOn);
  EXPECT_TRUE(std::filesystem::exists(File()));
  ASSERT_TRUE(bypass_->TurnOff().ok());
  EXPECT_EQ(seen_, (std::vector<State>{State::kOn, State::kEnding}));
  EXPECT_EQ(bypass_->state(), State::kOff);
  EXPECT_FALSE(IsReported());
  EXPECT_FALSE(std::filesystem::exists(File()));
}

TEST_F(BypassSwitch, StaysOnIfTheRuntimeIsNotListed) {
  ASSERT_TRUE(bypass_->TurnOn().ok());
  for (const int listings : {1, 2}) {
    seen_.clear();
    failing_ = listings;
    (void)logged_.Take();
    const Result<Done> off = bypass_->TurnOff();
    ASSERT_FALSE(off.ok());
    EXPECT_EQ(off.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(logged_.Take(), "error " + off.error().Text() + "\n");
    EXPECT_TRUE(Has(off.error(), "the bypass stays on: the container runtime could not be listed"));
    EXPECT_EQ(std::ssize(seen_), listings);
    EXPECT_EQ(bypass_->state(), State::kOn);
    EXPECT_TRUE(bypass_->since().has_value());
    EXPECT_TRUE(IsReported());
    EXPECT_TRUE(std::filesystem::exists(File()));
  }
}

TEST_F(BypassSwitch, WaitsForTheRelayedCalls) {
  ASSERT_TRUE(bypass_->TurnOn().ok());
  std::shared_ptr<const void> call = bypass_->BeginCall();
  const Result<Done> off = bypass_->TurnOff();
  ASSERT_FALSE(off.ok());
  EXPECT_TRUE(Has(off.error(), "CreateContainer are still under way: 1;")) << off.error().Text();
  EXPECT_EQ(bypass_->state(), State::kOn);
  EXPECT_EQ(seen_.size(), 1U);
  call.reset();
  EXPECT_TRUE(bypass_->TurnOff().ok());
}

TEST_F(BypassSwitch, IsOnWithoutADiskButNotAfterARestart) {
  std::filesystem::remove_all(File().parent_path());
  const Result<Done> on = bypass_->TurnOn();
  ASSERT_FALSE(on.ok());
  EXPECT_TRUE(Has(on.error(), "the bypass is on, but it ends when alignd restarts: "));
  EXPECT_TRUE(Has(on.error(), "then run `alignctl bypass on` again"));
  EXPECT_NE(logged_.Take().find("error the bypass is on, but"), std::string::npos);
  EXPECT_EQ(bypass_->state(), State::kOn);
  EXPECT_TRUE(IsReported());
  EXPECT_TRUE(bypass_->EndsAtRestart());
  // The next call repeats the write, and keeps the time.
  const auto since = bypass_->since();
  std::filesystem::create_directory(File().parent_path());
  EXPECT_TRUE(bypass_->TurnOn().ok());
  EXPECT_FALSE(bypass_->EndsAtRestart());
  EXPECT_EQ(bypass_->since(), since);
  EXPECT_EQ((*Bypass::Load(File()))->state(), State::kOn);
}

TEST_F(BypassSwitch, ThatARestartFoundIsSaved) {
  ASSERT_TRUE(bypass_->TurnOn().ok());
  EXPECT_FALSE((*Bypass::Load(File()))->EndsAtRestart());
}

TEST_F(BypassSwitch, CanBeTurnedOffWithoutADisk) {
  std::filesystem::remove_all(File().parent_path());
  ASSERT_FALSE(bypass_->TurnOn().ok());
  const Result<Done> off = bypass_->TurnOff();
  EXPECT_TRUE(off.ok()) << off.error().Text();
  EXPECT_EQ(bypass_->state(), State::kOff);
  EXPECT_FALSE(bypass_->EndsAtRestart());
}

}  // namespace
}  // namespace alignd::reconcile
