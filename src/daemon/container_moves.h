// The moves of running containers that a change of the configuration needs. They are carried out
// before it, under the configuration that applies.
#pragma once

#include <future>
#include <optional>
#include <vector>

#include "alignd/admission/cpu_moves.h"
#include "alignd/base/result.h"
#include "daemon/daemon.h"
#include "daemon/options.h"

namespace alignd::daemon {

// All of these run on the main thread, which goes on to serve systemd's watchdog. If a signal that
// ends alignd waits for that thread, they leave with an error, and the records stay.

// MovesFile has been written; it stays. Afterwards, each container runs on its new CPUs,
// and is assigned the old ones, too, until the state files of the new configuration are written.
// After an error, the containers are back on their CPUs, or have not left them, and the record is
// gone. If alignd is to stop, it can be there, for the next start. If they could not be moved back
// either, the error says so, and the record is there for PendingMoves.
// Errors: as ContainerMover::Move; kIo.
Result<Done> MoveContainers(Daemon& daemon, const Options& options,
                            const std::vector<admission::CpuMove>& moves);

// Moves the containers of the record back, if there is one, and removes it; with it, the record of
// the change (ChangeUndo). Moves that have ended stay as they are.
// Errors: kUnavailable: containers could not be moved back; kCorrupt, kIo. The record stays.
Result<Done> FinishMoves(Daemon& daemon, const Options& options);

// Moves the containers of a record back beside the work of the main thread, as often as it takes.
class PendingMoves {
 public:
  // Call after the start and after each change: whether there is a record. Between these calls, the
  // disk is left alone: it may hang.
  bool Find(const Options& options);
  // Whether no container has to move back, as far as is known.
  bool empty() const { return moves_.empty(); }
  // Call from time to time. Does not wait for the containers.
  void Look(Daemon& daemon, const Options& options);
  // Call before a change of the configuration: ends the attempt that is under way.
  void Await(Daemon& daemon);

 private:
  std::vector<admission::CpuMove> moves_;
  std::optional<std::future<Result<Done>>> outcome_;
};

// The same as FinishMoves, with the moves of the record, for a daemon that has just started: waits
// until it knows the running containers, for 10 s. Errors: likewise; kUnavailable: it does not know
// them. The record stays.
Result<Done> FinishMovesOnceListed(Daemon& daemon, const Options& options,
                                   const std::vector<admission::CpuMove>& moves);

}  // namespace alignd::daemon
