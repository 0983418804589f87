#include "daemon/command_line.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
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

// The program or one of its commands, with the words that lead to it.
struct Named {
  const CLI::App* command;
  std::string path;
};

// The program, the chosen command, the one below it, and so on.
std::vector<Named> ChosenCommands(const CLI::App& program) {
  std::vector<Named> chosen = {{&program, program.get_name()}};
  for (auto below = program.get_subcommands(); !below.empty();
       below = below.back()->get_subcommands()) {
    chosen.push_back({below.back(), chosen.back().path + " " + below.back()->get_name()});
  }
  return chosen;
}

// What is wrong, of `at`.
struct Wrong {
  const Named* at;
  std::string text;
};

bool HasOption(const CLI::App& command, const std::string& word) {
  return word.starts_with("-") && command.get_option_no_throw(word) != nullptr;
}

// The first word that a command does not know: one before a command belongs to the command around
// it. CLI11 names none if a command is missing, and names unknown words in reversed order.
std::optional<Wrong> FindUnknown(const std::vector<Named>& chosen) {
  const auto at = std::ranges::find_if(
      chosen, [](const Named& each) { return !each.command->remaining().empty(); });
  if (at == chosen.end()) return std::nullopt;
  const std::string word = at->command->remaining().front();
  const std::string name = word.substr(0, word.find('='));
  for (auto other = chosen.begin(); other != chosen.end(); ++other) {
    if (other == at || !HasOption(*other->command, name)) continue;
    const std::string place = other > at ? "after " + other->command->get_name()
                                         : "before " + (other + 1)->command->get_name();
    return Wrong{&*at, "unknown option: " + name + "; give it " + place};
  }
  return Wrong{&*at, DescribeUnknown(*at->command, word)};
}

// As a reader knows it: --output, or FILE.
std::string NameOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return option.get_positional() ? type.substr(0, type.find(':')) : option.get_name();
}

// What may be given for the option: "one of text, json", "a whole number from 1 to 256".
std::string AllowedBy(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "it without a value";
  const std::string type = option.get_type_name();
  const auto between = [&type](const std::string& begin, const std::string& end) {
    const size_t from = type.find(begin);
    const size_t to = from == std::string::npos ? from : type.find(end, from);
    if (to == std::string::npos) return std::string();
    return type.substr(from + begin.size(), to - from - begin.size());
  };
  if (const std::string members = between("{", "}"); !members.empty()) {
    return "one of " + Listed(CLI::detail::split(members, ','), ", ");
  }
  if (std::string range = between(" in [", "]"); !range.empty()) {
    const size_t dash = range.find(" - ");
    if (dash != std::string::npos) range.replace(dash, 3, " to ");
    return "a whole number from " + range;
  }
  const std::string word = type.substr(0, type.find(':'));
  if (word == "INT" || word == "UINT") return "a whole number";
  if (word == "FLOAT") return "a number";
  return word.empty() || word == "TEXT" ? "a value" : "a value: " + word;
}

// `text` with the names of options and what they allow, in place of CLI11's own words.
std::string InPlainWords(const CLI::Option& option, CLI::ExitCodes code, const std::string& text) {
  const std::string name = NameOf(option);
  const auto refused = [&](const std::string& value) {
    return name + ": \"" + value + "\" is not permitted; give " + AllowedBy(option);
  };
  const auto after = [&text](const std::string& begin) {
    const size_t at = text.find(begin);
    return at == std::string::npos ? std::string() : text.substr(at + begin.size());
  };
  switch (code) {
    case CLI::ExitCodes::RequiredError:
      return name + " is missing" +
             (option.get_positional() ? "" : "; give " + name + " " + option.get_type_name());
    case CLI::ExitCodes::RequiresError:
      return name + " is permitted only with " + after(" requires ");
    case CLI::ExitCodes::ConversionError:
      return refused(CLI::detail::join(option.results(), " "));
    case CLI::ExitCodes::ArgumentMismatch:
      if (const std::string count = after(" required but received "); !count.empty()) {
        return name + " is given " + count + " times; give it once";
      }
      return name + ": the value is missing; give " + AllowedBy(option);
    case CLI::ExitCodes::ValidationError: {
      const std::string value = after(": ");
      constexpr std::string_view kValue = "Value ";
      if (const size_t end = value.rfind(" not in range "); end != std::string::npos) {
        return refused(value.substr(kValue.size(), end - kValue.size()));
      }
      if (const size_t end = value.rfind(" not in {"); end != std::string::npos) {
        return refused(value.substr(0, end));
      }
      return name + ": " + value;
    }
    default:
      return text;
  }
}

// The chosen command with the option about which CLI11 says `text`, deepest first.
std::optional<Wrong> FindRefused(const std::vector<Named>& chosen, CLI::ExitCodes code,
                                 const std::string& text) {
  // "Could not convert: NAME = VALUE"; all others begin with the name.
  constexpr std::string_view kConversion = "Could not convert: ";
  const std::string from = text.starts_with(kConversion) ? text.substr(kConversion.size()) : text;
  const std::string name = from.substr(0, from.find_first_of(": "));
  for (auto at = chosen.rbegin(); at != chosen.rend(); ++at) {
    const CLI::Option* const option =
        name.empty() ? nullptr : at->command->get_option_no_throw(name);
    if (option == nullptr) continue;
    std::string words = InPlainWords(*option, code, text);
    if (code == CLI::ExitCodes::ExcludesError) {
      constexpr std::string_view kExcludes = " excludes ";
      const std::string other = text.substr(std::min(text.size(), text.find(kExcludes)));
      words = NameOf(*option) + " cannot be given together with " +
              other.substr(std::min(other.size(), kExcludes.size()));
    }
    return Wrong{&*at, std::move(words)};
  }
  return std::nullopt;
}

Wrong FindWrong(const std::vector<Named>& chosen, const CLI::Error& error) {
  // Not by its name: that of an ExtrasError is the name of the command.
  const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
  const bool is_missing = code == CLI::ExitCodes::RequiredError;
  std::optional<Wrong> wrong;
  if (is_missing || code == CLI::ExitCodes::ExtrasError) wrong = FindUnknown(chosen);
  if (!wrong) wrong = FindRefused(chosen, code, error.what());
  const CLI::App& last = *chosen.back().command;
  if (!wrong && is_missing && last.get_require_subcommand_min() > 0) {
    wrong = Wrong{&chosen.back(), "a command is missing: " + Listed(CommandsBelow(last), ", ")};
  }
  return wrong ? *std::move(wrong) : Wrong{&chosen.back(), error.what()};
}

std::string DescribeParseError(const CLI::App* program, const CLI::Error& error) {
  const std::vector<Named> chosen = ChosenCommands(*program);
  const Wrong wrong = FindWrong(chosen, error);
  const std::string& path = wrong.at->path;
  return path + ": " + host::Printable(wrong.text) + "\nRun `" + path +
         " --help` for more information.\n";
}

}  // namespace

void SetUpProgram(CLI::App& app) {
  app.set_version_flag("--version", VersionOf(app.get_name()));
  app.failure_message(DescribeParseError);
}

std::string DescribeWrongWords(const CLI::App& program, const CLI::Error& error) {
  return host::Printable(FindWrong(ChosenCommands(program), error).text);
}

void AddExamples(CLI::App& command, const std::vector<std::string>& examples,
                 const std::string& more) {
  command.footer("Examples:\n  " + Listed(examples, "\n  ") + (more.empty() ? "" : "\n" + more));
}

}  // namespace alignd::daemon
