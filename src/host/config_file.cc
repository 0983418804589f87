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
// for ParseKubeletConfig to refuse.
std::string WithFields(const std::string& object, const std::string& fields) {
  nlohmann::json json = nlohmann::json::parse(object, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json others = nlohmann::json::parse(fields, nullptr, /*allow_exceptions=*/false);
  if (!others.is_object()) return fields;
  if (!json.is_object()) return object;
  json.update(others);
  return json.dump();
}

Result<ConfigFile> ParseConfig(const Result<std::string>& text, const std::filesystem::path& path,
                               const std::string& others = "") {
  if (!text.ok()) return text.error();
  Result<std::string> json = YamlToJson(*text);
  if (!json.ok()) return ContentError(json.error(), path);
  if (*json == "null") {
    return Error{ErrorCode::kInvalidArgument, path.string() + ": is empty",
                 "write a KubeletConfiguration to it, or name another file"};
  }
  if (!others.empty()) *json = WithFields(*json, others);
  Result<KubeletConfig> config = ParseKubeletConfig(*json);
  if (!config.ok()) return ContentError(config.error(), path);
  ConfigFile file{*std::move(config), {}};
  const nlohmann::json fields = nlohmann::json::parse(*json);
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_null()) file.given[name] = value.dump();
  }
  return file;
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

Result<ConfigFile> ParseConfigText(const std::string& text, const std::filesystem::path& path,
                                   const std::string& fields) {
  return ParseConfig(text, path, fields);
}

Result<KubeletConfig> ReadConfigFileOrPipe(const std::filesystem::path& path) {
  return WithoutFields(ParseConfig(ReadFileOrPipe(path, kMaxConfigBytes), path));
}

}  // namespace alignd::host
