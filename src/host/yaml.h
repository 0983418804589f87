// Converts YAML to the JSON that the core reads. The only module that uses the YAML library.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::host {

// The JSON form of the one document in `text`. A text that is JSON already is returned
// unchanged, also if it is damaged: its reader knows more of what is wrong. Scalars have the types
// that Kubernetes gives them (YAML 1.1: yes, no, on and off are booleans; 0x, 0o, 0b and a leading
// 0 number bases; quoted values are strings). Merge keys (<<) are followed. A text without any
// value gives `null`. Thread-safe. Errors: kInvalidArgument, with line and column: not YAML; a key
// that occurs twice or is not a scalar; an unknown tag; .inf and .nan; more than 100 levels or
// 20,000 values, with expanded aliases. Source: sigs.k8s.io/yaml, YAMLToJSONStrict;
// go.yaml.in/yaml/v2, resolve.go. Differs: more than one document with a value is refused;
// Kubernetes ignores all but the first.
Result<std::string> YamlToJson(std::string_view text);

}  // namespace alignd::host
