#include "host/config_file.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::host {

namespace {

constexpr size_t kMaxConfigBytes = size_t{1024} * 1024;

Result<ConfigFile> ParseConfig(const Result<std::string>& text, const std::filesystem::path& path) {
  if (!text.ok()) return text.error();
  const Result<std::string> json = YamlToJson(*text);
  if (!json.ok()) return ContentError(json.error(), path);
  if (*json == "null") {
    return Error{ErrorCode::kInvalidArgument, path.string() + ": is empty",
                 "write a KubeletConfiguration to it, or name another file"};
  }
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

Result<KubeletConfig> ReadConfigFileOrPipe(const std::filesystem::path& path) {
  return WithoutFields(ParseConfig(ReadFileOrPipe(path, kMaxConfigBytes), path));
}

}  // namespace alignd::host
