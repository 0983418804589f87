#include "daemon/command_line.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstddef>
#include <utility>

#include "host/printable.h"

namespace alignd::daemon {
namespace {

// How many letters have to be inserted, removed, replaced or swapped with the next one.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> least(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      const size_t replaced = least[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least[i][j] = std::min({replaced, least[i - 1][j] + 1, least[i][j - 1] + 1});
      const bool is_swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && a[i - 1] != b[j - 1];
      if (is_swapped) least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
    }
  }
  return least[a.size()][b.size()];
}

std::string Listed(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// The names that begin with `word`; else those that differ from it the least, by at most two
// letters and less than half of them.
std::vector<std::string> NamesLike(const std::string& word, const std::vector<std::string>& names) {
  constexpr size_t kLongestWord = 64;
  std::vector<std::string> alike;
  if (word.size() > kLongestWord) return alike;
  for (const std::string& name : names) {
    if (name.starts_with(word)) alike.push_back(name);
  }
  if (!alike.empty()) return alike;
  size_t least = std::min<size_t>(2, (word.size() - 1) / 2);
  for (const std::string& name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance > least) continue;
    if (distance < least) alike.clear();
    least = distance;
    alike.push_back(name);
  }
  return alike;
}

std::vector<std::string> CommandsBelow(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(below->get_name());
  }
  return names;
}

std::vector<std::string> LongOptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// `word`: the first one that `command` does not know.
std::string DescribeUnknown(const CLI::App& command, const std::string& word) {
  const bool is_option = word.size() > 1 && word.starts_with("-");
  const std::vector<std::string> commands = CommandsBelow(command);
  std::vector<std::string> alike;
  std::string text;
  if (is_option) {
    const std::string name = word.substr(0, word.find('='));
    text = "unknown option: " + name;
    if (name.starts_with("--") && name.size() > 2) alike = NamesLike(name, LongOptionsOf(command));
  } else if (!commands.empty()) {
    text = "unknown command: " + word;
    if (!word.empty()) alike = NamesLike(word, commands);
  } else {
    text = "unexpected argument: " + word;
  }
  return alike.empty() ? text : text + "; did you mean " + Listed(alike, " or ") + "?";
}

// CLI11 names no unknown word if a command is missing, and unknown words in reversed order.
std::string DescribeParseError(const CLI::App* program, const CLI::Error& error) {
  const CLI::App* command = program;
  std::string path = program->get_name();
  // An unknown word before a command belongs to the command around it.
  std::vector<std::string> unknown = command->remaining();
  for (auto chosen = command->get_subcommands(); !chosen.empty() && unknown.empty();
       chosen = command->get_subcommands()) {
    command = chosen.back();
    path += " " + command->get_name();
    unknown = command->remaining();
  }
  std::string text = error.what();
  // Not by its name: that of an ExtrasError is the name of the command.
  const int code = error.get_exit_code();
  const bool is_missing = code == static_cast<int>(CLI::ExitCodes::RequiredError);
  const bool is_extra = code == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if ((is_missing || is_extra) && !unknown.empty()) {
    text = DescribeUnknown(*command, unknown.front());
  } else if (is_missing && command->get_require_subcommand_min() > 0) {
    text = "a command is missing: " + Listed(CommandsBelow(*command), ", ");
  }
  return path + ": " + host::Printable(text) + "\nRun `" + path +
         " --help` for more information.\n";
}

}  // namespace

void SetUpProgram(CLI::App& app) {
  app.set_version_flag("--version", VersionOf(app.get_name()));
  app.failure_message(DescribeParseError);
}

void AddExamples(CLI::App& command, const std::vector<std::string>& examples,
                 const std::string& more) {
  command.footer("Examples:\n  " + Listed(examples, "\n  ") + (more.empty() ? "" : "\n" + more));
}

}  // namespace alignd::daemon
