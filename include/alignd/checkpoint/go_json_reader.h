// JSON as Go's encoding/json reads it into a typed value: field names without regard to case,
// unknown fields skipped, a repeated key read over the first, null leaves numbers and texts alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {

// Whether the whole text is one JSON value, with white space around it and nothing else. Needs no
// stack, however deep the text; deeper than 10000 is refused, as Go refuses it.
// Errors: kCorrupt, with the place in bytes.
Result<Done> CheckGoJson(std::string_view text);

// Whether Go takes `key` for the field `name`: letters without regard to case, including the two
// letters outside ASCII that fold to ASCII ones. Source: Go encoding/json, foldName.
bool MatchesField(std::string_view key, std::string_view name);

// A walk over a text that CheckGoJson has passed.
class GoJsonReader {
 public:
  // Reads `text` into `value`, which holds what missing fields keep.
  // Errors: kCorrupt: a text that is not JSON, with the place in bytes; or the first value of a
  // wrong type, with its path.
  template <typename T>
  static Result<Done> Read(std::string_view text, T& value) {
    if (const Result<Done> checked = CheckGoJson(text); !checked.ok()) return checked.error();
    GoJsonReader reader(text);
    reader.Value(value);
    if (reader.problem_) return *reader.problem_;
    return Done{};
  }

  // The keys of the outermost object; none if the text is another value.
  // Errors: kCorrupt if it is not JSON.
  static Result<std::vector<std::string>> TopLevelKeys(std::string_view text);

 private:
  explicit GoJsonReader(std::string_view text) : text_(text) {}

  void Value(std::string& target);
  void Value(int64_t& target);
  void Value(uint64_t& target);
  void Value(GoBytes& target);

  template <typename T>
  void Value(GoSlice<T>& list) {
    if (TakeNull()) return list.reset();
    if (!BeginList()) return;
    if (!list) list.emplace();
    size_t count = 0;
    for (; NextElement(); ++count) {
      if (count == list->size()) list->emplace_back();
      Value((*list)[count]);
    }
    list->resize(count);
  }

  template <typename K, typename V>
  void Value(GoMap<K, V>& map) {
    if (TakeNull()) return map.reset();
    if (!BeginObject()) return;
    if (!map) map.emplace();
    while (const std::optional<std::string> text = NextKey()) {
      const std::optional<K> key = Key(*text, static_cast<const K*>(nullptr));
      V value{};
      Value(value);
      if (key) map->insert_or_assign(*key, std::move(value));
    }
  }

  template <GoStruct T>
  void Value(T& value) {
    if (TakeNull() || !BeginObject()) return;
    while (const std::optional<std::string> key = NextKey()) {
      bool known = false;
      T::Fields(value, [this, &key, &known](const GoField& field, auto& member) {
        if (known || !MatchesField(*key, field.json)) return;
        known = true;
        path_.back() = field.json;
        Value(member);
      });
      if (!known) Skip();
    }
  }

  template <GoStruct T>
  void Value(GoPointer<T>& pointer) {
    if (TakeNull()) return pointer.reset();
    if (!pointer) pointer.emplace();
    Value(*pointer);
  }

  std::optional<std::string> Key(const std::string& text, const std::string*) { return text; }
  std::optional<int64_t> Key(const std::string& text, const int64_t*);

  // The first character of the next value.
  char Peek();
  // Takes the next value if it is null.
  bool TakeNull();
  // False, with the problem noted and the value skipped, if the next value is something else.
  bool BeginObject() { return Begin('{', "an object"); }
  bool BeginList() { return Begin('[', "a list"); }
  bool Begin(char bracket, std::string_view expected);
  // The next key, its value ahead; nothing at the end of the object.
  std::optional<std::string> NextKey();
  bool NextElement();
  bool AtEnd(char bracket);
  std::string_view TakeNumber();
  std::string TakeString();
  void AppendEscape(std::string& out);
  uint32_t TakeHex4();
  void SkipSpace();
  void Skip();
  // Notes that the next value is not what is expected, and skips it.
  void Mismatch(std::string_view expected);
  void Note(std::string_view problem);

  std::string_view text_;
  size_t at_ = 0;
  bool fresh_ = false;             // just behind an opening bracket
  std::vector<std::string> path_;  // keys and positions that lead here
  std::optional<Error> problem_;   // the first one
};

}  // namespace alignd::checkpoint
