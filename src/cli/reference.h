// Manual pages and completions of a program, made of the description that it parses its own command
// line with.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/example_config.h"

namespace alignd::cli {

// A flag of one command, as completions and manual pages have it.
struct FlagReference {
  std::string name;                  // "--output"
  std::string letter;                // "-o"; empty: none
  std::string what;                  // its description
  std::string value;                 // "FILE"; empty: it takes none
  std::string standard;              // the default; empty: none
  std::vector<std::string> choices;  // the values that it accepts, if these are few
};

// A command with its flags. The program itself has an empty path.
struct CommandReference {
  std::vector<std::string> path;  // {"checkpoint", "verify"}
  std::string what;
  std::string arguments;  // "FILE..."
  std::string footer;     // examples
  std::vector<FlagReference> flags;
  std::vector<std::string> below;  // names of the commands below it
};

// The program first, then its commands in order.
std::vector<CommandReference> ReferenceOf(const CLI::App& program);

// What a manual page says beside the flags.
struct ManualText {
  std::string name;  // "alignctl"
  int section = 1;
  std::string what;  // one line
  std::string exit_status;
  std::vector<std::string> files;
  std::vector<std::string> see_also;  // "alignd(8)"
};

// In the macros of man(7).
std::string ManualPage(const std::vector<CommandReference>& commands, const ManualText& text);

// The manual page of the configuration file.
std::string ConfigManual(const std::vector<ExampleField>& fields);

std::string BashCompletion(std::string_view program, const std::vector<CommandReference>& commands);
std::string ZshCompletion(std::string_view program, const std::vector<CommandReference>& commands);
std::string FishCompletion(std::string_view program, const std::vector<CommandReference>& commands);

}  // namespace alignd::cli
