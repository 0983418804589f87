#include "alignd/checkpoint/go_json_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "alignd/checkpoint/go_json.h"
#include "core/json/json_view.h"

namespace alignd::checkpoint {
namespace {

using Kind = JsonNode::Kind;

constexpr size_t kMaxDepth = 100;

// The parser skips a byte order mark and ends at a NUL. Neither is JSON, and the kubelet refuses
// both. The result is the position of the first of them, from 1; 0: there is none.
size_t FindForeignByte(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return 1;
  const size_t nul = text.find('\0');
  return nul == std::string_view::npos ? 0 : nul + 1;
}

// With the text of Go's decoder for a file that is cut, as the kubelet has it.
Error NotJson(std::string_view text, size_t byte) {
  const bool ends_early = byte > text.size();
  if (ends_early) return {ErrorCode::kCorrupt, "unexpected end of JSON input"};
  return json::NotJson(text, byte);
}

// Builds the tree from the parser's events: its own tree drops repeated keys.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  Result<JsonNode> Take() && {
    if (problem_) return *problem_;
    return std::move(root_);
  }

  bool null() override { return Add({Kind::kNull, {}, {}, {}}); }
  bool boolean(bool) override { return Add({Kind::kBool, {}, {}, {}}); }
  // Called for negative numbers only, -0 among them.
  bool number_integer(int64_t number) override {
    return Add({Kind::kNumber, {}, number == 0 ? "-0" : std::to_string(number), {}});
  }
  bool number_unsigned(uint64_t number) override {
    return Add({Kind::kNumber, {}, std::to_string(number), {}});
  }
  bool number_float(double, const std::string& written) override {
    return Add({Kind::kNumber, {}, written, {}});
  }
  bool string(std::string& value) override {
    return Add({Kind::kString, {}, std::move(value), {}});
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // not in a text
  bool start_object(size_t) override { return Open(Kind::kObject); }
  bool start_array(size_t) override { return Open(Kind::kList); }
  bool key(std::string& key) override {
    key_ = std::move(key);
    return true;
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t byte, const std::string&,
                   const nlohmann::json::exception& error) override {
    const bool is_syntax = dynamic_cast<const nlohmann::json::parse_error*>(&error) != nullptr;
    problem_ = is_syntax ? NotJson(text_, byte) : json::NumberOutOfRange();
    problem_->code = ErrorCode::kCorrupt;
    return false;
  }

 private:
  bool Add(JsonNode node) {
    node.key = std::exchange(key_, {});
    if (open_.empty()) {
      root_ = std::move(node);
      added_ = &root_;
    } else {
      added_ = &open_.back()->children.emplace_back(std::move(node));
    }
    return true;
  }

  bool Open(Kind kind) {
    if (open_.size() == kMaxDepth) {
      problem_ = Error{ErrorCode::kCorrupt,
                       "is nested deeper than " + std::to_string(kMaxDepth) + " levels"};
      return false;
    }
    Add({kind, {}, {}, {}});
    open_.push_back(added_);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const std::string_view text_;
  JsonNode root_;
  // Each is the last child of the one before, so that no pointer is invalidated.
  std::vector<JsonNode*> open_;
  JsonNode* added_ = nullptr;
  std::string key_;  // of the next value
  std::optional<Error> problem_;
};

// The whole of `text` as a number of that type.
template <typename Number>
std::optional<Number> ParseWhole(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

char ToLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "true or false";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kList:
      return "a list";
    case Kind::kObject:
      break;
  }
  return "an object";
}

}  // namespace

Result<JsonNode> ParseJson(std::string_view text) {
  TreeBuilder builder(text);
  const bool parsed = nlohmann::json::sax_parse(text, &builder);  // the builder has the error
  if (const size_t byte = FindForeignByte(text); parsed && byte > 0) {
    Error error = NotJson(text, byte);
    error.code = ErrorCode::kCorrupt;
    return error;
  }
  return std::move(builder).Take();
}

bool MatchesField(std::string_view key, std::string_view name) {
  return std::ranges::equal(key, name, {}, ToLower, ToLower);
}

void GoJsonReader::Value(const JsonNode& node, std::string& target) {
  if (node.kind == Kind::kNull || !Require(node, Kind::kString)) return;
  target = node.text;
}

void GoJsonReader::Value(const JsonNode& node, int64_t& target) {
  if (node.kind == Kind::kNull || !Require(node, Kind::kNumber)) return;
  const std::optional<int64_t> number = ParseWhole<int64_t>(node.text);
  if (!number) return Note("a whole number of 64 bits is expected, not " + node.text);
  target = *number;
}

void GoJsonReader::Value(const JsonNode& node, uint64_t& target) {
  if (node.kind == Kind::kNull || !Require(node, Kind::kNumber)) return;
  const std::optional<uint64_t> number = ParseWhole<uint64_t>(node.text);
  if (!number) {
    return Note("a whole number of 64 bits, not negative, is expected, not " + node.text);
  }
  target = *number;
}

// Base64, or, as Go allows, a list of numbers.
void GoJsonReader::Value(const JsonNode& node, GoBytes& target) {
  if (node.kind == Kind::kNull) return target.bytes.reset();
  if (node.kind == Kind::kString) {
    target.bytes = DecodeBase64(node.text);
    if (!target.bytes) Note("base64 is expected");
    return;
  }
  if (node.kind != Kind::kList) {
    return Note("a base64 string is expected, not " + std::string(NameOf(node.kind)));
  }
  GoSlice<uint64_t> numbers;
  Value(node, numbers);
  std::string bytes;
  for (const uint64_t number : *numbers) {
    if (number > std::numeric_limits<unsigned char>::max()) {
      return Note("a byte is expected, not " + std::to_string(number));
    }
    bytes += static_cast<char>(number);
  }
  target.bytes = std::move(bytes);
}

// Source: kubelet pkg/kubelet/cm/cpumanager/state/state.go, PodEntry.UnmarshalJSON.
void GoJsonReader::Value(const JsonNode& node, CpuSet& target) {
  if (node.kind == Kind::kNull || !Require(node, Kind::kString)) return;
  Result<CpuSet> cpus = CpuSet::Parse(node.text);
  if (!cpus.ok()) return Note("failed to parse cpuset: " + cpus.error().message);
  target = *std::move(cpus);
}

std::optional<int64_t> GoJsonReader::Key(const std::string& text, const int64_t*) {
  std::string_view digits = text;
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  const std::optional<int64_t> number = ParseWhole<int64_t>(digits);
  if (!number) {
    path_.push_back(QuotedKey(text));
    Note("the key must be a whole number of 64 bits");
    path_.pop_back();
  }
  return number;
}

std::string GoJsonReader::QuotedKey(const std::string& key) { return GoQuoted(key); }

bool GoJsonReader::Require(const JsonNode& node, Kind kind) {
  if (node.kind == kind) return true;
  Note(std::string(NameOf(kind)) + " is expected, not " + std::string(NameOf(node.kind)));
  return false;
}

void GoJsonReader::Note(std::string_view problem) {
  if (problem_) return;
  constexpr size_t kMaxStep = 100;  // a key of the file may have any length
  std::string path;
  for (const std::string& step : path_) {
    path += (path.empty() ? "" : ".") + step.substr(0, kMaxStep);
  }
  problem_ = Error{ErrorCode::kCorrupt, std::string(problem)};
  if (!path.empty()) problem_ = problem_->In(path);
}

}  // namespace alignd::checkpoint
