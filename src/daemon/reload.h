// Carries out a change of the configuration in the running process.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "daemon/config_changes.h"
#include "daemon/daemon.h"
#include "daemon/options.h"

namespace alignd::daemon {

// Replaces `daemon` by one with the new configuration, on the same listening socket: calls that
// arrive meanwhile wait, and calls under way get the time that they get at a stop. Running
// containers keep what they are assigned; those of the shared pool follow it.
//
// If the change may move containers with exclusive CPUs, and some have to, they are moved first,
// while `daemon` runs, and after an error back.
//
// Nothing has changed after an error: then a daemon with the old configuration runs. `daemon` is
// null only if that cannot start either, or if files are left as they must not stay: the process
// has to end, and its next start restores them.
// Errors: the change is refused, with all reasons, also if a container with exclusive CPUs would
// have to move and must not; kUnavailable: the running containers are not known yet, or one could
// not be moved, perhaps also not back; kIo: the files could not be written.
Result<Done> ChangeConfig(std::unique_ptr<Daemon>& daemon, const Options& options,
                          ConfigChanges& changes, const WantedChange& change);

// Whether alignd has ended in the middle of a change.
bool HasUnfinishedChange(const Options& options);
// Restores the files from before it; the record of it stays until RepeatChange. Gives the text of
// the configuration from before it; nullopt: there is no such change. The state directory is
// locked. Errors: kCorrupt, kIo.
Result<std::optional<std::string>> RestoreUnfinishedChange(const Options& options);
// After that, if the change has ended while it moved containers: makes `node` that of this
// configuration, with which alignd then starts to move them back; the record of the change stays.
// False: no containers were being moved, and nothing changes. Errors: kInvalidArgument, kCorrupt,
// kIo.
Result<bool> GoBackToMoves(const Options& options, const std::string& config,
                           admission::Node& node);
// Otherwise: changes from this configuration to that of `node`, with which alignd is to start, and
// removes the record. After an error the record is still there: each start repeats both steps, so
// that no state files of one configuration meet another one.
// Errors: as ChangeConfig.
Result<Done> RepeatChange(const Options& options, const std::string& config,
                          const admission::Node& node);

}  // namespace alignd::daemon
