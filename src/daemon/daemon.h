// Builds everything in order, starts it, stops it in reverse. Wiring, and nothing but wiring.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "daemon/options.h"

namespace alignd::daemon {

// One running alignd. Start and destroy it on the same thread.
class Daemon {
 public:
  // Locks the state directory, loads and verifies the state, serves the device plugins and, last,
  // the CRI socket (systemd's, if it holds one). The runtime is asked meanwhile what runs, and what
  // is gone is released; until then pods and containers that are to be made wait. A runtime that is
  // away, or hangs, does not hold up the start: containers are refused with UNAVAILABLE.
  // Errors: the first thing that could not be done, with its remedy.
  static Result<std::unique_ptr<Daemon>> Start(const Options& options);

  virtual ~Daemon() = default;  // stops

  // The UIDs of all pods of which anything is kept: for whoever watches that it does not grow.
  virtual std::set<std::string> KnownPods() = 0;
};

}  // namespace alignd::daemon
