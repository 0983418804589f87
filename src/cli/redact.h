// Secrets left out of files that leave the node.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::cli {

// The kubelet's device checkpoint without the plugins' answers (`AllocResp`): these have
// environment variables, mounts and annotations of containers. Its checksum no longer matches.
// Errors: kInvalidArgument if it is not JSON.
Result<std::string> WithoutPluginAnswers(std::string_view checkpoint);

// A configuration (YAML or JSON) as JSON, without the values whose name says that they are secret:
// those with token, secret, password, credential, authorization or apikey in them, staticPodURL
// and staticPodURLHeader. Names that end in "File" or "Path" keep their values.
// Errors: as YamlToJson.
Result<std::string> WithoutSecrets(std::string_view config);

// Whether the name of a field or a flag says that its value is secret, as above.
bool IsSecretName(std::string_view name);

// In place of a value that is left out.
inline constexpr char kRemoved[] = "removed by alignctl gather";

}  // namespace alignd::cli
