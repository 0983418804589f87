#include "deviceplugin/plugin_preferences.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace alignd::deviceplugin {
namespace {

using devicemanager::PreferenceQuery;
using std::chrono::milliseconds;
using std::chrono::minutes;
using Ids = std::vector<std::string>;
using Response = Result<v1beta1::PreferredAllocationResponse>;

constexpr milliseconds kBrief{1'000};
constexpr milliseconds kLong{10'000};

// A plugin that answers only when the test says so.
class SilentPlugin final : public PluginConnection {
 public:
  void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)>) override {}
  void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)>,
             std::function<void(Error)>) override {}
  void Allocate(const Ids&, std::function<void(Result<v1beta1::AllocateResponse>)>) override {}
  void PreStartContainer(const Ids&, std::function<void(Result<Done>)>) override {}
  void Close() override {}
  void GetPreferredAllocation(const PreferenceQuery&, milliseconds,
                              std::function<void(Response)> done) override {
    asked.push_back(std::move(done));
  }

  void Answer(size_t question, const std::string& id) {
    v1beta1::PreferredAllocationResponse response;
    response.add_container_responses()->add_deviceids(id);
    asked.at(question)(response);
  }
  void BeLate(size_t question) {
    asked.at(question)(Error{ErrorCode::kDeadlineExceeded, "no answer"});
  }
  void Fail(size_t question) { asked.at(question)(Error{ErrorCode::kUnavailable, "gone"}); }

  std::vector<std::function<void(Response)>> asked;
};

class AskedPreferences : public ::testing::Test {
 protected:
  // What one question was given so far: each time one entry.
  using Given = std::shared_ptr<std::vector<std::optional<Ids>>>;

  explicit AskedPreferences(milliseconds pause = minutes(10))
      : preferences_(std::make_shared<PluginPreferences>("example.com/gpu", pause)) {}

  Given Ask(milliseconds within) {
    auto given = std::make_shared<std::vector<std::optional<Ids>>>();
    preferences_->Ask(plugin_,
                      {.resource = "example.com/gpu",
                       .available = {"gpu-0", "gpu-1"},
                       .must_include = {},
                       .size = 1},
                      within,
                      [given](std::optional<Ids> ids) { given->push_back(std::move(ids)); });
    return given;
  }

  const std::vector<std::optional<Ids>> nothing_yet_;
  const std::vector<std::optional<Ids>> no_preference_{std::nullopt};
  const std::vector<std::optional<Ids>> gpu1_{Ids{"gpu-1"}};
  SilentPlugin plugin_;
  std::shared_ptr<PluginPreferences> preferences_;
};

TEST_F(AskedPreferences, ArePassedOn) {
  const Given given = Ask(kLong);
  EXPECT_EQ(*given, nothing_yet_);
  plugin_.Answer(0, "gpu-1");
  EXPECT_EQ(*given, gpu1_);
}

TEST_F(AskedPreferences, CallersThatWaitForALatePluginContinueAtOnce) {
  const Given first = Ask(kLong);
  const Given second = Ask(kLong);
  const Given brief = Ask(kBrief);
  const Given patient = Ask(2 * kLong);
  plugin_.BeLate(0);
  EXPECT_EQ(*first, no_preference_);
  EXPECT_EQ(*second, no_preference_);
  EXPECT_EQ(*brief, no_preference_);
  EXPECT_EQ(*patient, nothing_yet_);
  // Later answers are ignored.
  plugin_.BeLate(1);
  plugin_.Answer(2, "gpu-1");
  EXPECT_EQ(*second, no_preference_);
  EXPECT_EQ(*brief, no_preference_);
  plugin_.Answer(3, "gpu-1");
  EXPECT_EQ(*patient, gpu1_);
}

TEST_F(AskedPreferences, LatePluginIsSkippedByCallersWithTheSameOrAShorterDeadline) {
  Ask(kBrief);
  plugin_.BeLate(0);
  EXPECT_EQ(*Ask(kBrief), no_preference_);
  EXPECT_EQ(*Ask(kBrief / 2), no_preference_);
  EXPECT_EQ(plugin_.asked.size(), 1U);
  EXPECT_EQ(*Ask(kLong), nothing_yet_);
  EXPECT_EQ(plugin_.asked.size(), 2U);
}

TEST_F(AskedPreferences, PluginThatMissedTheLongestDeadlineIsSkippedByAll) {
  Ask(kLong);
  plugin_.BeLate(0);
  EXPECT_EQ(*Ask(kLong), no_preference_);
  EXPECT_EQ(*Ask(kBrief), no_preference_);
  EXPECT_EQ(plugin_.asked.size(), 1U);
}

TEST_F(AskedPreferences, PluginThatAnswersInTimeIsAskedByAllAgain) {
  Ask(kBrief);
  plugin_.BeLate(0);
  Ask(kLong);
  plugin_.Answer(1, "gpu-1");  // at once
  const Given given = Ask(kBrief);
  EXPECT_EQ(plugin_.asked.size(), 3U);
  plugin_.Answer(2, "gpu-1");
  EXPECT_EQ(*given, gpu1_);
}

TEST_F(AskedPreferences, FailureIsNoMissedDeadline) {
  const Given failed = Ask(kLong);
  const Given other = Ask(kLong);
  plugin_.Fail(0);
  EXPECT_EQ(*failed, no_preference_);
  EXPECT_EQ(*other, nothing_yet_);
  Ask(kLong);
  EXPECT_EQ(plugin_.asked.size(), 3U);
}

class PreferencesWithoutPause : public AskedPreferences {
 protected:
  PreferencesWithoutPause() : AskedPreferences(milliseconds(0)) {}
};

TEST_F(PreferencesWithoutPause, LatePluginIsAskedAgain) {
  Ask(kLong);
  plugin_.BeLate(0);
  const Given given = Ask(kLong);
  ASSERT_EQ(plugin_.asked.size(), 2U);
  plugin_.Answer(1, "gpu-1");
  EXPECT_EQ(*given, gpu1_);
}

}  // namespace
}  // namespace alignd::deviceplugin
