// The message of a refusal, for people. The kubelet gets it in one line.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace alignd::cli {

// "requested" with what the pod requests, "free" with an entry for each NUMA node, and so on. A
// value.
struct RefusalPart {
  std::string label;  // empty: the text with which the message begins
  std::vector<std::string> entries;

  friend bool operator==(const RefusalPart&, const RefusalPart&) = default;
};

// A message without such parts is one part.
std::vector<RefusalPart> PartsOfRefusal(const std::string& message);

bool HasPart(const std::vector<RefusalPart>& parts, std::string_view label);

// A part with several entries has a line for each of them. Each line starts with `indent`.
void PrintPart(const RefusalPart& part, const std::string& indent, std::ostream& out);

// All parts. `reason`: before the first one; may be empty.
void PrintRefusal(const std::string& reason, const std::string& message, const std::string& indent,
                  std::ostream& out);

}  // namespace alignd::cli
