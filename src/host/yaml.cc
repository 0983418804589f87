#include "host/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

namespace alignd::host {
namespace {

using Json = nlohmann::json;

// More than any configuration or pod needs. They limit the expansion of aliases.
constexpr int kMaxDepth = 100;
constexpr int kMaxValues = 20'000;

constexpr char kCorrect[] = "correct the file";

Error At(const YAML::Mark& mark, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1) +
              ": " + what,
          kCorrect};
}

std::optional<bool> ReadBool(std::string_view text) {
  constexpr std::array<std::string_view, 11> kTrue = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                      "True", "TRUE", "on",  "On",  "ON"};
  constexpr std::array<std::string_view, 11> kFalse = {
      "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return std::nullopt;
}

template <typename Number, typename... Base>
std::optional<Number> ReadNumber(std::string_view digits, Base... base) {
  Number number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base...);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// A whole number as Go's strconv.ParseInt reads it with base 0.
std::optional<Json> ReadInteger(std::string_view text) {
  const bool negative = text.starts_with('-');
  const bool sign = negative || text.starts_with('+');
  if (sign) text.remove_prefix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char prefix = text[1];
    const bool hex = prefix == 'x' || prefix == 'X';
    const bool binary = prefix == 'b' || prefix == 'B';
    const bool octal = prefix == 'o' || prefix == 'O';
    base = hex ? 16 : binary ? 2 : 8;
    text.remove_prefix(hex || binary || octal ? 2 : 1);
  }
  const std::optional<uint64_t> size = ReadNumber<uint64_t>(text, base);
  constexpr uint64_t kMax = uint64_t{1} << 63;
  if (!size || (negative && *size > kMax) || (sign && !negative && *size >= kMax)) {
    return std::nullopt;
  }
  return negative ? Json(static_cast<int64_t>(-*size)) : Json(*size);
}

// A decimal fraction. The form is checked because from_chars also reads "inf" and "nan".
std::optional<double> ReadFloat(std::string_view text) {
  const bool sign = text.starts_with('+') || text.starts_with('-');
  const std::string_view digits = text.substr(sign ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos ||
      digits[0] == '+' || digits[0] == '-') {
    return std::nullopt;
  }
  return ReadNumber<double>(text[0] == '+' ? digits : text);
}

// The value of a scalar without quotes and without a tag.
std::optional<Json> Resolve(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return Json(nullptr);
  }
  if (const std::optional<bool> boolean = ReadBool(text)) return Json(*boolean);
  constexpr std::array<std::string_view, 12> kNoJson = {".inf",  ".Inf",  ".INF",  "+.inf",
                                                        "+.Inf", "+.INF", "-.inf", "-.Inf",
                                                        "-.INF", ".nan",  ".NaN",  ".NAN"};
  if (std::ranges::find(kNoJson, text) != kNoJson.end()) return std::nullopt;
  const bool point = text[0] == '.';
  const bool numeric = (text[0] >= '0' && text[0] <= '9') || text[0] == '+' || text[0] == '-';
  if (!point && !numeric) return Json(text);
  std::string plain = text;
  if (numeric) std::erase(plain, '_');
  if (numeric) {
    if (std::optional<Json> integer = ReadInteger(plain)) return integer;
  }
  if (const std::optional<double> number = ReadFloat(plain)) return Json(*number);
  return Json(text);
}

// Finds where a document begins and whether it has a value.
class DocumentProbe final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    start_ = mark;
    has_value_ = false;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { has_value_ = true; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {
    has_value_ = true;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    has_value_ = true;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    has_value_ = true;
  }
  void OnMapEnd() override {}

  const YAML::Mark& start() const { return start_; }
  bool has_value() const { return has_value_; }

 private:
  YAML::Mark start_;
  bool has_value_ = false;
};

// The library reads the first document only. It returns invalid text after it as an endless number
// of empty documents, which all begin at the same place.
Result<Done> CheckOneDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentProbe probe;
  std::optional<YAML::Mark> last;
  while (parser.HandleNextDocument(probe)) {
    const YAML::Mark start = probe.start();
    if (last && start.pos <= last->pos) return At(start, "not YAML: unexpected text");
    if (last && probe.has_value()) return At(start, "a second document; a file must have only one");
    last = start;
  }
  return Done{};
}

class Converter {
 public:
  Result<Json> Convert(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth) return At(node.Mark(), "more than 100 levels");
    if (++values_ > kMaxValues) {
      Error error = At(node.Mark(), "more than 20,000 values");
      error.remedy = "write it as JSON, which has no such limit: kubectl get -o json";
      return error;
    }
    switch (node.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        return Json(nullptr);
      case YAML::NodeType::Scalar:
        return Scalar(node);
      case YAML::NodeType::Sequence:
        return Sequence(node, depth);
      case YAML::NodeType::Map:
        return Mapping(node, depth);
    }
    return Json(nullptr);
  }

 private:
  static Result<Json> Scalar(const YAML::Node& node) {
    constexpr std::string_view kStandard = "tag:yaml.org,2002:";
    const std::string& tag = node.Tag();
    if (tag == "!" || tag == std::string(kStandard) + "str") return Json(node.Scalar());
    std::optional<Json> value = Resolve(node.Scalar());
    if (!value) return At(node.Mark(), node.Scalar() + " cannot be written in JSON");
    if (tag.empty() || tag == "?") return *std::move(value);
    const bool fits = (tag == std::string(kStandard) + "int" && value->is_number_integer()) ||
                      (tag == std::string(kStandard) + "float" && value->is_number()) ||
                      (tag == std::string(kStandard) + "bool" && value->is_boolean()) ||
                      (tag == std::string(kStandard) + "null" && value->is_null());
    if (!fits) return At(node.Mark(), "\"" + node.Scalar() + "\" does not fit the tag " + tag);
    return *std::move(value);
  }

  Result<Json> Sequence(const YAML::Node& node, int depth) {
    Json list = Json::array();
    for (const YAML::Node& element : node) {
      Result<Json> value = Convert(element, depth + 1);
      if (!value.ok()) return value;
      list.push_back(*std::move(value));
    }
    return list;
  }

  Result<Json> Mapping(const YAML::Node& node, int depth) {
    Json object = Json::object();
    std::vector<YAML::Node> merged;
    for (const auto& entry : node) {
      if (entry.first.IsScalar() && entry.first.Tag() == "?" && entry.first.Scalar() == "<<") {
        merged.push_back(entry.second);
        continue;
      }
      const Result<std::string> key = Key(entry.first);
      if (!key.ok()) return key.error();
      if (object.contains(*key)) {
        return At(entry.first.Mark(), "the key \"" + *key + "\" occurs twice");
      }
      Result<Json> value = Convert(entry.second, depth + 1);
      if (!value.ok()) return value;
      object[*key] = *std::move(value);
    }
    for (const YAML::Node& source : merged) {
      const Result<Done> done = Merge(source, depth, object);
      if (!done.ok()) return done.error();
    }
    return object;
  }

  static Result<std::string> Key(const YAML::Node& node) {
    if (!node.IsScalar()) return At(node.Mark(), "a key must be a scalar");
    const Result<Json> key = Scalar(node);
    if (!key.ok()) return key.error();
    if (key->is_boolean()) return std::string(key->get<bool>() ? "true" : "false");
    return node.Scalar();
  }

  // A key of the object itself overrides a merged one; of several sources, the first is used.
  Result<Done> Merge(const YAML::Node& source, int depth, Json& object) {
    const Result<Json> value = Convert(source, depth + 1);
    if (!value.ok()) return value.error();
    const Json maps = value->is_array() ? *value : Json::array({*value});
    for (const Json& map : maps) {
      if (!map.is_object()) return At(source.Mark(), "<< needs a map or a list of maps");
      for (const auto& [key, member] : map.items()) object.emplace(key, member);
    }
    return Done{};
  }

  int values_ = 0;
};

Result<std::string> FromYaml(std::string_view text) {
  try {
    const std::string copy(text);
    const Result<Done> one = CheckOneDocument(copy);
    if (!one.ok()) return one.error();
    const Result<Json> value = Converter().Convert(YAML::Load(copy), 0);
    if (!value.ok()) return value.error();
    return value->dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const YAML::Exception& error) {
    // At the end of the text, the library has no position.
    const bool placed = error.mark.line > 0 || error.mark.column > 0;
    const std::string what = "not YAML: " + error.msg;
    return placed ? At(error.mark, what) : Error{ErrorCode::kInvalidArgument, what, kCorrect};
  }
}

}  // namespace

Result<std::string> YamlToJson(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool has_brace = first != std::string_view::npos && text[first] == '{';
  // Otherwise it can be a mapping in YAML's flow style, as `kubectl get -o kyaml` writes it.
  if (has_brace && Json::accept(text)) return std::string(text);
  Result<std::string> json = FromYaml(text);
  if (json.ok() || !has_brace) return json;
  // What begins as JSON is most likely meant to be: its reader says what is wrong with it.
  const size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  const bool is_like_json = second == std::string_view::npos || text[second] == '"';
  return is_like_json ? std::string(text) : json;
}

}  // namespace alignd::host
