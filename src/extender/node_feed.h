// Reads the nodes of files and directories, and reads them again when these change.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fleet_node.h"
#include "cli/fleet_input.h"

namespace alignd::extender {

// A thread of its own calls `use`, at once and after each change. Files that are written while they
// are read are read again: a change is waited for that is followed by `quiet` without one, `latest`
// at most. What cannot be read or watched is tried again every 5 s.
class NodeFeed {
 public:
  // What was read, and when the oldest of the files was written. Without a file: now.
  using Use = std::function<void(const Result<std::vector<placement::FleetNode>>&,
                                 std::chrono::steady_clock::time_point as_of)>;

  NodeFeed(cli::FleetSources sources, Use use,
           std::chrono::milliseconds quiet = std::chrono::milliseconds(200),
           std::chrono::milliseconds latest = std::chrono::seconds(2));
  NodeFeed(const NodeFeed&) = delete;
  NodeFeed& operator=(const NodeFeed&) = delete;
  // Ends the thread.
  ~NodeFeed();

 private:
  class State;
  const std::unique_ptr<State> state_;
};

}  // namespace alignd::extender
