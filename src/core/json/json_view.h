// A value in a JSON text with its path, so that every error names its place. Private to the core's
// readers; no public header includes it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::json {

// Parses a whole JSON text.
// Errors: kInvalidArgument with line and column.
Result<nlohmann::json> Parse(std::string_view text);

// The errors of a text that does not parse; `byte` counts from 1.
Error NotJson(std::string_view text, size_t byte);
Error NumberOutOfRange();

// The same as Parse, keeping the order of keys. Errors: also a key that an object has twice.
Result<nlohmann::ordered_json> ParseOrdered(std::string_view text);

// Does not own the value. Errors of the typed readers: kInvalidArgument, "<path>: <value> is not a
// ...".
class View {
 public:
  View(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const nlohmann::json& value() const { return *value_; }

  // The member of that name; nullopt if it is absent or null.
  // Errors: this value is not an object.
  Result<std::optional<View>> Find(std::string_view key) const;
  // Errors: also if it is absent or null.
  Result<View> Require(std::string_view key) const;

  Result<std::string> String() const;
  Result<bool> Bool() const;
  // A whole number in [least, most].
  Result<int64_t> Integer(int64_t least, int64_t most) const;
  Result<uint64_t> Unsigned() const;
  // The elements, with paths `path[0]`, ...
  Result<std::vector<View>> Elements() const;
  // The members in key order, with paths `path.key`: control characters of a key are escaped, so
  // that an error is one line.
  Result<std::vector<std::pair<std::string, View>>> Members() const;

  // "<path>: <value> is not <wanted>".
  Error IsNot(std::string_view wanted) const;
  // "<path>: <text>".
  Error Wrong(std::string_view text) const;

 private:
  std::string PathOf(std::string_view key) const;

  const nlohmann::json* value_;
  std::string path_;  // empty at the top
};

}  // namespace alignd::json
