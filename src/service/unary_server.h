// Serves gRPC services of alignd's own on a unix socket, on the HTTP/2 connections of the proxy:
// unary methods, and methods that answer with a stream.
//
// Not by grpc::Server: it holds a caller to a number of calls at a time only once the caller has
// acknowledged that limit. A caller that never does made it take 1.2 GB for 100,000 calls.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "proxy/forwarder.h"
#include "proxy/message_stream.h"
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

  // As which user the caller has connected; nullopt: not known.
  std::optional<uid_t> user = std::nullopt;

  bool IsCancelled() const { return cancelled->load(); }
};

// Runs on the loop's thread, and must not block.
using Method = std::function<void(Call)>;

// By path: "/v1.PodResourcesLister/List".
using Methods = std::map<std::string, Method, std::less<>>;

// A method that answers each call with a stream of its own. Runs on the loop's thread, and must not
// block. The requests are not read: such methods have an empty one.
using StreamMethod = std::function<std::shared_ptr<proxy::MessageStream>()>;
using StreamMethods = std::map<std::string, StreamMethod, std::less<>>;

// The limit of calls that wait for one queue. Further calls get RESOURCE_EXHAUSTED.
inline constexpr size_t kMaxWaiting = 100;

// A method that runs on `queue`, where it may take long. The queue outlives the server. A call for
// which it has no thread gets RESOURCE_EXHAUSTED, too.
Method OnQueue(TaskQueue& queue, Method method);

// Whether the request was parsed. If not, the call has ended: with INTERNAL, as of grpc::Server, or
// with RESOURCE_EXHAUSTED if it would take more memory than rpc::kMaxParsedRequestBytes.
bool ReadRequest(const Call& call, google::protobuf::Message& request);

// A method that computes its response at once: `compute(request, response, call)`.
template <typename Request, typename Response>
Method Computed(
    std::function<grpc::Status(const Request& request, Response& response, const Call& call)>
        compute) {
  return [compute = std::move(compute)](const Call& call) {
    Request request;
    if (!ReadRequest(call, request)) return;
    Response response;
    if (const grpc::Status status = compute(request, response, call); !status.ok()) {
      return call.answer(status);
    }
    call.answer(response.SerializeAsString());
  };
}

// Requests have a few names and paths.
inline constexpr size_t kMaxRequestBytes = 64 << 10;

// Thread-safe.
class UnaryServer {
 public:
  // Listens on `endpoint` (rpc::OpenListening), a socket of mode 0660. A method that is neither in
  // `methods` nor in `streams` gets UNIMPLEMENTED; a request of more than `max_request_bytes`,
  // RESOURCE_EXHAUSTED. A connection
  // has at most 100 calls at a time, and the server at most 256 connections (proxy::Forwarder).
  // `loop` runs until the server has been destroyed. Errors: as rpc::OpenListening.
  static Result<std::unique_ptr<UnaryServer>> Start(std::shared_ptr<host::EventLoop> loop,
                                                    const std::string& endpoint, Methods methods,
                                                    StreamMethods streams = {},
                                                    size_t max_request_bytes = kMaxRequestBytes);
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
