#include "alignd/checkpoint/go_json_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/utf8.h"

namespace alignd::checkpoint {
namespace {

// The whole of `text` as a number of that type.
template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// The next letter of a field name, folded to lower case; 0 for what no field name has.
char TakeFolded(std::string_view& text) {
  const Rune rune = DecodeRune(text);
  text.remove_prefix(rune.bytes);
  if (rune.code >= 'A' && rune.code <= 'Z') return static_cast<char>(rune.code - 'A' + 'a');
  if (rune.code == 0x17F) return 's';   // long s
  if (rune.code == 0x212A) return 'k';  // Kelvin sign
  return rune.code < 0x80 ? static_cast<char>(rune.code) : '\0';
}

std::string_view NameOfType(char first) {
  switch (first) {
    case '{':
      return "an object";
    case '[':
      return "a list";
    case '"':
      return "a string";
    case 'n':
      return "null";
    case 't':
    case 'f':
      return "true or false";
    default:
      return "a number";
  }
}

}  // namespace

bool MatchesField(std::string_view key, std::string_view name) {
  while (!key.empty() && !name.empty()) {
    if (TakeFolded(key) != TakeFolded(name)) return false;
  }
  return key.empty() && name.empty();
}

Result<std::vector<std::string>> GoJsonReader::TopLevelKeys(std::string_view text) {
  if (const Result<Done> checked = CheckGoJson(text); !checked.ok()) return checked.error();
  GoJsonReader reader(text);
  std::vector<std::string> keys;
  if (reader.Peek() != '{') return keys;
  reader.BeginObject();
  while (std::optional<std::string> key = reader.NextKey()) {
    keys.push_back(*std::move(key));
    reader.Skip();
  }
  return keys;
}

void GoJsonReader::Value(std::string& target) {
  if (TakeNull()) return;
  if (Peek() != '"') return Mismatch("a string");
  target = TakeString();
}

void GoJsonReader::Value(int64_t& target) {
  if (TakeNull()) return;
  if (NameOfType(Peek()) != "a number") return Mismatch("a number");
  const std::string_view text = TakeNumber();
  const std::optional<int64_t> number = ParseWhole<int64_t>(text);
  if (!number) return Note("a whole number of 64 bits is expected, not " + std::string(text));
  target = *number;
}

void GoJsonReader::Value(uint64_t& target) {
  if (TakeNull()) return;
  if (NameOfType(Peek()) != "a number") return Mismatch("a number");
  const std::string_view text = TakeNumber();
  const std::optional<uint64_t> number = ParseWhole<uint64_t>(text);
  if (!number) {
    return Note("a whole number of 64 bits, not negative, is expected, not " + std::string(text));
  }
  target = *number;
}

// Base64, or, as Go allows, a list of numbers.
void GoJsonReader::Value(GoBytes& target) {
  if (TakeNull()) return target.bytes.reset();
  if (Peek() == '"') {
    target.bytes = DecodeBase64(TakeString());
    if (!target.bytes) Note("base64 is expected");
    return;
  }
  if (Peek() != '[') return Mismatch("a base64 string");
  GoSlice<uint64_t> numbers;
  Value(numbers);
  std::string bytes;
  for (const uint64_t number : *numbers) {
    if (number > std::numeric_limits<unsigned char>::max()) {
      return Note("a byte is expected, not " + std::to_string(number));
    }
    bytes += static_cast<char>(number);
  }
  target.bytes = std::move(bytes);
}

std::optional<int64_t> GoJsonReader::Key(const std::string& text, const int64_t*) {
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  const std::optional<int64_t> number = ParseWhole<int64_t>(digits);
  if (!number) Note("the key must be a whole number of 64 bits");
  return number;
}

char GoJsonReader::Peek() {
  SkipSpace();
  return text_[at_];
}

bool GoJsonReader::TakeNull() {
  if (Peek() != 'n') return false;
  at_ += std::string_view("null").size();
  return true;
}

bool GoJsonReader::Begin(char bracket, std::string_view expected) {
  if (Peek() != bracket) {
    Mismatch(expected);
    return false;
  }
  ++at_;
  fresh_ = true;
  path_.emplace_back(bracket == '[' ? "-1" : "");
  return true;
}

std::optional<std::string> GoJsonReader::NextKey() {
  if (AtEnd('}')) return std::nullopt;
  SkipSpace();
  std::string key = TakeString();
  SkipSpace();
  ++at_;  // the colon
  path_.back() = GoQuoted(key);
  return key;
}

bool GoJsonReader::NextElement() {
  if (AtEnd(']')) return false;
  path_.back() = std::to_string(ParseWhole<int64_t>(path_.back()).value_or(-1) + 1);
  return true;
}

bool GoJsonReader::AtEnd(char bracket) {
  const bool at_end = Peek() == bracket;
  if (at_end) path_.pop_back();
  if (at_end || !fresh_) ++at_;  // the bracket or the comma
  fresh_ = false;
  return at_end;
}

std::string_view GoJsonReader::TakeNumber() {
  const size_t begin = at_;
  at_ = std::min(text_.find_first_not_of("+-0123456789.eE", begin), text_.size());
  return text_.substr(begin, at_ - begin);
}

std::string GoJsonReader::TakeString() {
  std::string out;
  ++at_;
  while (text_[at_] != '"') {
    if (text_[at_] == '\\') {
      AppendEscape(out);
      continue;
    }
    const Rune rune = DecodeRune(text_.substr(at_));
    AppendRune(out, rune.code);
    at_ += rune.bytes;
  }
  ++at_;
  return out;
}

void GoJsonReader::AppendEscape(std::string& out) {
  constexpr std::string_view kLetters = "bfnrt";
  constexpr std::string_view kMeanings = "\b\f\n\r\t";
  const char letter = text_[at_ + 1];
  if (letter != 'u') {
    at_ += 2;
    const size_t which = kLetters.find(letter);
    out += which == std::string_view::npos ? letter : kMeanings[which];
    return;
  }
  const uint32_t unit = TakeHex4();
  if (unit < 0xD800 || unit > 0xDFFF) return AppendRune(out, unit);
  if (unit < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    const size_t before = at_;
    const uint32_t low = TakeHex4();
    if (low >= 0xDC00 && low <= 0xDFFF) {
      return AppendRune(out, 0x10000 + ((unit - 0xD800) << 10 | (low - 0xDC00)));
    }
    at_ = before;  // not its other half: read on its own
  }
  AppendRune(out, kReplacementRune);
}

uint32_t GoJsonReader::TakeHex4() {
  uint32_t unit = 0;
  const char* digits = text_.data() + at_ + 2;
  std::from_chars(digits, digits + 4, unit, 16);
  at_ += 6;
  return unit;
}

void GoJsonReader::SkipSpace() {
  at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
}

void GoJsonReader::Skip() {
  size_t depth = 0;
  do {
    switch (Peek()) {
      case '{':
      case '[':
        ++depth;
        ++at_;
        break;
      case '}':
      case ']':
        --depth;
        ++at_;
        break;
      case ',':
      case ':':
        ++at_;
        break;
      case '"':
        for (++at_; text_[at_] != '"'; ++at_) {
          if (text_[at_] == '\\') ++at_;
        }
        ++at_;
        break;
      default:
        at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    }
  } while (depth > 0);
}

void GoJsonReader::Mismatch(std::string_view expected) {
  Note(std::string(expected) + " is expected, not " + std::string(NameOfType(Peek())));
  Skip();
}

void GoJsonReader::Note(std::string_view problem) {
  if (problem_) return;
  constexpr size_t kLongestStep = 100;  // keys are foreign and may have any length
  std::string path;
  for (const std::string& step : path_) {
    path += (path.empty() ? "" : ".") + step.substr(0, kLongestStep);
  }
  problem_ = Error{ErrorCode::kCorrupt, std::string(problem)};
  if (!path.empty()) problem_ = problem_->In(path);
}

}  // namespace alignd::checkpoint
