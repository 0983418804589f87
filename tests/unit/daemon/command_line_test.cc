// The version, the examples and the errors of command lines, of all programs.
#include "daemon/command_line.h"

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "daemon/options.h"
#include "edge/run_alignctl.h"
#include "events/events_options.h"
#include "extender/extender_options.h"

namespace alignd::daemon {
namespace {

using testing::Printed;

Printed Alignctl(const std::vector<std::string>& words) {
  return testing::RunAlignctl(cli::AllCommands(), words);
}

// The options of a program, described to `use`.
using Describe = std::function<void(const std::function<void(const CLI::App&)>&)>;

const std::vector<std::pair<std::string, Describe>>& Programs() {
  static const std::vector<std::pair<std::string, Describe>> programs = {
      {"alignd", DescribeOptions},
      {"alignd-events", events::DescribeEventsOptions},
      {"alignd-extender", extender::DescribeExtenderOptions},
      {"alignctl", [](const auto& use) {
         cli::Action action;
         use(*cli::MakeProgram(cli::AllCommands(), action));
       }}};
  return programs;
}

TEST(CommandLine, TheVersionNamesProgramAndCommit) {
  static const std::regex form(R"([a-z-]+ [0-9]+\.[0-9]+\.[0-9]+ \(commit [^ ()]+\))");
  for (const auto& [name, describe] : Programs()) {
    std::string version;
    describe([&version](const CLI::App& app) { version = app.version(); });
    EXPECT_TRUE(version.starts_with(name + " ")) << version;
    EXPECT_TRUE(std::regex_match(version, form)) << version;
  }
  EXPECT_EQ(Alignctl({"--version"}).out, VersionOf("alignctl") + "\n");
}

// With status 1, `bypass status` would say that the bypass is on.
TEST(CommandLine, ASocketThatIsNoPathIsAWrongCommandLine) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"status"},
                                                {"pods"},
                                                {"explain"},
                                                {"why-not", "a"},
                                                {"bypass", "status"},
                                                {"bypass", "on"},
                                                {"config", "show"},
                                                {"topology"},
                                                {"state"},
                                                {"plan"},
                                                {"apply"},
                                                {"watch"},
                                                {"gather"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--socket", "control.sock"});
    const Printed printed = Alignctl(all);
    EXPECT_EQ(printed.status, 2) << words.front();
    EXPECT_NE(
        printed.err.find("--socket: \"control.sock\": not a unix:///path or an absolute path"),
        std::string::npos)
        << printed.err;
  }
}

TEST(CommandLine, NamesTheUnknownWordAndNamesLikeIt) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"statu"}, "alignctl: unknown command: statu; did you mean status?"},
      {{"stauts"}, "alignctl: unknown command: stauts; did you mean status?"},
      {{"st"}, "alignctl: unknown command: st; did you mean state or status?"},
      {{"statu", "-o", "json"}, "alignctl: unknown command: statu; did you mean status?"},
      {{"frobnicate"}, "alignctl: unknown command: frobnicate"},
      {{"x"}, "alignctl: unknown command: x"},
      {{std::string(10'000, 's')}, "alignctl: unknown command: " + std::string(10'000, 's')},
      {{"bypass", "offf"}, "alignctl bypass: unknown command: offf; did you mean off?"},
      {{"bypass"}, "alignctl bypass: a command is missing: on, off, status"},
      {{"bypass", "on", "-o", "json"}, "alignctl bypass on: unknown option: -o"},
      {{"config", "--socket", "x", "show"},
       "alignctl config: unknown option: --socket; give it after show"},
      {{"-o", "json", "status"}, "alignctl: unknown option: -o; give it after status"},
      {{"status", "--version"},
       "alignctl status: unknown option: --version; give it before status"},
      {{"status", "--soket=unix:///x"},
       "alignctl status: unknown option: --soket; did you mean --socket?"},
      {{"fit", "--filenam", "x"},
       "alignctl fit: unknown option: --filenam; did you mean --filename?"},
      {{"status", "pod", "more"}, "alignctl status: unexpected argument: pod"},
      {{"x\x1b[2J\n"}, "alignctl: unknown command: x\\u001b[2J\\n"}};
  for (const auto& [words, message] : cases) {
    const Printed printed = Alignctl(words);
    EXPECT_EQ(printed.status, cli::kNoAnswer);
    EXPECT_EQ(printed.out, "");
    EXPECT_EQ(printed.err.substr(0, printed.err.find('\n')), message);
    EXPECT_TRUE(printed.err.ends_with(" --help` for more information.\n")) << printed.err;
  }
}

TEST(CommandLine, NamesTheOptionAndWhatIsPermitted) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"checkpoint", "verify"}, "alignctl checkpoint verify: FILE is missing"},
      {{"fit"}, "alignctl fit: --filename is missing; give --filename FILE"},
      {{"why-not"}, "alignctl why-not: POD or --file is required"},
      {{"status", "-o"},
       "alignctl status: --output: the value is missing; give one of text, wide, json, yaml"},
      {{"status", "--socket"}, "alignctl status: --socket: the value is missing; give a value"},
      {{"topology", "--node"},
       "alignctl topology: --node: the value is missing; give a value: FILE"},
      {{"status", "-o", "xml"},
       "alignctl status: --output: \"xml\" is not permitted; give one of text, wide, json, yaml"},
      {{"status", "-o", "a not in {text"},
       "alignctl status: --output: \"a not in {text\" is not permitted; give one of text, wide, "
       "json, yaml"},
      {{"explain", "-n", "x"},
       "alignctl explain: --limit: \"x\" is not permitted; give a whole number from 1 to 256"},
      {{"explain", "-n", "257"},
       "alignctl explain: --limit: \"257\" is not permitted; give a whole number from 1 to 256"},
      {{"explain", "-n"},
       "alignctl explain: --limit: the value is missing; give a whole number from 1 to 256"},
      {{"status", "-o", "text", "-o", "json"},
       "alignctl status: --output is given 2 times; give it once"},
      {{"why-not", "a", "-f", "b"}, "alignctl why-not: POD cannot be given together with --file"},
      {{"kubelet", "attach", "-o", "json"},
       "alignctl kubelet attach: --output is permitted only with --dry-run"},
      {{"kubelet", "attach", "--yes=x"},
       "alignctl kubelet attach: --yes: \"x\" is not permitted; give it without a value"},
      {{"kubelet", "attach", "--restart", "--root", "/x"},
       "alignctl kubelet attach: --restart: cannot be used with --root"}};
  for (const auto& [words, message] : cases) {
    const Printed printed = Alignctl(words);
    EXPECT_EQ(printed.status, cli::kNoAnswer);
    EXPECT_EQ(printed.err.substr(0, printed.err.find('\n')), message);
  }
}

// Each option of each program, without its value: no word of CLI11 is left.
TEST(CommandLine, EachOptionSaysWhatIsPermitted) {
  const std::function<void(const CLI::App&, std::vector<std::string>)> look =
      [&look](const CLI::App& command, const std::vector<std::string>& words) {
        for (const CLI::App* below :
             command.get_subcommands([](const CLI::App*) { return true; })) {
          std::vector<std::string> longer = words;
          longer.push_back(below->get_name());
          look(*below, longer);
        }
        for (const CLI::Option* option : command.get_options()) {
          if (option->get_lnames().empty() || option->get_expected_max() == 0) continue;
          std::vector<std::string> longer = words;
          longer.push_back("--" + option->get_lnames().front());
          const std::string text = Alignctl(longer).err;
          EXPECT_NE(text.find(": the value is missing; give "), std::string::npos) << text;
          EXPECT_EQ(text.find_first_of("{["), std::string::npos) << text;
        }
      };
  Programs().back().second([&look](const CLI::App& app) { look(app, {}); });
}

TEST(CommandLine, OtherProgramsNameTheUnknownWordToo) {
  const auto error_of = [](const auto& parse, const std::vector<const char*>& words) {
    int status = 0;
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(static_cast<int>(words.size()), words.data(), status));
    EXPECT_EQ(status, 2);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(error_of(ParseOptions, {"alignd", "--lisen", "x"}),
            "alignd: unknown option: --lisen; did you mean --listen?\n"
            "Run `alignd --help` for more information.\n");
  EXPECT_EQ(error_of(events::ParseEventsOptions, {"alignd-events", "--socket", "x"}),
            "alignd-events: unknown option: --socket\n"
            "Run `alignd-events --help` for more information.\n");
  EXPECT_NE(error_of(extender::ParseExtenderOptions,
                     {"alignd-extender", "--in-cluster", "--pod-policies", "off"})
                .find("none is given"),
            std::string::npos);
  EXPECT_EQ(error_of(extender::ParseExtenderOptions, {"alignd-extender", "json", "-o"}),
            "alignd-extender: unexpected argument: json\n"
            "Run `alignd-extender --help` for more information.\n");
}

// The words of the examples in the help of a program.
std::vector<std::vector<std::string>> ExamplesOf(const Describe& describe) {
  std::string footer;
  describe([&footer](const CLI::App& app) { footer = app.get_footer(); });
  std::vector<std::vector<std::string>> examples;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) continue;
    std::istringstream words(line);
    examples.emplace_back();
    for (std::string word; words >> word;) examples.back().push_back(word);
  }
  return examples;
}

// Those of alignd name files, which it requires to exist.
TEST(CommandLine, TheExamplesOfTheHelpAreCorrect) {
  const auto parses = [](const auto& parse, const std::vector<std::string>& example) {
    std::vector<const char*> words;
    for (const std::string& word : example) words.push_back(word.c_str());
    int status = 0;
    return parse(static_cast<int>(words.size()), words.data(), status).has_value();
  };
  const auto of_events = ExamplesOf(events::DescribeEventsOptions);
  EXPECT_GE(of_events.size(), 3U);
  for (const auto& example : of_events) {
    EXPECT_TRUE(parses(events::ParseEventsOptions, example)) << example.back();
  }
  const auto of_extender = ExamplesOf(extender::DescribeExtenderOptions);
  EXPECT_GE(of_extender.size(), 3U);
  for (const auto& example : of_extender) {
    EXPECT_TRUE(parses(extender::ParseExtenderOptions, example)) << example.back();
  }
}

}  // namespace
}  // namespace alignd::daemon
