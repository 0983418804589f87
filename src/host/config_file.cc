#include "host/config_file.h"

#include <string>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::host {

namespace {

constexpr size_t kMaxConfigBytes = size_t{1024} * 1024;

Result<KubeletConfig> ParseConfig(const Result<std::string>& text,
                                  const std::filesystem::path& path) {
  if (!text.ok()) return text.error();
  const Result<std::string> json = YamlToJson(*text);
  if (!json.ok()) return ContentError(json.error(), path);
  if (*json == "null") {
    return Error{ErrorCode::kInvalidArgument, path.string() + ": is empty",
                 "write a KubeletConfiguration to it, or name another file"};
  }
  Result<KubeletConfig> config = ParseKubeletConfig(*json);
  if (!config.ok()) return ContentError(config.error(), path);
  return config;
}

}  // namespace

Result<KubeletConfig> ReadConfigFile(const std::filesystem::path& path) {
  return ParseConfig(ReadFile(path, kMaxConfigBytes), path);
}

Result<KubeletConfig> ReadConfigFileOrPipe(const std::filesystem::path& path) {
  return ParseConfig(ReadFileOrPipe(path, kMaxConfigBytes), path);
}

}  // namespace alignd::host
