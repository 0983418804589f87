// A small working container runtime in memory, on a unix socket, that takes the place of containerd
// in tests and demonstrations.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "simulator/runtime_model.h"

namespace alignd::simulator {

// Speaks `runtime.v1` and `runtime.v1alpha2`, RuntimeService and ImageService: pods, containers,
// images, and the stream of container events. Other methods are UNIMPLEMENTED, with
// containerd's message. Thread-safe.
class EmbeddedRuntime {
 public:
  // A request as received, also of unimplemented methods.
  struct Request {
    std::string method;  // the whole path, "/runtime.v1.RuntimeService/CreateContainer"
    std::string bytes;
  };

  // Called after each change of a container, in the order of the changes, before the client has the
  // answer. Must not block, nor call this object.
  using Observer = std::function<void(const RuntimeModel::Event&)>;

  // Listens on `endpoint` (see simulator/grpc_socket.h).
  // Errors: as simulator::Listen.
  static Result<std::unique_ptr<EmbeddedRuntime>> Start(const std::string& endpoint,
                                                        Observer observer = {});

  virtual ~EmbeddedRuntime() = default;  // stops: calls under way are cancelled

  // All requests since the start, or those of one method ("CreateContainer").
  virtual std::vector<Request> Requests() const = 0;
  virtual std::vector<Request> Requests(const std::string& method) const = 0;

  // The current containers, by ascending id; ids ascend in the order of creation.
  virtual std::vector<SimulatedSandbox> Sandboxes() const = 0;
  virtual std::vector<SimulatedContainer> Containers() const = 0;
  virtual std::optional<SimulatedContainer> FindContainer(const std::string& id) const = 0;

  // The container's process ends by itself. False if it does not run.
  virtual bool EndContainer(const std::string& id, int32_t exit_code) = 0;
  // The sandbox's own process ends by itself; its containers run on. False if it is not ready.
  virtual bool EndSandbox(const std::string& id) = 0;

  // Lets every call of `method` ("CreateContainer") fail from now on, without effect, or work again
  // if `status` is OK. With `containing`: only those whose request has that text in it, such as a
  // container's id.
  virtual void SetFailure(const std::string& method, grpc::Status status,
                          const std::string& containing = "") = 0;

  // Lets every call of `method` take at least this long from now on; it takes effect after that
  // time, unless the caller has cancelled. `containing` as above.
  virtual void SetDelay(const std::string& method, std::chrono::milliseconds delay,
                        const std::string& containing = "") = 0;
  // Lets the delayed calls that are under way go on at once.
  virtual void EndDelays() = 0;
};

}  // namespace alignd::simulator
