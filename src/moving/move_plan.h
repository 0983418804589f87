// What `alignctl state import` and `export` would write, and what they cannot keep.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "allocation/checkpoint_store.h"
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

// Loads the state files as a start of alignd does, writes nothing, and adds its warnings to the
// notes. The problems of files are returned; without any, `plan.state` is set.
std::vector<allocation::FileProblem> LoadFiles(const admission::Node& node,
                                               const allocation::StatePaths& paths, MovePlan& plan);

// The pods for which `now`, the text of a state file, has assignments that `before` has otherwise
// or not at all. A text that is no checkpoint has none. The name of the file says what it is.
std::vector<std::string> PodsAdded(const std::filesystem::path& file, const std::string& before,
                                   const std::string& now);

// Adds a problem for each file that has CPUs or memory of containers, or devices if `devices`,
// which `plan.state` has otherwise or not at all: they would be lost when the file is replaced.
// `remedy`: why such a file can be there, and what to do. Errors: as host::ReadFile.
Result<Done> AddWouldBeLost(const allocation::StatePaths& replaced, bool devices,
                            const std::string& remedy, MovePlan& plan);

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
