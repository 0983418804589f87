// The forms in which commands write their results, the same for all commands.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/command_line.h"

namespace alignd::cli {

// The option -o, --output. `format` has one of text, wide, json, yaml once the options are parsed.
void AddOutputOption(CLI::App& command, std::string& format);

// The option --socket.
void AddSocketOption(CLI::App& command, std::string& socket);

using daemon::AddExamples;

// Whether the format is for programs: json or yaml.
bool IsData(std::string_view format);

// A JSON text as `format`, with a line end: JSON as it is, or the same as YAML.
std::string AsData(const std::string& json, std::string_view format);

// "2026-11-22T12:03:11Z".
std::string IsoTime(int64_t unix_ms);

// "0s", "30s", "2m30s", "1h5m", "3d4h": the two largest units.
std::string ReadableDuration(std::chrono::milliseconds duration);

// Columns have the width of their widest cell; the last one is not padded.
void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out);

// Whether `out` shows colours. Not at first.
void SetColours(std::ostream& out, bool colours);

bool HasColours(std::ostream& out);

enum class Colour { kBold, kRed, kGreen, kYellow };

// `out << Coloured{Colour::kRed, text}`: the text, in colour where `out` shows colours.
struct Coloured {
  Colour colour = Colour::kBold;
  std::string_view text;
};
std::ostream& operator<<(std::ostream& out, const Coloured& coloured);

}  // namespace alignd::cli
