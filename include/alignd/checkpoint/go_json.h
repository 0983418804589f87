// JSON as Go's encoding/json writes it: key order, escapes, base64, null or empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {

// `text` as a JSON string with its quotes. `<`, `>`, `&`, U+2028 and U+2029 are escaped, bytes that
// are not UTF-8 become \ufffd, everything else from U+0020 on stays as it is.
// Source: Go encoding/json, Marshal.
std::string GoQuoted(std::string_view text);

// Standard alphabet, padded.
std::string EncodeBase64(std::string_view bytes);

// Null if `text` is not base64 with padding. Line ends are skipped, as Go skips them.
// Source: Go encoding/base64, StdEncoding.
std::optional<std::string> DecodeBase64(std::string_view text);

// Writes one value in one line.
class GoJsonWriter {
 public:
  template <typename T>
  static std::string ToText(const T& value) {
    GoJsonWriter writer;
    writer.Write(value);
    return std::move(writer.out_);
  }

 private:
  void Write(const std::string& text) { out_ += GoQuoted(text); }
  void Write(int64_t number) { out_ += std::to_string(number); }
  void Write(uint64_t number) { out_ += std::to_string(number); }
  void Write(const GoBytes& value) {
    out_ += value.bytes ? '"' + EncodeBase64(*value.bytes) + '"' : "null";
  }

  void Write(const CpuSet& cpus) { out_ += GoQuoted(cpus.ToString()); }

  template <typename T>
  void Write(const GoSlice<T>& list) {
    if (!list) return WriteNull();
    out_ += '[';
    bool first = true;
    for (const T& element : *list) {
      if (!std::exchange(first, false)) out_ += ',';
      Write(element);
    }
    out_ += ']';
  }

  // Sorted by the key's text, number keys too: "10" before "2".
  template <typename K, typename V>
  void Write(const GoMap<K, V>& map) {
    if (!map) return WriteNull();
    std::vector<std::pair<std::string, const V*>> members;
    members.reserve(map->size());
    for (const auto& [key, value] : *map) members.emplace_back(KeyText(key), &value);
    std::ranges::sort(
        members, {}, [](const auto& member) -> const auto& { return member.first; });
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : members) {
      WriteKey(key, std::exchange(first, false));
      Write(*value);
    }
    out_ += '}';
  }

  template <GoStruct T>
  void Write(const T& value) {
    out_ += '{';
    bool first = true;
    T::Fields(value, [this, &first](const GoField& field, const auto& member) {
      if (field.omit_empty && IsEmpty(member)) return;
      WriteKey(field.json, std::exchange(first, false));
      Write(member);
    });
    out_ += '}';
  }

  template <GoStruct T>
  void Write(const GoPointer<T>& pointer) {
    if (!pointer) return WriteNull();
    Write(*pointer);
  }

  void WriteNull() { out_ += "null"; }
  void WriteKey(std::string_view key, bool first) {
    if (!first) out_ += ',';
    out_ += GoQuoted(key) + ':';
  }
  static std::string KeyText(const std::string& key) { return key; }
  static std::string KeyText(int64_t key) { return std::to_string(key); }
  template <typename K, typename V>
  static bool IsEmpty(const GoMap<K, V>& map) {
    return !map || map->empty();
  }
  template <typename T>
  static bool IsEmpty(const GoSlice<T>& list) {
    return !list || list->empty();
  }
  static bool IsEmpty(const CpuSet& cpus) { return cpus.empty(); }
  template <typename T>
  static bool IsEmpty(const T&) {
    return false;  // only maps, slices and CPU sets have omit_empty
  }

  std::string out_;
};

}  // namespace alignd::checkpoint
