// The documents themselves: links, tables of contents, the length of the README, and words that are
// never used.
#include "documents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::docs {
namespace {

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

// The links of the section "Contents".
std::set<std::string> Contents(const fs::path& document) {
  static const std::regex link(R"(\]\((#[^)\s]+)\))");
  std::set<std::string> links;
  bool inside = false;
  for (const std::string& line : Prose(document)) {
    if (line.starts_with("## ")) inside = line == "## Contents";
    std::smatch match;
    if (inside && std::regex_search(line, match, link)) links.insert(match[1]);
  }
  return links;
}

TEST(Documents, TheContentsOfAPageHaveItsSections) {
  for (const fs::directory_entry& entry : fs::directory_iterator(Root() / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::set<std::string> contents = Contents(entry.path());
    for (const std::string& line : Prose(entry.path())) {
      const size_t level = line.find(' ');
      if (!(line.starts_with("## ") || line.starts_with("### ")) || line == "## Contents") continue;
      EXPECT_TRUE(contents.contains('#' + Anchor(line.substr(level + 1))))
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
  const bool ends =
      end == text.size() || !IsLetter(text[end]) || (IsUpper(text[end]) && IsLower(text[end - 1]));
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
  static const std::vector<std::string> unwanted = {
      "upkeep",     "ails",       "sick",      "cure",          "cures",        "stranger",
      "strangers",  "unplaced",   "made past", "truce",         "fight",        "fights",
      "given up",   "taken down", "judge",     "note_removal",  "graves",       "former life",
      "next life",  "kmost",      "grant",     "grants",        "granted",      "gave away",
      "gives away", "tell",       "tells",     "told",          "room",         "rooms",
      "put right",  "put back",   "meeting",   "what is there", "no longer so", "what comes",
      "somebody",   "someone",    "nobody",    "who",           "his"};
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
  EXPECT_EQ(UnwantedWords("fails, details, secure, obscures, strangeness, WHOLE").size(), 0U);
  EXPECT_EQ(
      UnwantedWords("what ails\nUpkeepLog the_cure_for kCure Cures; a former\n  // life").size(),
      6U);
  EXPECT_EQ(UnwantedWords("kMostSets UnplacedPod, it is put\n# back").size(), 3U);
}

// Whether a text was written for alignd: no input of tests, and not the list of words itself.
bool IsOwnText(const std::string& path) {
  constexpr std::array<std::string_view, 6> kOthers = {
      "tests/data/",  "tests/fuzz/corpus/", "tests/unit/docs/documents_test.cc",
      "tests/trees/", "tests/vectors/",     "__pycache__"};
  return std::ranges::none_of(
      kOthers, [&](std::string_view other) { return path.find(other) != std::string::npos; });
}

// docs/language.md says which words are used instead. The changelog names former words, and the
// license is not alignd's text.
TEST(Documents, UnwantedWordsAreNotUsed) {
  // In another sense: "A comment does not tell a story."
  const std::set<std::string> allowed = {"docs/language.md: tell"};
  std::vector<fs::path> files = FilesIn(
      {"docs", "src", "include", "config", "systemd", "tests", "proto", "scripts", "packaging"});
  for (const char* name : {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CMakeLists.txt"}) {
    files.push_back(Root() / name);
  }
  EXPECT_GT(files.size(), 1000U);
  for (const fs::path& file : files) {
    const std::string path = fs::relative(file, Root()).string();
    if (!IsOwnText(path)) continue;
    for (const std::string& word : UnwantedWords(ReadText(file))) {
      if (allowed.contains(path + word.substr(word.find(':')))) continue;
      ADD_FAILURE() << path << " " << word;
    }
  }
}

}  // namespace
}  // namespace alignd::docs
