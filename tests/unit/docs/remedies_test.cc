// Every error that the edges make says what to do. Errors of the core are parts of a message: the
// caller names the file or the pod, and adds what to do.
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "documents.h"

namespace alignd::docs {
namespace {

// The parts of the braced list that begins at `begin`, separated by commas outside of brackets and
// literals.
std::vector<std::string> PartsOfList(std::string_view text, size_t begin) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool literal = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (literal && c == '\\') {
      parts.back() += text.substr(i++, 2);
      continue;
    }
    if (c == '"') literal = !literal;
    if (!literal && (c == '(' || c == '{' || c == '[')) ++depth;
    if (!literal && (c == ')' || c == '}' || c == ']') && --depth < 0) break;
    if (!literal && c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The errors in a source that have no third part, or an empty one.
std::vector<std::string> WithoutRemedy(const std::string& source) {
  static const std::regex error(R"(\{\s*(?=ErrorCode::k[A-Za-z]+\s*,))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(source.begin(), source.end(), error), end; match != end;
       ++match) {
    const auto begin = static_cast<size_t>(match->position() + match->length());
    const std::vector<std::string> parts = PartsOfList(source, begin);
    if (parts.size() < 3 || parts[2].find_first_not_of(" \n\"") == std::string::npos) {
      found.push_back(parts.size() > 1 ? parts[1] : parts[0]);
    }
  }
  return found;
}

TEST(Remedies, AreFoundMissing) {
  EXPECT_EQ(WithoutRemedy(R"(return Error{ErrorCode::kIo, "a, {b" + F(1, 2)};)").size(), 1U);
  EXPECT_EQ(WithoutRemedy(R"(return {ErrorCode::kIo, "a", ""};)").size(), 1U);
  EXPECT_EQ(WithoutRemedy(R"(Error{ErrorCode::kIo, "a \", b", "do it"})").size(), 0U);
}

TEST(Remedies, AreInEveryErrorOfTheEdges) {
  size_t sources = 0;
  for (const fs::path& file : FilesIn({"src"})) {
    if (file.string().find("/src/core/") != std::string::npos) continue;
    ++sources;
    for (const std::string& message : WithoutRemedy(ReadText(file))) {
      ADD_FAILURE() << file.string() << ": an error without a remedy:" << message;
    }
  }
  EXPECT_GT(sources, 100U);
}

}  // namespace
}  // namespace alignd::docs
