// Writes the manual pages and completions of the programs into a directory, when they are
// built. Not installed.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "cli/commands.h"
#include "cli/reference.h"
#include "cli/reference_texts.h"
#include "daemon/options.h"
#include "events/events_options.h"
#include "extender/extender_options.h"

namespace {

using alignd::cli::CommandReference;
using alignd::cli::ManualText;

bool Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::cerr << "cannot write " << path << '\n';
  return static_cast<bool>(file);
}

bool WriteAll(const std::filesystem::path& directory, const std::vector<CommandReference>& commands,
              const ManualText& text) {
  const std::string& name = text.name;
  return Write(directory / "man" / (name + "." + std::to_string(text.section)),
               ManualPage(commands, text)) &&
         Write(directory / "bash" / name, BashCompletion(name, commands)) &&
         Write(directory / "zsh" / ("_" + name), ZshCompletion(name, commands)) &&
         Write(directory / "fish" / (name + ".fish"), FishCompletion(name, commands));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: alignd-reference DIRECTORY\n";
    return EXIT_FAILURE;
  }
  const std::filesystem::path directory = argv[1];
  alignd::cli::Action action;
  const auto alignctl = alignd::cli::MakeProgram(alignd::cli::AllCommands(), action);
  bool is_written =
      WriteAll(directory, alignd::cli::ReferenceOf(*alignctl), alignd::cli::AlignctlManual());
  is_written = Write(directory / "man/alignd-config.5",
                     alignd::cli::ConfigManual(alignd::cli::ExampleFields())) &&
               is_written;
  alignd::daemon::DescribeOptions([&](const CLI::App& alignd) {
    is_written =
        WriteAll(directory, alignd::cli::ReferenceOf(alignd), alignd::cli::AligndManual()) &&
        is_written;
  });
  alignd::events::DescribeEventsOptions([&](const CLI::App& events) {
    is_written =
        WriteAll(directory, alignd::cli::ReferenceOf(events), alignd::cli::AligndEventsManual()) &&
        is_written;
  });
  alignd::extender::DescribeExtenderOptions([&](const CLI::App& extender) {
    is_written = WriteAll(directory, alignd::cli::ReferenceOf(extender),
                          alignd::cli::AligndExtenderManual()) &&
                 is_written;
  });
  return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
}
