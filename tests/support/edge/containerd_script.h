// A private containerd of this machine.
#pragma once

#include <array>
#include <cstdio>
#include <string>

#include "alignd/base/result.h"

namespace alignd::testing {

// Runs scripts/lib/containerd.sh ACTION DIRECTORY; returns what it prints. `source`: the project's
// directory. Errors: kInternal if it fails, with what it has printed.
inline Result<std::string> RunContainerdScript(const std::string& source, const std::string& action,
                                               const std::string& directory) {
  const std::string command = source + "/scripts/lib/containerd.sh " + action + " " + directory;
  std::string output;
  FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return Error{ErrorCode::kInternal, command, ""};
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) output += buffer.data();
  if (pclose(pipe) == 0) return output;
  return Error{ErrorCode::kInternal, command + ": " + output, ""};
}

}  // namespace alignd::testing
