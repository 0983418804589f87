// The documentation against the programs and against itself: flags, configuration fields, links,
// tables of contents, the length of the README, and words that are never used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/checkpoint_command.h"
#include "cli/explain_command.h"
#include "cli/program.h"
#include "cli/simulate_command.h"
#include "cli/status_command.h"
#include "cli/topology_command.h"
#include "daemon/options.h"

namespace alignd {
namespace {

namespace fs = std::filesystem;
using Defaults = std::map<std::string, std::string>;  // by flag; empty: no default is shown

const fs::path& Root() {
  static const fs::path root = ALIGND_SOURCE_DIR;
  return root;
}

std::string ReadText(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// All documents that a link can stand in.
std::vector<fs::path> Documents() {
  std::vector<fs::path> documents;
  for (const fs::path& directory : {Root(), Root() / "docs", Root() / "proto"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".md") documents.push_back(entry.path());
    }
  }
  std::ranges::sort(documents);
  return documents;
}

// The lines outside fenced code.
std::vector<std::string> Prose(const fs::path& document) {
  std::vector<std::string> prose;
  bool in_code = false;
  for (const std::string& line : Lines(ReadText(document))) {
    const bool fence = line.find_first_not_of(' ') != std::string::npos &&
                       line.substr(line.find_first_not_of(' ')).starts_with("```");
    if (fence) in_code = !in_code;
    if (!fence && !in_code) prose.push_back(line);
  }
  return prose;
}

// The anchor that GitHub gives a heading.
std::string Anchor(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '_' || c == '-') {
      anchor += static_cast<char>(std::tolower(byte));
    } else if (c == ' ') {
      anchor += '-';
    }
  }
  return anchor;
}

// The anchors of a document, a repeated one with -1, -2, ... behind it.
std::set<std::string> Anchors(const fs::path& document) {
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (const std::string& line : Prose(document)) {
    const size_t text = line.find_first_not_of('#');
    if (text == 0 || text == std::string::npos || line[text] != ' ') continue;
    const std::string anchor = Anchor(std::string_view(line).substr(text + 1));
    const int times = seen[anchor]++;
    anchors.insert(times == 0 ? anchor : anchor + "-" + std::to_string(times));
  }
  return anchors;
}

std::vector<std::string> Links(const fs::path& document) {
  static const std::regex link(R"(\]\(([^)\s]+)\))");
  std::vector<std::string> links;
  for (const std::string& line : Prose(document)) {
    for (std::sregex_iterator match(line.begin(), line.end(), link), end; match != end; ++match) {
      links.push_back((*match)[1]);
    }
  }
  return links;
}

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
  EXPECT_FALSE(known.empty()) << heading;
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
  const std::vector<cli::Command> commands = {cli::AddStatusCommand, cli::AddExplainCommand,
                                              cli::AddSimulateCommand, cli::AddTopologyCommand,
                                              cli::AddCheckpointCommand};
  EXPECT_EQ(
      cli::RunProgram(static_cast<int>(arguments.size()), arguments.data(), commands, out, err),
      cli::kSuccess)
      << err.str();
  return out.str();
}

TEST(Documents, EveryFlagOfAligndIsDocumented) {
  const std::vector<const char*> arguments = {"alignd", "--help"};
  int exit_status = 0;
  ::testing::internal::CaptureStdout();
  const auto options =
      daemon::ParseOptions(static_cast<int>(arguments.size()), arguments.data(), exit_status);
  const std::string help = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(options);
  ExpectDocumented("## Flags of alignd", FlagsOfHelp(help));
}

TEST(Documents, EveryFlagOfAlignctlIsDocumented) {
  for (const std::vector<const char*>& command : std::vector<std::vector<const char*>>{
           {"status"}, {"explain"}, {"topology"}, {"simulate"}, {"checkpoint", "verify"}}) {
    std::string heading = "### alignctl";
    for (const char* word : command) heading += std::string(" ") + word;
    Defaults known = FlagsOfHelp(HelpOfAlignctl(command));
    EXPECT_EQ(known.erase("--help"), 1U) << heading;  // documented once for all commands
    ExpectDocumented(heading, known);
  }
}

// The fields of the example are those that alignd honours; test of the example itself:
// tests/unit/config.
TEST(Documents, EveryConfigurationFieldIsDocumented) {
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

TEST(Documents, LinksResolve) {
  for (const fs::path& document : Documents()) {
    for (const std::string& link : Links(document)) {
      if (link.starts_with("https://")) continue;
      const size_t hash = link.find('#');
      const std::string path = link.substr(0, hash);
      const fs::path target = path.empty() ? document : document.parent_path() / path;
      if (!fs::exists(target)) {
        ADD_FAILURE() << document << " links to " << link << ", which does not exist";
        continue;
      }
      if (hash == std::string::npos) continue;
      EXPECT_TRUE(Anchors(target).contains(link.substr(hash + 1)))
          << document << " links to " << link << ", and there is no such heading";
    }
  }
}

TEST(Documents, EveryPageHasATableOfContents) {
  for (const fs::directory_entry& entry : fs::directory_iterator(Root() / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::vector<std::string> links = Links(entry.path());
    for (const std::string& line : Prose(entry.path())) {
      if (!line.starts_with("## ") || line == "## Contents") continue;
      const std::string link = '#' + Anchor(line.substr(3));
      EXPECT_NE(std::ranges::find(links, link), links.end())
          << entry.path() << ": the contents lack " << line;
    }
  }
}

TEST(Documents, TheIndexNamesEveryPage) {
  const std::vector<std::string> links = Links(Root() / "docs/README.md");
  for (const fs::directory_entry& entry : fs::directory_iterator(Root() / "docs")) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    EXPECT_NE(std::ranges::find(links, name), links.end()) << name;
  }
}

TEST(Documents, TheReadmeIsShort) {
  const std::vector<std::string> lines = Lines(ReadText(Root() / "README.md"));
  EXPECT_LE(lines.size(), 150U);
  for (size_t i = 0; i < lines.size(); ++i) {
    // In characters, not in bytes: a byte 10xxxxxx continues a character.
    const auto characters = std::ranges::count_if(
        lines[i], [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    EXPECT_LE(characters, 400) << "line " << i + 1;
  }
}

bool IsLetter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool IsUpper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }
bool IsLower(char c) { return std::islower(static_cast<unsigned char>(c)) != 0; }

// Whether `text` has a word that begins at `begin` and ends before `end`: as a word of its own, or
// as a part of a name such as `BigWord` or `big_word`.
bool IsWord(const std::string& text, size_t begin, size_t end) {
  const bool starts = begin == 0 || !IsLetter(text[begin - 1]) ||
                      (IsUpper(text[begin]) && IsLower(text[begin - 1]));
  const bool ends = end == text.size() || !IsLetter(text[end]) || IsUpper(text[end]);
  return starts && ends;
}

// Where `words` end that begin at `begin`; npos if they do not stand there. Between two of them
// there may be the end of a line and the beginning of a comment.
size_t EndOf(const std::string& words, const std::string& text, size_t begin) {
  size_t at = begin;
  for (const char c : words) {
    if (c == ' ') {
      const size_t next = text.find_first_not_of(" \t\n/#*", at);
      if (next == at || next == std::string::npos) return std::string::npos;
      at = next;
    } else if (at >= text.size() || text[at++] != c) {
      return std::string::npos;
    }
  }
  return at;
}

std::vector<std::string> UnwantedWords(const std::string& text) {
  static const std::vector<std::string> unwanted = {"upkeep",      "ails",      "cure",   "cures",
                                                    "stranger",    "strangers", "graves", "truce",
                                                    "former life", "next life"};
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  std::vector<std::string> found;
  for (const std::string& word : unwanted) {
    const std::string first = word.substr(0, word.find(' '));
    for (size_t at = lower.find(first); at != std::string::npos; at = lower.find(first, at + 1)) {
      const size_t end = EndOf(word, lower, at);
      if (end == std::string::npos || !IsWord(text, at, end)) continue;
      const auto line =
          1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
      found.push_back("line " + std::to_string(line) + ": " + word);
    }
  }
  return found;
}

TEST(Documents, WordsAreFoundAlsoInsideNames) {
  EXPECT_EQ(UnwantedWords("fails, details, secure, obscures, strangeness").size(), 0U);
  EXPECT_EQ(
      UnwantedWords("what ails\nUpkeepLog the_cure_for kCure Cures; a former\n  // life").size(),
      6U);
}

// docs/language.md says which words are used instead.
TEST(Documents, UnwantedWordsAreNotUsed) {
  std::vector<fs::path> files = {Root() / "README.md"};
  for (const char* folder : {"docs", "src", "include", "config", "systemd"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(Root() / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  EXPECT_GT(files.size(), 100U);
  for (const fs::path& file : files) {
    for (const std::string& word : UnwantedWords(ReadText(file))) {
      ADD_FAILURE() << file << " " << word;
    }
  }
}

}  // namespace
}  // namespace alignd
