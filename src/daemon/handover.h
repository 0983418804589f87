// What one Daemon of the process leaves to the next one.
#pragma once

#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/wait_queue.h"
#include "daemon/options.h"
#include "host/descriptor.h"
#include "host/durable_file.h"
#include "reconcile/cdi_names.h"
#include "reconcile/pod_cpu_guard.h"

namespace alignd::daemon {

// The configuration with which the first Daemon of a process has started.
struct StartConfig {
  std::string text;  // of the file, as it was read for the start; empty: there is none
  // Whether it is not that of the file, but the one from before a change that did not end, and that
  // was allowed to move containers.
  bool is_former = false;
};

// What a Daemon leaves to the next one of this process: no other alignd takes the state directory,
// and connections that arrive in between wait.
struct Handover {
  std::optional<host::DirectoryLock> lock;
  host::Descriptor cri_socket;          // listens
  std::string own_socket;               // its path, if alignd has made it; empty: it is systemd's
  std::optional<admission::Node> node;  // of the next one
  StartConfig config = {};              // of the first one
  // The pods that wait keep their order.
  std::optional<allocation::WaitQueue> waiting = {};
  // CRI-O does not show those of containers that run.
  reconcile::CdiNames::Known cdi_names = {};
  // The pods' cgroups do not show them any more.
  reconcile::LiftedQuotas lifted_quotas = {};

  // The same without the lock, for a second attempt.
  Handover Spare() const;
};

// Makes and locks the state directory, unless the lock is in `handover`. Errors: as LockDirectory.
Result<Done> TakeStateDirectory(const Options& options, Handover& handover);

}  // namespace alignd::daemon
