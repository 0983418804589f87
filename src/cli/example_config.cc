#include "cli/example_config.h"

#include <alignd_example_config.h>

#include <sstream>

namespace alignd::cli {

std::string_view ExampleConfig() { return kExampleConfigText; }

std::vector<ExampleField> ExampleFields() {
  std::vector<ExampleField> fields;
  std::vector<std::string> comment;
  std::istringstream lines{std::string(ExampleConfig())};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("# ---")) {
      comment.clear();
    } else if (line.starts_with("#")) {
      comment.push_back(line.substr(line.starts_with("# ") ? 2 : 1));
    } else if (line.starts_with(" ") && !fields.empty()) {
      fields.back().standard = "{" + line.substr(line.find_first_not_of(' ')) + "}";
    } else {
      const size_t colon = line.find(':');
      const size_t value = line.find_first_not_of(' ', colon + 1);
      // One comment may be about several fields.
      if (comment.empty() && !fields.empty()) comment = fields.back().comment;
      fields.push_back({line.substr(0, colon), value == std::string::npos ? "" : line.substr(value),
                        std::move(comment)});
      comment.clear();
    }
  }
  std::erase_if(fields, [](const ExampleField& field) {
    return field.name == "apiVersion" || field.name == "kind";
  });
  return fields;
}

}  // namespace alignd::cli
