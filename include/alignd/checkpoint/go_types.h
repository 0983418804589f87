// Go's values as C++ values, in which null and empty differ, and the one description of a Go struct
// for the JSON reader, the JSON writer and the checksum's printer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::checkpoint {

// []T; no value: null.
template <typename T>
using GoSlice = std::optional<std::vector<T>>;

// map[K]V; no value: null. K is std::string or int64_t. Ordered as Go prints maps: strings by
// bytes, numbers by value.
template <typename K, typename V>
using GoMap = std::optional<std::map<K, V>>;

// *T of a struct; no value: null.
template <typename T>
using GoPointer = std::optional<T>;

// []byte: base64 in JSON. No value: null.
struct GoBytes {
  std::optional<std::string> bytes;

  friend bool operator==(const GoBytes&, const GoBytes&) = default;
};

// One field of a Go struct.
struct GoField {
  std::string_view json;    // key in JSON
  std::string_view name;    // Go's name
  std::string_view type;    // Go's type, as Go prints it
  bool omit_empty = false;  // left out of JSON when empty
};

// An example of a visitor, for the concept below.
struct AnyFieldVisitor {
  template <typename Member>
  void operator()(const GoField&, Member&) const {}
};

// A struct that describes itself: `Fields(self, visit)` calls visit(GoField, member) for each field
// in Go's order.
template <typename T>
concept GoStruct = requires(T& value, AnyFieldVisitor visit) {
  T::Fields(value, visit);
};

}  // namespace alignd::checkpoint
