// The threads of a process.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "edge/process.h"

namespace alignd::testing {

// How many threads have each name.
inline std::map<std::string, int> ThreadNames(pid_t process = getpid()) {
  std::map<std::string, int> names;
  std::error_code ended;
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, ended)) {
    std::string name = ReadText(task.path() / "comm");
    if (name.empty()) continue;  // the thread has just ended
    name.pop_back();
    ++names[name];
  }
  return names;
}

}  // namespace alignd::testing
