// The commented example configuration, config/kubelet-config.yaml, as it was at the build.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace alignd::cli {

std::string_view ExampleConfig();

// A field of the example: with its default as it is written there, and the lines of its comment,
// without the `# `.
struct ExampleField {
  std::string name;
  std::string standard;
  std::vector<std::string> comment;
};
std::vector<ExampleField> ExampleFields();

}  // namespace alignd::cli
