// alignctl: its streams, and whether they show colours.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "cli/commands.h"
#include "cli/output.h"

namespace {

// As https://no-color.org asks for.
bool MayUseColours() {
  const char* const refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  const bool is_dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return !is_dumb && isatty(STDOUT_FILENO) == 1;
}

}  // namespace

int main(int argc, char** argv) {
  alignd::cli::SetColours(std::cout, MayUseColours());
  return alignd::cli::RunProgram(argc, argv, alignd::cli::AllCommands(), std::cout, std::cerr);
}
