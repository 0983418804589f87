#include "daemon/handover.h"

#include <fcntl.h>

#include <memory>
#include <utility>

#include "daemon/daemon.h"
#include "daemon/inherited_socket.h"
#include "daemon/managed_node.h"
#include "daemon/reload.h"

namespace alignd::daemon {

Handover Handover::Spare() const {
  return {.lock = std::nullopt,
          .cri_socket = host::Descriptor(
              cri_socket.fd() < 0 ? -1 : fcntl(cri_socket.fd(), F_DUPFD_CLOEXEC, 0)),
          .own_socket = own_socket,
          .node = node,
          .waiting = waiting,
          .cdi_names = cdi_names,
          .lifted_quotas = lifted_quotas};
}

Result<Done> TakeStateDirectory(const Options& options, Handover& handover) {
  if (handover.lock) return Done{};
  const Result<Done> directory = host::MakeDirectory(options.state_dir);
  if (!directory.ok()) return directory;
  Result<host::DirectoryLock> lock = host::LockDirectory(options.state_dir);
  if (!lock.ok()) return lock.error();
  handover.lock = *std::move(lock);
  return Done{};
}

Result<std::unique_ptr<Daemon>> Daemon::Start(const Options& options,
                                              control::ConfigChanger* changer) {
  Result<std::optional<host::Descriptor>> inherited = TakeInheritedSocket(options.listen);
  if (!inherited.ok()) return inherited.error();
  Handover handover;
  if (*inherited) handover.cri_socket = **std::move(inherited);
  const Result<Done> sockets = RequireOwnSockets(options);
  if (!sockets.ok()) return sockets.error();
  std::optional<std::string> config_before;  // of a change that has not ended
  if (HasUnfinishedChange(options)) {
    const Result<Done> taken = TakeStateDirectory(options, handover);
    if (!taken.ok()) return taken.error();
    Result<std::optional<std::string>> restored = RestoreUnfinishedChange(options);
    if (!restored.ok()) return restored.error();
    config_before = *std::move(restored);
  }
  Result<ConfiguredNode> read = ReadNode(options);
  if (!read.ok()) return read.error();
  handover.config.text = std::move(read->config_text);
  if (config_before) {
    Result<bool> goes_back = GoBackToMoves(options, *config_before, read->node);
    if (!goes_back.ok()) return goes_back.error();
    if (*goes_back) {
      handover.config = {*std::move(config_before), /*is_former=*/true};
    } else if (const Result<Done> repeated = RepeatChange(options, *config_before, read->node);
               !repeated.ok()) {
      return repeated.error();
    }
  }
  handover.node = std::move(read->node);
  return Start(options, changer, std::move(handover));
}

}  // namespace alignd::daemon
