// Changes fields in a text of the kubelet's configuration.
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "host/yaml.h"
#include "kubelet/plan.h"

namespace alignd::kubelet {
namespace {

using nlohmann::json;

Error CannotEdit(const std::string& why, const std::string& field) {
  return {ErrorCode::kInvalidArgument, why, "set " + field + " in this file by hand"};
}

// nullopt: not a mapping.
std::optional<json> Parsed(const std::string& text) {
  const Result<std::string> as_json = host::YamlToJson(text);
  if (!as_json.ok()) return std::nullopt;
  json parsed = json::parse(*as_json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_null()) return json::object();
  if (!parsed.is_object()) return std::nullopt;
  return parsed;
}

// Whether the line goes on with the value of the field in a line above it.
bool IsContinued(const std::string& line) {
  return line.starts_with(" ") || line.starts_with("\t") || line.starts_with("- ") || line == "-";
}

// In the YAML text, line by line, so that comments and the order stay.
std::string Edited(const std::string& text, const std::string& field,
                   const std::optional<std::string>& value) {
  const std::string key = field + ":";
  std::istringstream lines(text);
  std::string edited;
  std::string added = value ? key + " " + (value->empty() ? "\"\"" : *value) + "\n" : "";
  bool in_value = false;  // of the field
  for (std::string line; std::getline(lines, line);) {
    in_value = in_value && IsContinued(line);
    if (in_value) continue;
    if (line.starts_with(key)) {
      const size_t comment = line.find(" #");
      if (value && comment != std::string::npos) {
        added.insert(added.size() - 1, line.substr(comment));
      }
      edited += std::exchange(added, "");
      in_value = true;
      continue;
    }
    const bool ends = line == "..." || (line.starts_with("---") && !edited.empty() &&
                                        edited.find_first_not_of("-\n \t") != std::string::npos);
    if (ends) edited += std::exchange(added, "");
    edited += line + "\n";
  }
  return edited + added;
}

}  // namespace

std::optional<std::string> EndpointIn(const std::string& text) {
  const std::optional<json> config = Parsed(text);
  if (!config || !config->contains(kEndpointField)) return std::nullopt;
  const json& value = (*config)[kEndpointField];
  return value.is_string() ? value.get<std::string>() : "";
}

Result<std::string> WithField(const std::string& text, const std::string& field,
                              const std::optional<std::string>& value) {
  std::optional<json> wanted = Parsed(text);
  if (!wanted) return CannotEdit("not a KubeletConfiguration in YAML or JSON", field);
  wanted->erase(field);
  if (value) (*wanted)[field] = *value;
  std::string edited;
  if (const size_t begin = text.find_first_not_of(" \t\r\n");
      begin != std::string::npos && text[begin] == '{') {
    auto ordered = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!ordered.is_object()) return CannotEdit("a mapping in braces that is not JSON", field);
    ordered.erase(field);
    if (value) ordered[field] = *value;
    edited = ordered.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  } else {
    edited = Edited(text, field, value);
  }
  if (Parsed(edited) != wanted) return CannotEdit(field + " is written in an unusual way", field);
  return edited;
}

Result<std::string> WithEndpoint(const std::string& text, const std::optional<std::string>& value) {
  return WithField(text, kEndpointField, value);
}

}  // namespace alignd::kubelet
