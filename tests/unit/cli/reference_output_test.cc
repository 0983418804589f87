// Manual pages and completions against the programs that they describe.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/reference.h"
#include "cli/reference_texts.h"
#include "daemon/options.h"
#include "edge/fake_tree.h"
#include "host/subprocess.h"

namespace alignd::cli {
namespace {

std::vector<CommandReference> OfAlignctl() {
  Action action;
  return ReferenceOf(*MakeProgram(AllCommands(), action));
}

std::vector<CommandReference> OfAlignd() {
  std::vector<CommandReference> commands;
  daemon::DescribeOptions([&](const CLI::App& app) { commands = ReferenceOf(app); });
  return commands;
}

std::string WithoutEscapes(std::string text) {
  for (size_t at = 0; (at = text.find("\\-", at)) != std::string::npos;) text.erase(at, 1);
  return text;
}

void ExpectAllIn(const std::vector<CommandReference>& commands, const ManualText& text) {
  const std::string manual = WithoutEscapes(ManualPage(commands, text));
  const std::string bash = BashCompletion(text.name, commands);
  const std::string zsh = ZshCompletion(text.name, commands);
  const std::string fish = FishCompletion(text.name, commands);
  size_t flags = 0;
  for (const CommandReference& command : commands) {
    for (const FlagReference& flag : command.flags) {
      ++flags;
      EXPECT_NE(manual.find(flag.name), std::string::npos) << flag.name;
      EXPECT_NE(bash.find(flag.name), std::string::npos) << flag.name;
      EXPECT_NE(zsh.find("'" + flag.name + "'':'"), std::string::npos) << flag.name;
      EXPECT_NE(fish.find(" -l " + flag.name.substr(2) + " "), std::string::npos) << flag.name;
    }
    for (const std::string& below : command.below) {
      EXPECT_NE(manual.find(below), std::string::npos) << below;
      EXPECT_NE(bash.find(below), std::string::npos) << below;
      EXPECT_NE(zsh.find("'" + below + ":"), std::string::npos) << below;
      EXPECT_NE(fish.find(" -a " + below + " "), std::string::npos) << below;
    }
  }
  EXPECT_GT(flags, 20U);
}

TEST(ReferenceOutput, HasEveryFlagAndCommand) {
  ExpectAllIn(OfAlignctl(), AlignctlManual());
  ExpectAllIn(OfAlignd(), AligndManual());
}

TEST(ReferenceOutput, TheManualPageHasValuesDefaultsAndExamples) {
  const std::string manual = WithoutEscapes(ManualPage(OfAlignctl(), AlignctlManual()));
  for (const char* const part :
       {".SS alignctl checkpoint verify FILE...\n", ".SS alignctl explain [POD]\n",
        "One of: text, wide, json, yaml.\nDefault: text.\n", "alignctl why-not -f pod.yaml\n",
        ".SH EXIT STATUS\n"}) {
    EXPECT_NE(manual.find(part), std::string::npos) << part << "\n" << manual;
  }
}

// bash itself completes.
TEST(ReferenceOutput, BashCompletes) {
  const testing::FakeTree tree{{"alignctl", BashCompletion("alignctl", OfAlignctl())}};
  const auto complete = [&](const std::string& words, int index) {
    const auto run = host::RunProcess(
        {"bash", "--norc", "-c",
         "source " + (tree.root() / "alignctl").string() + "; COMP_WORDS=(alignctl " + words +
             "); COMP_CWORD=" + std::to_string(index) + "; _alignctl; echo \"${COMPREPLY[*]}\""},
        std::chrono::seconds(60));
    return run.ok() ? run->output : run.error().Text();
  };
  EXPECT_EQ(complete("st", 1), "state status\n");
  EXPECT_EQ(complete("status --o", 2), "--output\n");
  EXPECT_EQ(complete("status -o y", 3), "yaml\n");
  EXPECT_EQ(complete("checkpoint v", 2), "verify\n");
  EXPECT_EQ(complete("checkpoint verify --kind ''", 4), "cpu memory device guess\n");
}

}  // namespace
}  // namespace alignd::cli
