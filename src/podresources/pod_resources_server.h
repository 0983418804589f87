// The kubelet's pod resources service with what containers really have: for monitoring and network
// plugins, whose socket the kubelet's own would show the ids that it counted.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "podresources/answers.h"

namespace alignd::podresources {

// The pods that the runtime has now. May block; is called by several threads at once.
using PodNames = std::function<Result<std::vector<NamedPod>>()>;

// Serves `v1.PodResourcesLister` on a unix socket. Every answer is of the newest snapshot and does
// not wait for a decision under way; a runtime that is away makes it UNAVAILABLE. Calls are counted
// together: 100 a second, 10 at once, more are RESOURCE_EXHAUSTED, as in the kubelet. Thread-safe.
class PodResourcesServer {
 public:
  // All references outlive the server. Errors: as rpc::Listen.
  static Result<std::unique_ptr<PodResourcesServer>> Start(
      const std::string& endpoint, const admission::Node& node,
      const allocation::AllocationManager& allocation, PodNames names);

  PodResourcesServer(const PodResourcesServer&) = delete;
  PodResourcesServer& operator=(const PodResourcesServer&) = delete;
  // Cancels calls that are still under way.
  ~PodResourcesServer();

 private:
  class Service;

  PodResourcesServer(std::unique_ptr<Service> service, std::unique_ptr<grpc::Server> server);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::podresources
