#include "mirror/binding_modes.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd::mirror {
namespace {

TEST(BindingModes, AllAlikeWithoutRules) {
  EXPECT_EQ(BindingModes(BindingMode::kDeferred).Of("example.com/gpu"), BindingMode::kDeferred);
}

TEST(BindingModes, FirstRuleThatMatchesApplies) {
  const BindingModes modes(BindingMode::kPreferred,
                           {{"intel.com/sriov_dpdk", BindingMode::kDeferred},
                            {"intel.com/sriov*", BindingMode::kStrict},
                            {"*", BindingMode::kDeferred}});
  EXPECT_EQ(modes.Of("intel.com/sriov_dpdk"), BindingMode::kDeferred);
  EXPECT_EQ(modes.Of("intel.com/sriov_dpdk2"), BindingMode::kStrict);
  EXPECT_EQ(modes.Of("intel.com/sriov"), BindingMode::kStrict);
  EXPECT_EQ(modes.Of("example.com/intel.com/sriov"), BindingMode::kDeferred);
}

TEST(BindingModes, StarStandsForAnyText) {
  const struct {
    const char* pattern;
    const char* name;
    bool matches;
  } kCases[] = {
      {"a.com/b", "a.com/b", true},
      {"a.com/b", "a.com/bb", false},
      {"a.com/b", "a.com/", false},
      {"*", "a.com/b", true},
      {"*/b", "a.com/b", true},
      {"*/b", "a.com/bb", false},
      {"a.com/*", "a.com/b", true},
      {"a.com/*", "b.com/b", false},
      {"*.com/*", "a.com/b", true},
      {"*.com/*", "a.org/b", false},
      {"*vf*mlx*", "a.com/vf_mlx", true},
      {"*vf*mlx*", "a.com/mlx_vf", false},
      {"a*b*b", "a/b", false},
      {"a*b*b", "a/bb", true},
      {"*b", "bab", true},
      {"a**b", "ab", true},
      {"a.*m/b", "axcom/b", false},
  };
  for (const auto& c : kCases) {
    const BindingModes modes(BindingMode::kPreferred, {{c.pattern, BindingMode::kStrict}});
    EXPECT_EQ(modes.Of(c.name) == BindingMode::kStrict, c.matches) << c.pattern << " " << c.name;
  }
}

TEST(BindingRule, IsReadFromItsText) {
  EXPECT_EQ(*ParseBindingRule("intel.com/sriov*=strict"),
            (BindingRule{"intel.com/sriov*", BindingMode::kStrict}));
  EXPECT_EQ(*ParseBindingRule("*=deferred"), (BindingRule{"*", BindingMode::kDeferred}));
  EXPECT_EQ(*ParseBindingRule("a.com/b=preferred"),
            (BindingRule{"a.com/b", BindingMode::kPreferred}));
}

TEST(BindingMode, FormerNamesAreAccepted) {
  EXPECT_EQ(*ParseBindingMode("steered"), BindingMode::kPreferred);
  EXPECT_EQ(*ParseBindingMode("late"), BindingMode::kDeferred);
  EXPECT_EQ(*ParseBindingMode("counted"), BindingMode::kStrict);
}

TEST(BindingRule, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* says;
  } kCases[] = {{"a.com/b", "no mode"},
                {"a.com/b=", "\"\" is none of preferred, deferred, strict"},
                {"a.com/b=Strict", "\"Strict\" is none of"},
                {"a.com/b=off", "\"off\" is none of"},
                {"=deferred", "no resource"},
                {"cpu=deferred", "a name like example.com/gpu"},
                {"", "no mode"}};
  for (const auto& c : kCases) {
    const auto rule = ParseBindingRule(c.text);
    ASSERT_FALSE(rule.ok()) << c.text;
    EXPECT_EQ(rule.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(rule.error().message.find(c.says), std::string::npos) << rule.error().message;
    EXPECT_NE(rule.error().remedy, "");
  }
}

}  // namespace
}  // namespace alignd::mirror
