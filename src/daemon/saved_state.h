// What alignd's files hold at its start.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "allocation/bad_state.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "daemon/options.h"
#include "daemon/start_problem.h"
#include "host/durable_file.h"
#include "mirror/binding_table.h"
#include "reconcile/bypass.h"

namespace alignd::daemon {

struct SavedState {
  std::unique_ptr<allocation::CheckpointStore> store;
  admission::NodeState state;
  std::unique_ptr<mirror::BindingTable> bindings;
  std::unique_ptr<allocation::BootRecord> boot;
  std::unique_ptr<reconcile::Bypass> bypass;
  std::optional<Error> unsaved;  // why the state files cannot be written now
};

// Reads and verifies all files of the state directory and of the device plugins' directory, writes
// those that are missing, and finds out whether the state files can be written. A file that cannot
// be used is set aside, or is a problem:
// --on-bad-state; with the feature gate PodLevelResourceManagers it is always a problem. nullopt:
// `problems` has one for each file that ends the start. `findings` says in both cases which files
// were set aside: that is to be logged at once.
// `calls` outlives the result. The caller has locked the state directory, unless `calls` writes
// nothing.
std::optional<SavedState> LoadState(const Options& options, const admission::Node& node,
                                    std::vector<StartProblem>& problems,
                                    allocation::StateFindings& findings,
                                    host::FileCalls& calls = host::FileCalls::System());

// Logs each file that was set aside, with its name now: a crash must not hide it.
void LogSetAside(const allocation::StateFindings& findings);

}  // namespace alignd::daemon
