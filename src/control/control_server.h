// Serves status and explanations to `alignctl` on a Unix socket.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "control/reports.h"
#include "reconcile/conditions.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace alignd::control {

// Thread-safe. Answers from published snapshots and the decision log, on gRPC threads of its own.
// Does not wait for a decision, and delays no other gRPC server or client of the process.
class ControlServer {
 public:
  // Listens on `endpoint` (rpc::Listen). The references outlive the server. `names` and `reused`
  // (ReportStatus) are called on any thread. Errors: those of rpc::Listen.
  static Result<std::unique_ptr<ControlServer>> Start(
      const std::string& endpoint, std::string version, const admission::Node& node,
      const allocation::AllocationManager& allocation, const reconcile::Conditions& conditions,
      std::function<PodNames()> names, std::function<std::set<ContainerKey>()> reused = {});

  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Stops, and cancels the calls that are not answered yet.
  ~ControlServer();

 private:
  class Service;

  ControlServer(std::unique_ptr<Service> service, std::unique_ptr<grpc::Server> server);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::control
