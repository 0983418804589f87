// JSON as Go's encoding/json reads it into a typed value: field names regardless of case, unknown
// fields skipped, repeated keys merged, null leaves numbers and strings unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {

// A parsed JSON value. Unlike a map it keeps repeated keys, and numbers as they are written.
struct JsonNode {
  enum class Kind { kNull, kBool, kNumber, kString, kList, kObject };

  Kind kind = Kind::kNull;
  std::string key;   // of a member of an object
  std::string text;  // of a string or a number
  std::vector<JsonNode> children;
};

// Parses a whole JSON text.
// Errors: kCorrupt, with line and column.
// Differs: a text that is not UTF-8, has half a surrogate pair or is nested deeper than 100 levels
// is refused. The kubelet writes none of these.
Result<JsonNode> ParseJson(std::string_view text);

// Whether Go takes `key` for the field `name`.
// Source: Go encoding/json, foldName.
// Differs: only ASCII letters match regardless of case; Go also folds U+017F and U+212A.
bool MatchesField(std::string_view key, std::string_view name);

// Copies a parsed JSON value into a typed value.
class GoJsonReader {
 public:
  // Reads `text` into `value`. Missing fields keep what `value` has.
  // Errors: kCorrupt: not JSON; or the first value of a wrong type, with its path.
  template <typename T>
  static Result<Done> Read(std::string_view text, T& value) {
    const Result<JsonNode> parsed = ParseJson(text);
    if (!parsed.ok()) return parsed.error();
    return Read(*parsed, value);
  }

  // The same, of a text that is parsed already. After an error, `value` has what could be read.
  // Errors: kCorrupt: the first value of a wrong type, with its path.
  template <typename T>
  static Result<Done> Read(const JsonNode& parsed, T& value) {
    GoJsonReader reader;
    reader.Value(parsed, value);
    if (reader.problem_) return *reader.problem_;
    return Done{};
  }

 private:
  using Kind = JsonNode::Kind;

  void Value(const JsonNode& node, std::string& target);
  void Value(const JsonNode& node, int64_t& target);
  void Value(const JsonNode& node, uint64_t& target);
  void Value(const JsonNode& node, GoBytes& target);
  void Value(const JsonNode& node, CpuSet& target);

  template <typename T>
  void Value(const JsonNode& node, GoSlice<T>& list) {
    if (node.kind == Kind::kNull) return list.reset();
    if (!Require(node, Kind::kList)) return;
    if (!list) list.emplace();
    list->resize(node.children.size());
    for (size_t i = 0; i < node.children.size(); ++i) {
      ReadAt(std::to_string(i), node.children[i], (*list)[i]);
    }
  }

  template <typename K, typename V>
  void Value(const JsonNode& node, GoMap<K, V>& map) {
    if (node.kind == Kind::kNull) return map.reset();
    if (!Require(node, Kind::kObject)) return;
    if (!map) map.emplace();
    for (const JsonNode& member : node.children) {
      const std::optional<K> key = Key(member.key, static_cast<const K*>(nullptr));
      V value{};
      ReadAt(QuotedKey(member.key), member, value);
      if (key) map->insert_or_assign(*key, std::move(value));
    }
  }

  template <GoStruct T>
  void Value(const JsonNode& node, T& value) {
    if (node.kind == Kind::kNull || !Require(node, Kind::kObject)) return;
    for (const JsonNode& member : node.children) {
      bool known = false;
      T::Fields(value, [&](const GoField& field, auto& target) {
        if (known || !MatchesField(member.key, field.json)) return;
        known = true;
        this->ReadAt(std::string(field.json), member, target);
      });
    }
  }

  template <GoStruct T>
  void Value(const JsonNode& node, GoPointer<T>& pointer) {
    if (node.kind == Kind::kNull) return pointer.reset();
    if (!pointer) pointer.emplace();
    Value(node, *pointer);
  }

  // Reads a child whose place in its parent is `step`.
  template <typename T>
  void ReadAt(std::string step, const JsonNode& node, T& target) {
    path_.push_back(std::move(step));
    Value(node, target);
    path_.pop_back();
  }

  std::optional<std::string> Key(const std::string& text, const std::string*) { return text; }
  std::optional<int64_t> Key(const std::string& text, const int64_t*);
  static std::string QuotedKey(const std::string& key);

  // Whether the value is of that kind; notes the problem otherwise.
  bool Require(const JsonNode& node, Kind kind);
  void Note(std::string_view problem);

  std::vector<std::string> path_;  // keys and positions that lead to the current value
  std::optional<Error> problem_;   // the first one
};

}  // namespace alignd::checkpoint
