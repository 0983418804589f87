#include "core/json/json_view.h"

#include <algorithm>
#include <set>

namespace alignd::json {
namespace {

// Bytes of a value that an error quotes.
constexpr size_t kMaxQuote = 80;
// Bytes of a member's name; Kubernetes has none that is longer than 317.
constexpr size_t kMaxName = 320;

// The library writes values recursively: a limit keeps the stack small.
constexpr int kMaxDepth = 64;

// Cut before a character, not within one.
std::string Shortened(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return text.substr(0, most) + "...";
}

// The name of a member as an error shows it, on one line: control characters are escaped as in
// JSON.
std::string Shown(std::string_view name) {
  const bool is_plain =
      std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (is_plain) return Shortened(std::string(name), kMaxName);
  const std::string quoted =
      nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return Shortened(quoted.substr(1, quoted.size() - 2), kMaxName);
}

// The library reports the place of a syntax error by an exception only. No other code catches it.
template <typename Json>
Result<Json> ParseAs(std::string_view text,
                     const typename Json::parser_callback_t& on_event = nullptr) {
  try {
    return Json::parse(text, on_event);
  } catch (const nlohmann::json::parse_error& error) {
    return NotJson(text, error.byte);
  } catch (const nlohmann::json::out_of_range&) {
    return NumberOutOfRange();
  }
}

}  // namespace

Error NotJson(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return {ErrorCode::kInvalidArgument,
          "not JSON: line " + std::to_string(line) + ", column " + std::to_string(column) +
              (before.size() >= text.size() ? ": the text ends too early" : ": unexpected text")};
}

Error NumberOutOfRange() {
  return {ErrorCode::kInvalidArgument, "not JSON: a number is out of range"};
}

Result<nlohmann::json> Parse(std::string_view text) { return ParseAs<nlohmann::json>(text); }

Result<nlohmann::ordered_json> ParseOrdered(std::string_view text) {
  using Json = nlohmann::ordered_json;
  std::vector<std::set<std::string>> keys;  // of the objects that the parser is in
  std::string twice;
  bool too_deep = false;
  const auto note_key = [&](int depth, Json::parse_event_t event, Json& parsed) {
    too_deep = too_deep || depth > kMaxDepth;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && twice.empty()) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) twice = key;
    }
    return true;
  };
  Result<Json> json = ParseAs<Json>(text, note_key);
  if (json.ok() && too_deep) {
    return Error{ErrorCode::kInvalidArgument,
                 "is nested deeper than " + std::to_string(kMaxDepth) + " levels"};
  }
  if (json.ok() && !twice.empty()) {
    return Error{ErrorCode::kInvalidArgument, Shown(twice) + ": occurs twice in one object"};
  }
  return json;
}

Result<std::optional<View>> View::Find(std::string_view key) const {
  if (!value_->is_object()) return IsNot("an object");
  const auto member = value_->find(key);
  if (member == value_->end() || member->is_null()) return std::optional<View>();
  return std::optional<View>(View(*member, PathOf(key)));
}

Result<View> View::Require(std::string_view key) const {
  Result<std::optional<View>> member = Find(key);
  if (!member.ok()) return member.error();
  if (!*member) return Error{ErrorCode::kInvalidArgument, PathOf(key) + ": is missing"};
  return **std::move(member);
}

Result<std::string> View::String() const {
  if (!value_->is_string()) return IsNot("a string");
  return value_->get_ref<const std::string&>();
}

Result<bool> View::Bool() const {
  if (!value_->is_boolean()) return IsNot("true or false");
  return value_->get<bool>();
}

Result<int64_t> View::Integer(int64_t least, int64_t most) const {
  const bool fits_signed =
      value_->is_number_integer() &&
      !(value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t{INT64_MAX});
  const int64_t number = fits_signed ? value_->get<int64_t>() : 0;
  if (!fits_signed || number < least || number > most) {
    return IsNot("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

Result<uint64_t> View::Unsigned() const {
  if (!value_->is_number_unsigned()) return IsNot("a whole number of at least 0");
  return value_->get<uint64_t>();
}

Result<std::vector<View>> View::Elements() const {
  if (!value_->is_array()) return IsNot("a list");
  std::vector<View> elements;
  elements.reserve(value_->size());
  for (const nlohmann::json& element : *value_) {
    elements.emplace_back(element, path_ + "[" + std::to_string(elements.size()) + "]");
  }
  return elements;
}

Result<std::vector<std::pair<std::string, View>>> View::Members() const {
  if (!value_->is_object()) return IsNot("an object");
  std::vector<std::pair<std::string, View>> members;
  members.reserve(value_->size());
  for (const auto& [key, member] : value_->items()) {
    members.emplace_back(key, View(member, PathOf(key)));
  }
  return members;
}

Error View::IsNot(std::string_view wanted) const {
  std::string shown = value_->is_structured()
                          ? value_->type_name()
                          : value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return Wrong(Shortened(std::move(shown), kMaxQuote) + " is not " + std::string(wanted));
}

Error View::Wrong(std::string_view text) const {
  return {ErrorCode::kInvalidArgument,
          path_.empty() ? std::string(text) : path_ + ": " + std::string(text)};
}

std::string View::PathOf(std::string_view key) const {
  return path_.empty() ? Shown(key) : path_ + "." + Shown(key);
}

}  // namespace alignd::json
