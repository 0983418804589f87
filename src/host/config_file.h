// Reads a `KubeletConfig` from a file such as that of the kubelet's --config.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/config_problem.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::host {

// Reads a YAML or JSON file of up to 1 MiB, a regular file. Thread-safe.
// Errors: those of ReadFile, YamlToJson and ParseKubeletConfig, which begin with the file's path;
// also kInvalidArgument if the file is empty. Source: kubelet
// pkg/kubelet/kubeletconfig/configfiles/configfiles.go, Load.
Result<KubeletConfig> ReadConfigFile(const std::filesystem::path& path);

// A configuration, and which of its fields the file has.
struct ConfigFile {
  KubeletConfig config;
  std::map<std::string, std::string> given;  // the values as JSON, by field; not those with null
};

// The same as ReadConfigFile, with the fields. Errors: as ReadConfigFile.
Result<ConfigFile> ReadConfigFields(const std::filesystem::path& path);

// What could be read of a file, and everything that is wrong with it.
struct CheckedConfigFile {
  std::string text;  // as it was read; empty if it could not be
  ConfigFile file;   // see ReadConfig::config
  // Without a field: the error names the file. With one: it does not.
  std::vector<ConfigProblem> problems;
};

// As ReadConfigFields, which gives the first problem.
CheckedConfigFile CheckConfigFile(const std::filesystem::path& path);

// The same for a text from `path`, with `fields` (a JSON object; empty: none) in place of its own
// fields. Errors: as ReadConfigFile; one in a field of `fields` says that it is not the file's.
Result<ConfigFile> ParseConfigText(const std::string& text, const std::filesystem::path& path,
                                   const std::string& fields = "");

// The same for a file that the user names on a command line: it may be a pipe.
Result<KubeletConfig> ReadConfigFileOrPipe(const std::filesystem::path& path);

}  // namespace alignd::host
