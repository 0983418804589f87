// What earlier processes have saved, as the start of alignd reads it.
#pragma once

#include <memory>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "allocation/bad_state.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "daemon/options.h"
#include "mirror/binding_table.h"

namespace alignd::daemon {

struct SavedState {
  std::unique_ptr<allocation::CheckpointStore> store;
  admission::NodeState state;
  std::unique_ptr<mirror::BindingTable> bindings;
  std::unique_ptr<allocation::BootRecord> boot;
  allocation::StateFindings findings;
};

// Reads all files. One that cannot be used is set aside, or ends the start: --on-bad-state.
// Errors: kCorrupt or kInvalidArgument, naming the file and the remedy; kIo.
Result<SavedState> LoadSavedState(const Options& options, const admission::Node& node);

}  // namespace alignd::daemon
