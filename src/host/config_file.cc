#include "host/config_file.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::host {

namespace {

constexpr size_t kMaxConfigBytes = size_t{1024} * 1024;

// The object with the members of `fields` in place of its own. Texts that are no objects are left
// for ReadKubeletConfig to refuse.
std::string WithFields(const std::string& object, const std::string& fields) {
  nlohmann::json json = nlohmann::json::parse(object, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json others = nlohmann::json::parse(fields, nullptr, /*allow_exceptions=*/false);
  if (!others.is_object()) return fields;
  if (!json.is_object()) return object;
  json.update(others);
  return json.dump();
}

// `fields` as for WithFields; `field` with what is below it.
bool HasField(const std::string& fields, const std::string& field) {
  const nlohmann::json others = nlohmann::json::parse(fields, nullptr, /*allow_exceptions=*/false);
  return others.is_object() && others.contains(field.substr(0, field.find_first_of(".[")));
}

CheckedConfigFile CheckText(const Result<std::string>& text, const std::filesystem::path& path,
                            const std::string& others = "") {
  CheckedConfigFile checked;
  const auto add = [&checked](Error error) {
    checked.problems.push_back({"", "", std::move(error)});
  };
  if (!text.ok()) {
    add(text.error());
    return checked;
  }
  checked.text = *text;
  Result<std::string> json = YamlToJson(*text);
  if (!json.ok()) {
    add(ContentError(json.error(), path));
    return checked;
  }
  if (*json == "null") {
    add({ErrorCode::kInvalidArgument, path.string() + ": is empty",
         "write a KubeletConfiguration to it, or name another file"});
    return checked;
  }
  if (!others.empty()) *json = WithFields(*json, others);
  ReadConfig read = ReadKubeletConfig(*json);
  for (ConfigProblem& problem : read.problems) {
    if (problem.field.empty()) problem.error = ContentError(problem.error, path);
  }
  checked.problems = std::move(read.problems);
  checked.file.config = std::move(read.config);
  const nlohmann::json fields = nlohmann::json::parse(*json, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) return checked;
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_null()) checked.file.given[name] = value.dump();
  }
  return checked;
}

Result<ConfigFile> ParseConfig(const Result<std::string>& text, const std::filesystem::path& path,
                               const std::string& others = "") {
  CheckedConfigFile checked = CheckText(text, path, others);
  if (checked.problems.empty()) return std::move(checked.file);
  const ConfigProblem& first = checked.problems.front();
  if (HasField(others, first.field)) {
    Error given = first.error.In("given with the request, not in " + path.string());
    if (given.remedy.empty()) given.remedy = "correct this value";
    return given;
  }
  return first.field.empty() ? first.error : ContentError(first.error, path);
}

Result<KubeletConfig> WithoutFields(Result<ConfigFile> file) {
  if (!file.ok()) return file.error();
  return std::move(file->config);
}

}  // namespace

Result<KubeletConfig> ReadConfigFile(const std::filesystem::path& path) {
  return WithoutFields(ReadConfigFields(path));
}

Result<ConfigFile> ReadConfigFields(const std::filesystem::path& path) {
  return ParseConfig(ReadFile(path, kMaxConfigBytes), path);
}

CheckedConfigFile CheckConfigFile(const std::filesystem::path& path) {
  return CheckText(ReadFile(path, kMaxConfigBytes), path);
}

Result<ConfigFile> ParseConfigText(const std::string& text, const std::filesystem::path& path,
                                   const std::string& fields) {
  return ParseConfig(text, path, fields);
}

Result<KubeletConfig> ReadConfigFileOrPipe(const std::filesystem::path& path) {
  return WithoutFields(ParseConfig(ReadFileOrPipe(path, kMaxConfigBytes), path));
}

}  // namespace alignd::host
