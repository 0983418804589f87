// Builds everything in order, starts it, stops it in reverse. Wiring, and nothing but wiring.
#pragma once

#include <memory>

#include "alignd/base/result.h"
#include "daemon/options.h"

namespace alignd::daemon {

// One running alignd. Start and destroy it on the same thread.
class Daemon {
 public:
  // Locks the state directory, loads and verifies the state, asks the runtime what runs, releases
  // what is gone, serves the device plugins and, last, the CRI socket (systemd's, if it holds one).
  // A runtime that is away does not hold up the start: containers are refused with UNAVAILABLE.
  // Errors: the first thing that could not be done, with its cure.
  static Result<std::unique_ptr<Daemon>> Start(const Options& options);

  virtual ~Daemon() = default;  // stops
};

}  // namespace alignd::daemon
