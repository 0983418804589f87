// The kubelet's pod resources service with the real assignments of containers, for monitoring and
// network plugins. The kubelet's own socket would show the ids that the kubelet allocated.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "dra/container_claims.h"
#include "host/event_loop.h"
#include "reconcile/container_registry.h"

namespace alignd::service {
class UnaryServer;
}  // namespace alignd::service

namespace alignd::podresources {

// Serves `v1.PodResourcesLister` and `v1alpha1.PodResourcesLister` on a unix socket. Every answer
// comes at once, from the newest snapshot, the registry and the kubelet's file of prepared claims:
// it waits for neither a decision nor the runtime. If that file cannot be read, claims are missing
// in the answer, and the log says why. Pods are listed once alignd knows their sandbox. After a
// restart of alignd that is after its first listing of the runtime. All calls share one limit: 100
// per second, 10 at once; further calls get RESOURCE_EXHAUSTED, as in the kubelet. Thread-safe.
class PodResourcesServer {
 public:
  using ReadClaims = std::function<Result<dra::ContainerClaims>()>;

  // `loop` as in service::UnaryServer. `claims` may block. All references outlive the server.
  // Errors: as rpc::OpenListening.
  static Result<std::unique_ptr<PodResourcesServer>> Start(
      std::shared_ptr<host::EventLoop> loop, const std::string& endpoint,
      const admission::Node& node, const allocation::AllocationManager& allocation,
      const reconcile::ContainerRegistry& registry, ReadClaims claims);

  PodResourcesServer(const PodResourcesServer&) = delete;
  PodResourcesServer& operator=(const PodResourcesServer&) = delete;
  // Cancels calls that are still under way.
  ~PodResourcesServer();

 private:
  class Services;

  PodResourcesServer(std::unique_ptr<Services> services,
                     std::unique_ptr<service::UnaryServer> server);

  const std::unique_ptr<Services> services_;
  const std::unique_ptr<service::UnaryServer> server_;
};

}  // namespace alignd::podresources
