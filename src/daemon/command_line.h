// What the command lines of alignd's programs have in common.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace alignd::daemon {

// "alignd 0.1.0 (commit 1f2e3d4c5b6a)".
std::string VersionOf(const std::string& program);

// --version, and errors that name the word that is wrong. The name of `app` is that of the program.
void SetUpProgram(CLI::App& app);

// What is wrong with the words, in one line: "unknown option: --lisen; did you mean --listen?".
std::string DescribeWrongWords(const CLI::App& program, const CLI::Error& error);

// Examples below the help, one a line. Further lines of `more` come after them.
void AddExamples(CLI::App& command, const std::vector<std::string>& examples,
                 const std::string& more = "");

}  // namespace alignd::daemon
