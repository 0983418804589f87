#include "reconcile/cdi_names.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace alignd::reconcile {
namespace {

// A registry with the pod p, and a runtime that answers at once.
class CdiNamesTest : public ::testing::Test {
 protected:
  using Names = CdiNames::Names;

  CdiNamesTest() { registry_.AddSandbox("s", "p"); }

  void Add(const std::string& id) { registry_.AddContainer(id, {"p", id}, {}); }
  // Returns the ids of the containers that the runtime was asked for.
  std::string Look() {
    asked_.clear();
    names_.Look({"p"});
    return std::exchange(asked_, {});
  }
  std::optional<Names> Of(const std::string& container) { return names_.Of({"p", container}); }

  ContainerRegistry registry_;
  std::map<std::string, Error> errors_;      // by id
  std::map<std::string, std::string> info_;  // by id; others have the name a.com/g=ID
  std::string asked_;
  CdiNames names_{registry_, [this](const std::string& id, const auto& done) {
                    asked_ += id;
                    if (const auto error = errors_.find(id); error != errors_.end()) {
                      return done(error->second);
                    }
                    const auto info = info_.find(id);
                    done(info != info_.end()
                             ? info->second
                             : R"({"config":{"metadata":{"name":"n"},"CDI_devices":[{"name":)"
                               R"("a.com/g=)" +
                                   id + R"("}]}})");
                  }};
};

TEST_F(CdiNamesTest, ContainerThatCannotBeAskedKeepsNoOtherWaiting) {
  for (const char* const id : {"a", "b", "c", "d"}) Add(id);
  errors_["d"] = {ErrorCode::kDeadlineExceeded, "late", ""};
  EXPECT_EQ(Look(), "dcba");
  EXPECT_EQ(Of("a"), Names({"a.com/g=a"}));
  EXPECT_EQ(Of("d"), std::nullopt);
  EXPECT_EQ(Look(), "d");
  errors_.clear();
  EXPECT_EQ(Look(), "d");
  EXPECT_EQ(Of("d"), Names({"a.com/g=d"}));
  EXPECT_EQ(Look(), "");
}

TEST_F(CdiNamesTest, AfterAnAnswerUnavailableTheOthersComeFirstInTheNextListing) {
  for (const char* const id : {"a", "b", "c", "d"}) Add(id);
  errors_["b"] = errors_["d"] = {ErrorCode::kUnavailable, "gone", ""};
  EXPECT_EQ(Look(), "d");
  EXPECT_EQ(Look(), "cb");
  EXPECT_EQ(Look(), "ad");
  EXPECT_EQ(Of("a"), Names({"a.com/g=a"}));
  EXPECT_EQ(Look(), "b");
  EXPECT_EQ(Look(), "d");
}

TEST_F(CdiNamesTest, RuntimeThatDoesNotShowThemIsAskedOnce) {
  Add("a");
  Add("b");
  info_["a"] = "";
  info_["b"] = R"({"runtimeSpec":{"linux":{}}})";
  EXPECT_EQ(Look(), "ba");
  EXPECT_EQ(Of("a"), std::nullopt);
  EXPECT_EQ(Of("b"), std::nullopt);
  EXPECT_EQ(Look(), "");
}

TEST_F(CdiNamesTest, RecordedOnesAreNotAskedAndGoWithTheirPod) {
  Add("a");
  names_.Created({"p", "a"}, {"a.com/g=1"});
  EXPECT_EQ(Look(), "");
  EXPECT_EQ(Of("a"), Names({"a.com/g=1"}));
  CdiNames next(
      registry_, [](const std::string& id, const auto&) { FAIL() << id; }, names_.known());
  next.Look({"p"});
  EXPECT_EQ(next.Of({"p", "a"}), Names({"a.com/g=1"}));
  registry_.RemoveSandbox("s");
  EXPECT_EQ(Look(), "");
  EXPECT_EQ(Of("a"), std::nullopt);
}

// A pod that is added while a listing ends: CRI-O would never show the names again.
TEST_F(CdiNamesTest, RecordedOnesOfANewPodAreKept) {
  std::atomic<bool> is_over = false;
  std::thread listings([&] {
    while (!is_over) names_.Look({});
  });
  size_t lost = 0;
  for (int i = 0; i < 2'000; ++i) {
    const std::string uid = "new-" + std::to_string(i);
    registry_.AddSandbox(uid, uid);
    names_.Created({uid, "a"}, {"a.com/g=1"});
    std::this_thread::yield();
    if (!names_.Of({uid, "a"})) ++lost;
    registry_.RemoveSandbox(uid);
  }
  is_over = true;
  listings.join();
  EXPECT_EQ(lost, 0U);
}

}  // namespace
}  // namespace alignd::reconcile
