// alignctl with some subcommands, run in the test's own process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace alignd::testing {

struct Printed {
  int status = 0;
  std::string out;
  std::string err;
};

inline Printed RunAlignctl(const std::vector<cli::Command>& commands,
                           const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"alignctl"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status =
      cli::RunProgram(static_cast<int>(argv.size()), argv.data(), commands, out, err);
  return {status, out.str(), err.str()};
}

}  // namespace alignd::testing
