// What `alignctl state import` and `export` would write, and what they cannot keep.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "daemon/options.h"
#include "moving/file_switch.h"

namespace alignd::moving {

// alignd on this node, while it does not run. A value.
struct AligndSide {
  daemon::Options options;  // configuration, machine, state directory, device plugin directory
  admission::Node node;
  std::string config_text;  // of the configuration file; "{}" without one

  // Errors: the first problem of configuration and machine.
  static Result<AligndSide> Make(const daemon::Options& options);
};

struct MovePlan {
  std::vector<FileChange> files;  // in the order of writing
  std::vector<std::string> kept;  // what each container keeps, one line each
  std::vector<std::string> notes;
  std::vector<Error> problems;  // each refuses the whole move
  admission::NodeState state;   // that the files say, if there are no problems
};

// For people: files, containers, notes, problems.
void PrintPlan(const MovePlan& plan, std::ostream& out);

// Errors: all problems in one, with their remedies.
Result<Done> RequireNoProblem(const MovePlan& plan, const std::string& what);

// Adds what each container has, by pod UID and name.
void AddKept(const admission::Node& node, const admission::NodeState& state, MovePlan& plan);

// Adds the change of the file, unless it has this text already. nullopt: the file is removed.
Result<Done> AddChange(const std::filesystem::path& path, std::optional<std::string> after,
                       MovePlan& plan);

// A directory of alignd's state directory for the copies of what is replaced: `before-WHAT-TIME`.
std::filesystem::path BackupDirectory(const std::filesystem::path& state_dir, const char* what);

// Writes the files of a plan without problems. The caller has locked the state directory.
Result<Done> CarryOut(const AligndSide& alignd, const MovePlan& plan,
                      const std::filesystem::path& backup,
                      host::FileCalls& calls = host::FileCalls::System());

}  // namespace alignd::moving
