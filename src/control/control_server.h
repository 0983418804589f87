// Serves status, pods and explanations to `alignctl` on a Unix socket.
#pragma once

#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "control/reports.h"
#include "control/topology_service.h"
#include "host/event_loop.h"

namespace alignd::service {
class UnaryServer;
}  // namespace alignd::service

namespace alignd::control {

// Thread-safe. Answers from published snapshots and the decision log, on threads of its own. Does
// not wait for a decision, and delays no other server or client of the process.
class ControlServer {
 public:
  // Listens on `endpoint`; `loop` as in service::UnaryServer. The references in `sources` outlive
  // the server. `follow`: how changes of the assignments are seen; empty: only by looking now and
  // then. Errors: as rpc::OpenListening.
  static Result<std::unique_ptr<ControlServer>> Start(std::shared_ptr<host::EventLoop> loop,
                                                      const std::string& endpoint,
                                                      ReportSources sources,
                                                      const Follow& follow = {});

  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;
  // Stops, and cancels the calls that are not answered yet.
  ~ControlServer();

 private:
  class Service;

  ControlServer(std::unique_ptr<Service> service, std::unique_ptr<service::UnaryServer> server);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<service::UnaryServer> server_;
};

}  // namespace alignd::control
