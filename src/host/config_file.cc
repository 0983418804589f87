#include "host/config_file.h"

#include <string>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::host {

Result<KubeletConfig> ReadConfigFile(const std::filesystem::path& path) {
  constexpr size_t kMaxBytes = size_t{1024} * 1024;
  const Result<std::string> text = ReadFileOrPipe(path, kMaxBytes);
  if (!text.ok()) return text.error();
  const Result<std::string> json = YamlToJson(*text);
  if (!json.ok()) return json.error().In(path.string());
  if (*json == "null") {
    return Error{ErrorCode::kInvalidArgument, path.string() + ": is empty",
                 "write a KubeletConfiguration to it, or name another file"};
  }
  Result<KubeletConfig> config = ParseKubeletConfig(*json);
  if (!config.ok()) return config.error().In(path.string());
  return config;
}

}  // namespace alignd::host
