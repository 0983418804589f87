#include "cli/output.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "control/control_client.h"
#include "host/printable.h"
#include "host/utc_time.h"
#include "rpc/unix_socket.h"

namespace alignd::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Index of a stream's own flag; the same for all streams.
int ColourFlag() {
  static const int index = std::ios_base::xalloc();
  return index;
}

// A scalar of JSON is one of YAML; so is a quoted string.
std::string Scalar(const OrderedJson& value) {
  if (value.is_array()) return "[]";
  if (value.is_object()) return "{}";
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// A key as people write it, unless YAML 1.1 reads it as something else than a text.
std::string Key(const std::string& name) {
  static constexpr std::array<std::string_view, 9> kNoTexts = {"null", "true", "false", "yes", "no",
                                                               "on",   "off",  "y",     "n"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_plain = [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') ||
           std::string_view("_-./").find(c) != std::string_view::npos;
  };
  std::string lower = name;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const bool is_text = !name.empty() && is_letter(name.front()) &&
                       std::ranges::all_of(name, is_plain) &&
                       std::ranges::find(kNoTexts, lower) == kNoTexts.end();
  return is_text ? name : Scalar(name);
}

void AppendYaml(const OrderedJson& value, const std::string& indent, std::string& out) {
  for (auto entry = value.begin(); entry != value.end(); ++entry) {
    const OrderedJson& item = *entry;
    const bool is_nested = (item.is_array() || item.is_object()) && !item.empty();
    if (value.is_array()) {
      if (!is_nested) {
        out += indent + "- " + Scalar(item) + "\n";
        continue;
      }
      std::string nested;
      AppendYaml(item, indent + "  ", nested);
      nested.replace(indent.size(), 1, "-");  // in place of the first blank
      out += nested;
      continue;
    }
    out += indent + Key(entry.key()) + ":";
    if (!is_nested) {
      out += " " + Scalar(item) + "\n";
      continue;
    }
    out += "\n";
    AppendYaml(item, indent + "  ", out);
  }
}

std::string_view CodeOf(Colour colour) {
  switch (colour) {
    case Colour::kBold:
      return "\x1b[1m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kYellow:
      break;
  }
  return "\x1b[33m";
}

}  // namespace

void AddOutputOption(CLI::App& command, std::string& format) {
  command
      .add_option("-o,--output", format,
                  "text: for people; wide: with more columns; json, yaml: for programs")
      ->check(CLI::IsMember({"text", "wide", "json", "yaml"}))
      ->capture_default_str();
}

void AddSocketOption(CLI::App& command, std::string& socket) {
  socket = control::kDefaultSocket;
  command.add_option("--socket", socket, "alignd's control socket")
      ->check([](const std::string& endpoint) {
        const Result<std::string> path = rpc::SocketPath(endpoint);
        return path.ok() ? std::string() : path.error().Text();
      })
      ->capture_default_str();
}

bool IsData(std::string_view format) { return format == "json" || format == "yaml"; }

std::string AsData(const std::string& json, std::string_view format) {
  if (format != "yaml") return json + "\n";
  const OrderedJson value = OrderedJson::parse(json, nullptr, /*allow_exceptions=*/false);
  const bool is_nested = (value.is_array() || value.is_object()) && !value.empty();
  if (!is_nested) return Scalar(value) + "\n";
  std::string out;
  AppendYaml(value, "", out);
  return out;
}

std::string IsoTime(int64_t unix_ms) {
  return host::UtcTime(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

std::string ReadableDuration(std::chrono::milliseconds duration) {
  static constexpr std::array<std::pair<int64_t, char>, 4> kUnits = {
      {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}}};
  int64_t seconds = std::max<int64_t>(duration.count() / 1000, 0);
  std::string text;
  int units = 0;
  for (const auto& [length, name] : kUnits) {
    if (!text.empty()) ++units;
    if (units == 2) break;
    if (seconds >= length) {
      text += std::to_string(seconds / length) + name;
      seconds %= length;
    }
  }
  return text.empty() ? "0s" : text;
}

void PrintTable(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const std::vector<std::string>& row : rows) {
    out << "  ";
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      out << row[i] << std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out << row.back() << '\n';
  }
}

void SetColours(std::ostream& out, bool colours) { out.iword(ColourFlag()) = colours ? 1 : 0; }

bool HasColours(std::ostream& out) { return out.iword(ColourFlag()) != 0; }

std::ostream& operator<<(std::ostream& out, const Coloured& coloured) {
  if (!HasColours(out)) return out << coloured.text;
  host::PrintableStream::WriteRaw(out, CodeOf(coloured.colour));
  out << coloured.text;
  host::PrintableStream::WriteRaw(out, "\x1b[0m");
  return out;
}

}  // namespace alignd::cli
