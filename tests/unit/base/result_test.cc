#include "alignd/base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace alignd {
namespace {

TEST(Error, GrowsContextInFrontAndKeepsItsCodeAndRemedy) {
  const Error error{ErrorCode::kIo, "no such file", "create it"};
  const Error deeper = error.In("read /x").In("start");
  EXPECT_EQ(deeper, (Error{ErrorCode::kIo, "start: read /x: no such file", "create it"}));
}

TEST(Error, ShowsTheRemedyBehindTheMessageIfThereIsOne) {
  EXPECT_EQ((Error{ErrorCode::kIo, "no such file", "create it"}).Text(), "no such file; create it");
  EXPECT_EQ((Error{ErrorCode::kIo, "no such file"}).Text(), "no such file");
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<std::string> good = std::string("four");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(*good, "four");
  EXPECT_EQ(good->size(), 4U);

  const Result<std::string> bad = Error{ErrorCode::kNotFound, "none"};
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().code, ErrorCode::kNotFound);
}

TEST(Result, GivesAwayAMovableValue) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  *result.value() = 6;
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 6);
}

TEST(Result, OfDoneHasNoValue) {
  const Result<Done> done = Done{};
  EXPECT_TRUE(done.ok());
  const Result<Done> failed = Error{};
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kInternal);
}

TEST(ResultDeathTest, EndsTheProgramWhereThereIsNoValue) {
  const auto ask_for_value = []() noexcept {
    const Result<int> bad = Error{ErrorCode::kNotFound, "none"};
    return bad.value();
  };
  EXPECT_DEATH(ask_for_value(), "");
}

}  // namespace
}  // namespace alignd
