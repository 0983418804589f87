#include "daemon/config_changes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::daemon {
namespace {

class ConfigChangesTest : public ::testing::Test {
 protected:
  ConfigChangesTest() {
    options_.config = tree_.root() / "config.yaml";
    Write("first");
    changes_.Started({"first"});
  }
  void Write(const std::string& text) { tree_.Write({"config.yaml", text}); }

  const testing::FakeTree tree_;
  Options options_;
  ConfigChanges changes_{options_, [] {}};
};

// An editor may be writing the file at any moment: what applies is what was read for the change.
TEST_F(ConfigChangesTest, TheAppliedTextIsTheOneThatWasTaken) {
  Write("second");
  const WantedChange change = changes_.Take();
  EXPECT_EQ(change.applied, "first");
  ASSERT_TRUE(change.text.ok());
  EXPECT_EQ(*change.text, "second");
  Write("");
  changes_.Ended(change, Done{});
  EXPECT_EQ(changes_.Take().applied, "second");
}

// Of several `alignctl apply` at once, all but the last one fail, and say what to do.
TEST_F(ConfigChangesTest, ARequestThatDidNotBeginYieldsToTheNextAndNamesTheRemedy) {
  control::v1::ChangeRequest request;
  request.set_config("second");
  const auto first = changes_.Apply(request);
  ASSERT_TRUE(first.ok()) << first.error().Text();
  request.set_config("third");
  const auto second = changes_.Apply(request);
  ASSERT_TRUE(second.ok()) << second.error().Text();
  EXPECT_EQ(changes_.Outcome(*second).outcome(), "pending");
  const control::v1::GetChangeResponse outcome = changes_.Outcome(*first);
  EXPECT_EQ(outcome.outcome(), "failed");
  EXPECT_EQ(outcome.message(),
            "another change was requested before this one began, and nothing of this one was "
            "applied: see what `alignctl plan` shows now, and repeat the command if it is still "
            "wanted");
  EXPECT_EQ(*changes_.Take().text, "third");
}

TEST_F(ConfigChangesTest, ARefusedChangeAppliesNothing) {
  Write("second");
  const WantedChange change = changes_.Take();
  changes_.Ended(change, Error{ErrorCode::kInvalidArgument, "refused", ""});
  EXPECT_EQ(changes_.Take().applied, "first");
}

// The next start would use the file.
TEST_F(ConfigChangesTest, AFileThatCouldNotBeAppliedIsKnownUntilItAgrees) {
  const Error refused{ErrorCode::kInvalidArgument, "refused", "correct it"};
  const auto reload = [this](const Result<Done>& result) {
    changes_.Ended(changes_.Take(), result);
  };
  EXPECT_FALSE(changes_.NotApplied());
  Write("second");
  reload(refused);
  ASSERT_TRUE(changes_.NotApplied());
  EXPECT_EQ(changes_.NotApplied()->message, "refused");
  Write("third");  // not read by alignd yet
  EXPECT_TRUE(changes_.NotApplied());
  std::filesystem::remove(options_.config);
  EXPECT_TRUE(changes_.NotApplied());
  Write("first");  // what applies
  EXPECT_FALSE(changes_.NotApplied());
  Write("second");
  EXPECT_FALSE(changes_.NotApplied()) << "no reload of it has failed";
  reload(refused);
  EXPECT_TRUE(changes_.NotApplied());
  reload(Done{});
  EXPECT_FALSE(changes_.NotApplied());
}

// A reload is refused then, and nothing will ever be another way at the next start.
TEST_F(ConfigChangesTest, WithoutAFileAReloadLeavesNothingNotApplied) {
  options_.config.clear();
  const WantedChange change = changes_.Take();
  ASSERT_FALSE(change.text.ok());
  changes_.Ended(change, change.text.error());
  EXPECT_FALSE(changes_.NotApplied());
}

TEST_F(ConfigChangesTest, AFileThatSaysTheSameInOtherWordsAgrees) {
  const std::string kind =
      "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
  changes_.Started({kind + "cpuManagerPolicy: none\n"});
  Write("broken");
  changes_.Ended(changes_.Take(), Error{ErrorCode::kInvalidArgument, "refused", ""});
  Write(kind + "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n");
  EXPECT_TRUE(changes_.NotApplied());
  Write("# as before\n" + kind + "cpuManagerPolicy: none\n");
  EXPECT_FALSE(changes_.NotApplied());
}

TEST_F(ConfigChangesTest, ARefusedConfigurationOfARequestLeavesTheFileInForce) {
  control::v1::ChangeRequest request;
  request.set_config("requested");
  ASSERT_TRUE(changes_.Apply(request).ok());
  Write("second");
  changes_.Ended(changes_.Take(), Error{ErrorCode::kInvalidArgument, "refused", ""});
  EXPECT_FALSE(changes_.NotApplied());
}

TEST_F(ConfigChangesTest, TheTextOfARequestIsTaken) {
  control::v1::ChangeRequest request;
  request.set_config("requested");
  const Result<uint64_t> number = changes_.Apply(request);
  ASSERT_TRUE(number.ok()) << number.error().Text();
  const WantedChange change = changes_.Take();
  EXPECT_EQ(change.number, *number);
  ASSERT_TRUE(change.text.ok());
  EXPECT_EQ(*change.text, "requested");
  changes_.Ended(change, Done{});
  EXPECT_EQ(changes_.Take().applied, "requested");
}

// A change was interrupted while it moved containers: it was allowed to.
TEST_F(ConfigChangesTest, OnlyTheRepetitionOfAChangeWithMovesMayMoveToo) {
  EXPECT_FALSE(changes_.Take().request.may_move());
  changes_.Started({"former", /*is_former=*/true});
  control::v1::ChangeRequest request;
  request.set_config("requested");
  ASSERT_TRUE(changes_.Apply(request).ok());
  const WantedChange requested = changes_.Take();
  EXPECT_FALSE(requested.request.may_move());
  changes_.Ended(requested, Error{ErrorCode::kUnavailable, "not listed yet", ""});
  const WantedChange repeated = changes_.Take();
  EXPECT_EQ(repeated.applied, "former");
  EXPECT_TRUE(repeated.request.may_move());
  changes_.Ended(repeated, Error{ErrorCode::kInvalidArgument, "refused", ""});
  EXPECT_FALSE(changes_.Take().request.may_move());
}

TEST_F(ConfigChangesTest, AFileThatCannotBeReadIsAnError) {
  std::filesystem::remove(options_.config);
  const WantedChange change = changes_.Take();
  EXPECT_FALSE(change.text.ok());
  const auto node = changes_.NodeFor(Machine(), change);
  ASSERT_FALSE(node.ok());
  EXPECT_EQ(node.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace alignd::daemon
