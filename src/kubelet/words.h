// Texts that systemd splits into words: command lines, Environment= and environment files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::kubelet {

// The words of a text, without their quotes and backslashes.
std::vector<std::string> SplitWords(std::string_view text);

// One line `NAME=value` of an environment file.
struct EnvironmentLine {
  std::string name;
  std::string value;  // without quotes
  size_t begin = 0;   // of the raw value in the text
  size_t end = 0;
};

// The assignments of an environment file, in order.
std::vector<EnvironmentLine> ParseEnvironmentFile(std::string_view text);

// The text of an environment file with the last assignment of `name` changed, or with a new one.
std::string WithVariable(std::string_view text, const std::string& name, const std::string& value);

// `value` as it stands behind `NAME=`, in quotes if it needs them.
std::string QuotedValue(const std::string& value);

// The value of the last `flag` ("--config") among the words; empty: it is the last word.
std::optional<std::string> LastFlag(const std::vector<std::string>& words, std::string_view flag);

// A command line, or a part of one, in which the last `flag` has another value. Without the flag,
// it is added at the end. `value` nullopt: the flag is removed.
std::string WithFlag(const std::string& text, const std::string& flag,
                     const std::optional<std::string>& value);

}  // namespace alignd::kubelet
