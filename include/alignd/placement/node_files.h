// The state files of a node that is planned with.
#pragma once

#include <string>

#include "alignd/base/result.h"

namespace alignd::placement {

// The files of a node that has pods already; empty: no such file. A value.
struct NodeFiles {
  std::string cpu_manager_state;
  std::string memory_manager_state;
  std::string device_checkpoint;  // kubelet_internal_checkpoint

  friend bool operator==(const NodeFiles&, const NodeFiles&) = default;
};

// Whether cpu_manager_state and memory_manager_state can be read.
// Errors: as the parsers of the checkpoints, with the name of the file.
Result<Done> CheckStateFiles(const NodeFiles& files);

}  // namespace alignd::placement
