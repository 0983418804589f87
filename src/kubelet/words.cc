#include "kubelet/words.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace alignd::kubelet {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Reads one value of an environment file from `at` on, which is left behind it. Between double
// quotes, a backslash stays unless the next character needs it.
// Source: systemd src/basic/env-file.c (parse_env_file_internal).
std::string TakeValue(std::string_view text, size_t& at) {
  std::string value;
  size_t solid = 0;  // spaces behind it are at the end of the line
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'' && at + 1 < text.size()) {
      ++at;
      if (quote == '"' && std::string_view("\"\\`$\n").find(text[at]) == std::string_view::npos) {
        value += c;
      }
      if (text[at] != '\n') value += text[at];
      solid = value.size();
    } else if (quote != 0 && c == quote) {
      quote = 0;
      solid = value.size();
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (quote == 0 && c == '\n') {
      break;
    } else {
      value += c;
      if (quote != 0 || !IsSpace(c)) solid = value.size();
    }
  }
  value.resize(solid);
  return value;
}

std::regex FlagPattern(const std::string& flag) {
  return std::regex(R"((^|[\s"']))" + flag + R"((=|\s+)("[^"]*"|'[^']*'|[^\s"']*))");
}

}  // namespace

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && IsSpace(c)) {
      if (inside) words.push_back(word);
      inside = false;
      word.clear();
      continue;
    }
    inside = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      word += c;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

std::vector<EnvironmentLine> ParseEnvironmentFile(std::string_view text) {
  std::vector<EnvironmentLine> lines;
  for (size_t at = 0; at < text.size(); ++at) {
    while (at < text.size() && IsSpace(text[at])) ++at;
    const size_t end_of_line = std::min(text.find('\n', at), text.size());
    if (at >= text.size()) break;
    const size_t equals = text.find('=', at);
    if (text[at] == '#' || text[at] == ';' || equals >= end_of_line) {
      at = end_of_line;
      continue;
    }
    EnvironmentLine line;
    line.name = std::string(text.substr(at, equals - at));
    while (!line.name.empty() && IsSpace(line.name.back())) line.name.pop_back();
    line.begin = at = equals + 1;
    line.value = TakeValue(text, at);
    line.end = at;
    line.value.erase(0, std::min(line.value.find_first_not_of(" \t"), line.value.size()));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string QuotedValue(const std::string& value) {
  const bool plain = std::ranges::all_of(value, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_=:/.,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\' || c == '$' || c == '`') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string WithVariable(std::string_view text, const std::string& name, const std::string& value) {
  const std::vector<EnvironmentLine> lines = ParseEnvironmentFile(text);
  const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                 [&](const EnvironmentLine& line) { return line.name == name; });
  std::string changed(text);
  if (last != lines.rend()) {
    return changed.replace(last->begin, last->end - last->begin, QuotedValue(value));
  }
  if (!changed.empty() && !changed.ends_with('\n')) changed += '\n';
  return changed + name + '=' + QuotedValue(value) + '\n';
}

std::optional<std::string> LastFlag(const std::vector<std::string>& words, std::string_view flag) {
  const std::string with_value = std::string(flag) + "=";
  std::optional<std::string> value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(with_value)) value = words[i].substr(with_value.size());
    if (words[i] == flag) value = i + 1 < words.size() ? words[++i] : "";
  }
  return value;
}

std::string WithFlag(const std::string& text, const std::string& flag,
                     const std::optional<std::string>& value) {
  const std::regex pattern = FlagPattern(flag);
  std::smatch last;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    last = *match;
  }
  if (last.empty()) {
    if (!value) return text;
    return text + (text.empty() ? "" : " ") + flag + "=" + *value;
  }
  const auto at = [&](ptrdiff_t position) { return text.begin() + position; };
  if (!value) {
    std::string rest(text.begin(), at(last.position()));
    const std::string behind(at(last.position() + last.length()), text.end());
    if (rest.empty()) return behind.substr(std::min(behind.find_first_not_of(' '), behind.size()));
    return rest + behind;
  }
  return std::string(text.begin(), at(last.position(3))) + *value +
         std::string(at(last.position(3) + last.length(3)), text.end());
}

}  // namespace alignd::kubelet
