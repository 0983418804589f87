// Serves the unary methods of gRPC services of alignd's own on a unix socket, on the HTTP/2
// connections of the proxy.
//
// Not by grpc::Server: it holds a caller to a number of calls at a time only once the caller has
// acknowledged that limit. A caller that never does made it take 1.2 GB for 100,000 calls.
#pragma once

#include <grpcpp/support/status.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "proxy/forwarder.h"
#include "sync/task_queue.h"

namespace alignd::service {

// A call that has arrived. A value.
struct Call {
  // The bytes of the response, or the status with which the call ends.
  using Answer = std::variant<std::string, grpc::Status>;

  std::string request;  // its bytes
  // Answers once, now or later, on any thread. Without effect once the caller has cancelled. If the
  // last copy is destroyed without a call, the caller gets UNAVAILABLE.
  std::function<void(Answer)> answer;
  std::shared_ptr<const std::atomic<bool>> cancelled;  // the answer is not wanted any more

  bool IsCancelled() const { return cancelled->load(); }
};

// Runs on the loop's thread, and must not block.
using Method = std::function<void(Call)>;

// By path: "/v1.PodResourcesLister/List".
using Methods = std::map<std::string, Method, std::less<>>;

// The limit of calls that wait for one queue. Further calls get RESOURCE_EXHAUSTED.
inline constexpr size_t kMaxWaiting = 100;

// A method that runs on `queue`, where it may take long. The queue outlives the server.
Method OnQueue(TaskQueue& queue, Method method);

// A method that computes its response at once: `compute(request, response, call)`.
// A request that is no message of its type gets INTERNAL, as of grpc::Server.
template <typename Request, typename Response>
Method Computed(
    std::function<grpc::Status(const Request& request, Response& response, const Call& call)>
        compute) {
  return [compute = std::move(compute)](const Call& call) {
    Request request;
    if (!request.ParseFromString(call.request)) {
      return call.answer(grpc::Status(grpc::StatusCode::INTERNAL, "the request cannot be parsed"));
    }
    Response response;
    if (const grpc::Status status = compute(request, response, call); !status.ok()) {
      return call.answer(status);
    }
    call.answer(response.SerializeAsString());
  };
}

// Thread-safe.
class UnaryServer {
 public:
  // Listens on `endpoint` (rpc::OpenListening), a socket of mode 0660. A method that is not in
  // `methods` gets UNIMPLEMENTED; a request of more than 64 KiB, RESOURCE_EXHAUSTED. A connection
  // has at most 100 calls at a time, and the server at most 256 connections (proxy::Forwarder).
  // `loop` runs until the server has been destroyed. Errors: as rpc::OpenListening.
  static Result<std::unique_ptr<UnaryServer>> Start(std::shared_ptr<host::EventLoop> loop,
                                                    const std::string& endpoint, Methods methods);
  UnaryServer(const UnaryServer&) = delete;
  UnaryServer& operator=(const UnaryServer&) = delete;
  // Ends the calls that are not answered, and removes the socket. No method runs on the loop's
  // thread afterwards. Not on the loop's thread.
  ~UnaryServer();

 private:
  UnaryServer(std::string path, std::unique_ptr<proxy::Forwarder> forwarder);

  const std::string path_;
  const std::unique_ptr<proxy::Forwarder> forwarder_;
};

}  // namespace alignd::service
