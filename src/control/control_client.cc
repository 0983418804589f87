#include "control/control_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/control/v1/control.grpc.pb.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"

namespace alignd::control {
namespace {

// `call`: the method of the stub.
template <typename Request, typename Response>
Result<Response> Ask(const std::string& endpoint, std::chrono::milliseconds timeout,
                     grpc::Status (v1::Control::Stub::*call)(grpc::ClientContext*, const Request&,
                                                             Response*),
                     const Request& request) {
  const Result<std::shared_ptr<grpc::Channel>> channel = rpc::Dial(endpoint);
  if (!channel.ok()) return channel.error();
  const std::unique_ptr<v1::Control::Stub> stub = v1::Control::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  Response response;
  const grpc::Status status = (stub.get()->*call)(&context, request, &response);
  if (status.ok()) return response;
  Error error = rpc::ToError(status, "alignd at " + endpoint);
  error.remedy = error.code == ErrorCode::kUnavailable
                     ? "check that alignd runs and that you have access to its socket (--socket)"
                     : "see alignd's log, and check that --socket is alignd's control socket";
  return error;
}

}  // namespace

Result<v1::GetStatusResponse> ControlClient::GetStatus() const {
  auto response = Ask<v1::GetStatusRequest, v1::GetStatusResponse>(
      endpoint_, timeout_, &v1::Control::Stub::GetStatus, {});
  if (!response.ok()) return response.error();
  for (const v1::NumaNode& node : response->numa()) {
    const Result<CpuSet> free = CpuSet::Parse(node.free_cpus());
    if (!free.ok()) {
      return Error{ErrorCode::kCorrupt, free.error().message,
                   "use the alignctl of the same version as alignd"};
    }
  }
  return response;
}

Result<v1::ExplainResponse> ControlClient::Explain(const std::string& pod, uint32_t limit) const {
  v1::ExplainRequest request;
  request.set_pod(pod);
  request.set_limit(limit);
  return Ask<v1::ExplainRequest, v1::ExplainResponse>(endpoint_, timeout_,
                                                      &v1::Control::Stub::Explain, request);
}

}  // namespace alignd::control
