// The reference pages against the programs: flags, configuration fields, messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "daemon/options.h"
#include "documents.h"
#include "events/events_options.h"
#include "extender/extender_options.h"

namespace alignd::docs {
namespace {

using Defaults = std::map<std::string, std::string>;  // by flag; empty: no default is shown

// The flags that a help text lists, with the defaults that it shows: "  --listen TEXT=unix:///x
// ..".
Defaults FlagsOfHelp(const std::string& help) {
  static const std::regex entry(
      R"(^ +(?:-\w,)?(--[a-z0-9-]+)(?: ([^ ]+(?: [^ ]+)*?))?(?:  .*| *)$)");
  static const std::regex value(R"(.*=([^= ]+)$)");
  Defaults flags;
  for (const std::string& line : Lines(help)) {
    std::smatch match;
    if (!std::regex_match(line, match, entry)) continue;
    const std::string shown = match[2];
    std::smatch found;
    std::string standard;
    if (std::regex_match(shown, found, value)) standard = found[1];
    if (shown.starts_with("BOOLEAN"))
      standard = standard == "0" || standard == "false" ? "false" : "true";
    flags[match[1]] = standard;
  }
  return flags;
}

// The part of docs/configuration.md from the heading to the next one of its level or above.
std::vector<std::string> Section(const std::string& heading) {
  const size_t level = heading.find(' ');
  std::vector<std::string> section;
  bool inside = false;
  for (const std::string& line : Prose(Root() / "docs/configuration.md")) {
    const size_t depth = line.find_first_not_of('#');
    if (line == heading) {
      inside = true;
      continue;
    }
    if (depth != 0 && depth != std::string::npos && depth <= level) inside = false;
    if (inside) section.push_back(line);
  }
  EXPECT_FALSE(section.empty()) << "no section " << heading;
  return section;
}

// The second cells of the table rows whose first cell begins with `--flag` in code font.
Defaults FlagsOfSection(const std::string& heading) {
  static const std::regex row(R"(^\| `(--[a-z0-9-]+)[^`]*`[^|]*\| ([^|]*)\|.*$)");
  Defaults flags;
  for (const std::string& line : Section(heading)) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    EXPECT_FALSE(flags.contains(match[1])) << match[1] << " is listed twice";
    flags[match[1]] = match[2];
  }
  return flags;
}

void ExpectDocumented(const std::string& heading, const Defaults& known) {
  const Defaults documented = FlagsOfSection(heading);
  for (const auto& [flag, standard] : known) {
    const auto entry = documented.find(flag);
    if (entry == documented.end()) {
      ADD_FAILURE() << flag << " has no entry in docs/configuration.md under " << heading;
    } else if (!standard.empty()) {
      EXPECT_NE(entry->second.find('`' + standard + '`'), std::string::npos)
          << flag << " has the default " << standard << ", documented is " << entry->second;
    }
  }
  for (const auto& [flag, standard] : documented) {
    EXPECT_TRUE(known.contains(flag))
        << flag << " is documented under " << heading << ", and the program does not know it";
  }
}

std::string HelpOfAlignctl(const std::vector<const char*>& command) {
  std::vector<const char*> arguments = {"alignctl"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  arguments.push_back("--help");
  std::ostringstream out;
  std::ostringstream err;
  EXPECT_EQ(cli::RunProgram(static_cast<int>(arguments.size()), arguments.data(),
                            cli::AllCommands(), out, err),
            cli::kSuccess)
      << err.str();
  return out.str();
}

TEST(Reference, EveryFlagOfAligndIsDocumented) {
  const std::vector<const char*> arguments = {"alignd", "--help"};
  int exit_status = 0;
  ::testing::internal::CaptureStdout();
  const auto options =
      daemon::ParseOptions(static_cast<int>(arguments.size()), arguments.data(), exit_status);
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(options);
  EXPECT_GT(FlagsOfHelp(help).size(), 20U);
  ExpectDocumented("## Flags of alignd", FlagsOfHelp(help));
}

TEST(Reference, EveryFlagOfAligndEventsIsDocumented) {
  std::string help;
  events::DescribeEventsOptions([&](const CLI::App& app) { help = app.help(); });
  ExpectDocumented("## Flags of alignd-events", FlagsOfHelp(help));
}

TEST(Reference, EveryFlagOfAligndExtenderIsDocumented) {
  std::string help;
  extender::DescribeExtenderOptions([&](const CLI::App& app) { help = app.help(); });
  ExpectDocumented("## Flags of alignd-extender", FlagsOfHelp(help));
}

// The words of each command that does something: {"checkpoint", "verify"}.
std::vector<std::vector<std::string>> CommandsOf(const CLI::App& app) {
  std::vector<std::vector<std::string>> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::vector<std::string>> below = CommandsOf(*command);
    // A command such as `alignctl state` also does something without the words below it.
    if (below.empty() || command->get_require_subcommand_min() == 0) below.emplace_back();
    for (std::vector<std::string>& words : below) {
      words.insert(words.begin(), command->get_name());
      commands.push_back(std::move(words));
    }
  }
  return commands;
}

TEST(Reference, EveryFlagOfAlignctlIsDocumented) {
  cli::Action action;
  const auto commands = CommandsOf(*cli::MakeProgram(cli::AllCommands(), action));
  EXPECT_GE(commands.size(), 8U);
  for (const std::vector<std::string>& command : commands) {
    std::string heading = "### alignctl";
    std::vector<const char*> words;
    for (const std::string& word : command) {
      heading += " " + word;
      words.push_back(word.c_str());
    }
    const std::string help = HelpOfAlignctl(words);
    EXPECT_NE(help.find("\nExamples:\n  alignctl "), std::string::npos) << heading << "\n" << help;
    Defaults known = FlagsOfHelp(help);
    EXPECT_EQ(known.erase("--help"), 1U) << heading;  // documented once for all commands
    ExpectDocumented(heading, known);
  }
}

// The fields of the example are those that alignd honours: see
// tests/unit/host/config_file_test.cc.
TEST(Reference, EveryConfigurationFieldIsDocumented) {
  static const std::regex field(R"(^([a-zA-Z]+):.*$)");
  static const std::regex row(R"(^\| `([a-zA-Z]+)` \|.*$)");
  std::set<std::string> honoured;
  for (const std::string& line : Lines(ReadText(Root() / "config/kubelet-config.yaml"))) {
    std::smatch match;
    if (std::regex_match(line, match, field)) honoured.insert(match[1]);
  }
  honoured.erase("apiVersion");
  honoured.erase("kind");
  std::set<std::string> documented;
  for (const std::string& line : Section("## KubeletConfiguration fields")) {
    std::smatch match;
    if (std::regex_match(line, match, row)) documented.insert(match[1]);
  }
  EXPECT_EQ(documented, honoured);
}

// The sources as one text, in which every literal stands in one piece and unescaped.
std::string SourceLiterals() {
  std::string all;
  for (const fs::path& file : FilesIn({"src", "include"})) {
    const std::string text = ReadText(file);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '"') continue;
      const size_t next = text[i] == '"' ? text.find_first_not_of(" \n", i + 1) : std::string::npos;
      const bool goes_on =
          next != std::string::npos && text[next] == '"' && text.find('\n', i) < next;
      if (goes_on) {
        i = next;
      } else {
        all += text[i];
      }
    }
    all += '\n';
  }
  return all;
}

// The first cells of its tables quote messages; "…" stands for names and numbers.
TEST(Reference, TroubleshootingQuotesMessagesOfThePrograms) {
  static const std::regex code("`([^`]+)`");
  static const std::string gap = "…";
  constexpr size_t kShortest = 6;  // shorter pieces say nothing
  const std::string literals = SourceLiterals();
  size_t quoted = 0;
  for (const std::string& line : Prose(Root() / "docs/troubleshooting.md")) {
    if (!line.starts_with("| `")) continue;
    const std::string cell = line.substr(0, line.find(" | "));
    for (std::sregex_iterator match(cell.begin(), cell.end(), code), end; match != end; ++match) {
      std::string rest = (*match)[1];
      while (!rest.empty()) {
        const size_t at = std::min(rest.find(gap), rest.size());
        std::string piece = rest.substr(0, at);
        rest.erase(0, std::min(at + gap.size(), rest.size()));
        piece.erase(0, std::min(piece.find_first_not_of(' '), piece.size()));
        piece.erase(piece.find_last_not_of(' ') + 1);
        if (piece.size() < kShortest) continue;
        ++quoted;
        EXPECT_NE(literals.find(piece), std::string::npos)
            << "docs/troubleshooting.md quotes a message that no program has: " << piece;
      }
    }
  }
  EXPECT_GT(quoted, 50U);
}

}  // namespace
}  // namespace alignd::docs
