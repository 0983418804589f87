// What `alignctl gather` says about a start of the unit alignd.service.
#include "cli/gather_start.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "edge/fake_tree.h"
#include "kubelet/agreement.h"
#include "kubelet/file_view.h"

namespace alignd::cli {
namespace {

using daemon::StartCheck;
using testing::FakeTree;

class GatherStart : public ::testing::Test {
 protected:
  // With the command line of the unit; empty: there is no unit.
  Result<StartCheck> Check(const std::string& command_line, const std::string& config) {
    const std::filesystem::path unit = tree_.root() / "etc/systemd/system/alignd.service";
    std::filesystem::remove(unit);
    if (!command_line.empty()) {
      tree_.Write(
          {"etc/systemd/system/alignd.service", "[Service]\nExecStart=" + command_line + "\n"});
    }
    return CheckStartOfUnit(kubelet::FindAligndFlags(kubelet::FileView(tree_.root())),
                            {config, tree_.root() / "state", tree_.root() / "state/plugins"});
  }

  std::string Config() const { return tree_.root() / "config.yaml"; }

  static std::string TextOf(const Result<StartCheck>& check) {
    if (!check.ok()) return check.error().Text();
    std::ostringstream out;
    daemon::PrintStartCheck(*check, /*wide=*/true, out);
    return out.str();
  }

  const FakeTree tree_{{"config.yaml", "cpuManagerPolicy: none\n"}, {"other.yaml", ""}};
};

TEST_F(GatherStart, AFlagWithWhichAligndEndsIsAProblem) {
  const struct {
    const char* flags;
    const char* problem;
  } cases[] = {
      {"--pod-policies=typo", "--pod-policies"},
      {"--pod-polices=static", "unknown option: --pod-polices; did you mean --pod-policies?"},
      {"--kubelet-compatibility 1.3", "--kubelet-compatibility"},
      {"--log-level info --log-level debug", "--log-level is given 2 times; give it once"},
      {"--config /absent.yaml", "--config: File does not exist: /absent.yaml"},
      {"--mirror-resource a.com/gpu=strict", "--mirror"},
      {"more", "unexpected argument: more"},
      {"--help", "with --help or --version, alignd ends at once"},
      {"--check", "with --check, alignd ends after the check"},
  };
  for (const auto& [flags, problem] : cases) {
    const std::string text = TextOf(Check("/usr/bin/alignd " + std::string(flags), Config()));
    EXPECT_NE(text.find("problem: alignd.service: "), std::string::npos) << flags << ": " << text;
    EXPECT_NE(text.find(problem), std::string::npos) << flags << ": " << text;
    EXPECT_NE(text.find("\nalignd would not start: 1 problem\n"), std::string::npos) << text;
  }
}

TEST_F(GatherStart, TheSettingsAreThoseOfTheUnit) {
  setenv("NOTIFY_SOCKET", "/of/alignctl", 1);
  const Result<StartCheck> check =
      Check("-/usr/bin/alignd --config " + (tree_.root() / "other.yaml").string() +
                " --not-devices a.com/licence --shared-pool-handlers kata*",
            Config());
  unsetenv("NOTIFY_SOCKET");
  ASSERT_TRUE(check.ok()) << check.error().Text();
  EXPECT_EQ(TextOf(check).find("alignd.service: "), std::string::npos) << TextOf(check);
  const auto value_of = [&check](const std::string& name) {
    const auto at = std::ranges::find_if(
        check->settings, [&name](const auto& setting) { return setting.name() == name; });
    return at == check->settings.end() ? "absent" : at->value() + " (" + at->source() + ")";
  };
  EXPECT_EQ(value_of("--not-devices"), "a.com/licence (flag)");
  EXPECT_EQ(value_of("--shared-pool-handlers"), "kata* (flag)");
  EXPECT_EQ(value_of("--pod-policies").find("flag"), std::string::npos);
  EXPECT_EQ(value_of("NOTIFY_SOCKET"), "absent");
  // What is given to alignctl comes first.
  EXPECT_EQ(value_of("--config"), Config() + " (flag)");
  const std::string state = tree_.root() / "state";
  EXPECT_EQ(value_of("--state-dir"), state + " (flag)");
  EXPECT_EQ(value_of("--plugins-registry"), state + "/plugins_registry (default)");
  EXPECT_EQ(check->config, Config());
}

TEST_F(GatherStart, NothingIsSaidOfAStartThatIsNotKnown) {
  const Result<StartCheck> none = Check("", "");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().Text().find("there is no alignd.service"), std::string::npos);
  EXPECT_TRUE(Check("", Config()).ok());
  EXPECT_TRUE(Check("/usr/bin/alignd", "").ok());
  for (const char* const line : {"/bin/sh -c alignd", "@/usr/bin/alignd alignd", "-"}) {
    const std::string text = TextOf(Check(line, Config()));
    EXPECT_NE(text.find("does not start alignd directly"), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace alignd::cli
