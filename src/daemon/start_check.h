// `alignd --check` and `alignctl config check`: what a start would do, without starting.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/control/v1/control.pb.h"
#include "daemon/options.h"
#include "daemon/start_problem.h"

namespace alignd::daemon {

// A flag, and the socket or directory that it names.
struct StartPath {
  std::string flag;
  std::string path;
};

// Whether what is saved can be carried over.
enum class SavedStateCheck {
  kNotChecked,  // there is no node to compare it with, or no directory to look at
  kUsable,
  kUnusable,
};

// What a start would find. A value.
struct StartCheck {
  std::filesystem::path config;                // empty: none is given
  std::vector<control::v1::Setting> settings;  // with their sources, as `alignctl config show`
  std::optional<admission::Node> node;         // nullopt: there are problems
  std::vector<StartPath> sockets;
  std::filesystem::path state_dir;
  SavedStateCheck saved = SavedStateCheck::kNotChecked;
  std::optional<admission::NodeState> state;  // with kUsable: what is carried over
  std::string state_owner;  // the process id in its lock, if that process runs; else empty
  std::vector<StartProblem> problems;
  std::vector<StartProblem> warnings;

  // 0: it would start; 1: it would not; 2: it would, with warnings.
  int ExitStatus() const;
};

// What is to be checked.
struct CheckScope {
  bool paths = true;  // sockets, directories and cgroups
  bool state = true;
};

// Does what Daemon::Start does before it serves, without effects: it makes, changes and locks no
// file and opens no socket, so that it can run beside the alignd of the same state directory. While
// that alignd saves, the files can differ by the change that is being saved. Unlike the start it
// goes on after a problem, as far as what follows does not depend on it. Whether another process
// uses a socket is not checked. Replaces spdlog's default logger while it runs.
StartCheck CheckStart(const Options& options, CheckScope scope = {});

// For people. `wide`: with all settings, not only those that are given.
void PrintStartCheck(const StartCheck& check, bool wide, std::ostream& out);

// For programs.
std::string StartCheckJson(const StartCheck& check);

}  // namespace alignd::daemon
