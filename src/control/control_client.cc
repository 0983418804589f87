#include "control/control_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <utility>

#include "alignd/control/v1/control.grpc.pb.h"
#include "control/wire.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"

namespace alignd::control {
namespace {

// `call`: the stub's method with that request and answer.
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
  if (error.code == ErrorCode::kUnavailable) {
    error.remedy = "see whether alignd runs, and whether you may use its socket (--socket)";
  }
  return error;
}

}  // namespace

Result<StatusReport> ControlClient::GetStatus() const {
  const auto response = Ask<v1::GetStatusRequest, v1::GetStatusResponse>(
      endpoint_, timeout_, &v1::Control::Stub::GetStatus, {});
  if (!response.ok()) return response.error();
  return FromWire(*response);
}

Result<std::vector<DecisionReport>> ControlClient::Explain(const std::string& pod,
                                                           uint32_t limit) const {
  v1::ExplainRequest request;
  request.set_pod(pod);
  request.set_limit(limit);
  const auto response = Ask<v1::ExplainRequest, v1::ExplainResponse>(
      endpoint_, timeout_, &v1::Control::Stub::Explain, request);
  if (!response.ok()) return response.error();
  std::vector<DecisionReport> decisions;
  for (const v1::PodDecision& message : response->decisions()) {
    Result<DecisionReport> decision = FromWire(message);
    if (!decision.ok()) return decision.error();
    decisions.push_back(*std::move(decision));
  }
  return decisions;
}

}  // namespace alignd::control
