// Constructs alignd's parts in order, starts them, and stops them in reverse order.
// docs/architecture.md names the threads, what each owns, and what it may wait for.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "control/reports.h"
#include "daemon/handover.h"
#include "daemon/options.h"
#include "daemon/watchdog.h"

namespace alignd::daemon {

// One running alignd. Start and destroy it on the same thread.
class Daemon {
 public:
  // Locks the state directory, loads and verifies the state, serves the device plugins and, last,
  // the CRI socket (systemd's, if systemd passed one). The runtime is listed meanwhile, and removed
  // pods are released; until then, new pods and containers wait. A runtime that is not available,
  // or hangs, does not delay the start: containers are refused with UNAVAILABLE.
  // Errors: the first step that failed, with its remedy.
  // `changer`, if given, outlives the daemon.
  static Result<std::unique_ptr<Daemon>> Start(const Options& options,
                                               control::ConfigChanger* changer = nullptr);
  // Goes on after another daemon, with `handover.node`.
  static Result<std::unique_ptr<Daemon>> Start(const Options& options,
                                               control::ConfigChanger* changer, Handover handover);

  virtual ~Daemon() = default;  // stops

  // The UIDs of all pods that are assigned something or were decided about.
  virtual std::set<std::string> KnownPods() = 0;

  virtual const admission::Node& node() const = 0;
  // The newest published state.
  virtual admission::NodeState State() const = 0;
  virtual control::PodNames PodNames() const = 0;

  // Whether the runtime has been listed since the start, and its containers have been adopted.
  // Until then, the state may lack what running containers have.
  virtual bool HasAdopted() const = 0;
  // `done` runs once that is so; on any thread, perhaps at once. Not if the daemon ends before,
  // or the next listing fails: then look at HasAdopted.
  virtual void WhenAdopted(std::function<void()> done) = 0;

  // Sets or clears ConfigurationNotApplied, as ConfigChanger::NotApplied says. The reconciler does
  // so too, some seconds later.
  virtual void CheckConfigFile() = 0;

  // With which it has started; only of the first one of a process.
  virtual const StartConfig& StartedWith() const = 0;

  // As ContainerMover; an error if the daemon ends before. One call at a time.
  virtual std::future<Result<Done>> Move(const std::vector<admission::CpuMove>& moves) = 0;
  virtual std::future<Result<Done>> MoveBack(const std::vector<admission::CpuMove>& moves) = 0;

  // Before the destructor: the CRI socket stays open, and the state directory locked. Once.
  virtual Handover Leave() = 0;

  // The threads that must answer for systemd's watchdog: those that never block. `io` is not among
  // them: a file system that hangs may block it for longer than the watchdog's interval. Calls are
  // still relayed and decided meanwhile, and a restart would not repair the file system.
  // Use the result only while the daemon exists.
  virtual std::map<std::string, Watchdog::Post> WatchedThreads() = 0;
};

}  // namespace alignd::daemon
