// The control service over a real socket, with a real allocation manager behind it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "alignd/control/v1/control.pb.h"
#include "cli/commands.h"
#include "control/control_client.h"
#include "control/control_server.h"
#include "edge/allocation_node.h"
#include "edge/loop_thread.h"
#include "edge/run_alignctl.h"
#include "reconcile/conditions.h"
#include "sync/mutex.h"

namespace alignd::control {

class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    world.Up();
    world.AnnounceDevices();
    Serve();
  }

  void Serve() {
    auto started = ControlServer::Start(services_.loop(), socket(),
                                        {.facts = {.version = "1.2.3", .node = "worker"},
                                         .node = world.node,
                                         .allocation = *world.manager,
                                         .conditions = conditions_,
                                         .names = [this] { return Names(); }});
    if (!started.ok()) ADD_FAILURE() << started.error().Text();
    if (started.ok()) server = *std::move(started);
  }

  std::string socket() const { return (world.tree.root() / "control.sock").string(); }

  v1::GetStatusResponse Status() const {
    const Result<v1::GetStatusResponse> status = ControlClient(socket()).GetStatus();
    if (!status.ok()) ADD_FAILURE() << status.error().Text();
    return status.ok() ? *status : v1::GetStatusResponse();
  }

  std::vector<v1::PodDecision> Explain(const std::string& pod, uint32_t limit = 0) const {
    const auto explained = ControlClient(socket()).Explain(pod, limit);
    if (!explained.ok()) ADD_FAILURE() << explained.error().Text();
    if (!explained.ok()) return {};
    return {explained->decisions().begin(), explained->decisions().end()};
  }

  // Blocks while `names_block_` is set.
  PodNames Names() {
    const MutexLock lock(mutex_);
    ++names_waiting_;
    changed_.NotifyAll();
    while (names_block_) changed_.Wait(mutex_);
    return {{"known-to-runtime", "default/name-of-runtime"}};
  }

  testing::AllocationNode world;
  reconcile::Conditions conditions_;
  Mutex mutex_;
  CondVar changed_;
  bool names_block_ GUARDED_BY(mutex_) = false;
  int names_waiting_ GUARDED_BY(mutex_) = 0;
  const testing::LoopThread services_;
  std::unique_ptr<ControlServer> server;
};

inline testing::Printed Alignctl(const std::vector<std::string>& arguments) {
  return testing::RunAlignctl(cli::AllCommands(), arguments);
}

}  // namespace alignd::control
