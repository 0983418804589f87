#include "control/control_client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "control/topology_service.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"
#include "service/client.h"

namespace alignd::control {
namespace {

// The error of a call that has failed.
Error Explained(const grpc::Status& status, const std::string& endpoint,
                const std::string& option) {
  // Of a connection that fails, the text begins with the path, too.
  std::string text = status.error_message();
  const Result<std::string> path = rpc::SocketPath(endpoint);
  if (path.ok() && text.starts_with(*path + ": ")) text.erase(0, path->size() + 2);
  Error error = rpc::ToError({status.error_code(), text}, "alignd at " + endpoint, "alignd");
  // Of Bypass and of changes of the configuration. alignd has answered, and its text has the
  // remedy.
  if (status.error_code() == grpc::StatusCode::ABORTED ||
      status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    const bool is_denied = status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
    error.code = is_denied ? ErrorCode::kInvalidArgument : ErrorCode::kIo;
    error.message = status.error_message();
    error.remedy.clear();
    return error;
  }
  if (status.error_code() == grpc::StatusCode::NOT_FOUND ||
      status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    error.remedy.clear();  // likewise
    return error;
  }
  error.remedy =
      error.code == ErrorCode::kUnavailable
          ? "check that alignd runs and that you have access to its socket (" + option + ")"
          : "see alignd's log, and check that " + option + " is alignd's control socket";
  return error;
}

struct Peer {
  const std::string& endpoint;
  std::chrono::milliseconds timeout;
  const std::string& option;
};

// `method`: of the control service, or with its service ("/package.Service/Method").
template <typename Request, typename Response>
Result<Response> Ask(const Peer& alignd, const std::string& method, const Request& request) {
  const Result<std::shared_ptr<service::Client>> client = service::Client::Dial(alignd.endpoint);
  if (!client.ok()) return client.error();
  service::ClientCall call({.timeout = alignd.timeout});
  Response response;
  const grpc::Status status = (*client)->CallAndWait(
      call, method.starts_with('/') ? method : "/alignd.control.v1.Control/" + method, request,
      response);
  if (status.ok()) return response;
  return Explained(status, alignd.endpoint, alignd.option);
}

}  // namespace

Result<v1::GetStatusResponse> ControlClient::GetStatus(bool list_devices) const {
  v1::GetStatusRequest request;
  request.set_list_devices(list_devices);
  auto response = Ask<v1::GetStatusRequest, v1::GetStatusResponse>({endpoint_, timeout_, option_},
                                                                   "GetStatus", request);
  if (!response.ok()) return response.error();
  std::vector<std::string> lists = {response->reserved_cpus(), response->offline_cpus()};
  for (const v1::NumaNode& node : response->numa()) {
    lists.insert(lists.end(),
                 {node.free_cpus(), node.exclusive_cpus(), node.reserved_cpus(), node.all_cpus()});
  }
  for (const auto& container : response->containers()) {
    lists.push_back(container.exclusive_cpus());
    lists.push_back(container.pod_cpus());
  }
  for (const auto& pod : response->whole_pods()) lists.push_back(pod.cpus());
  for (const std::string& list : lists) {
    const Result<CpuSet> cpus = CpuSet::Parse(list);
    if (!cpus.ok()) {
      return Error{ErrorCode::kCorrupt, cpus.error().message,
                   "use the alignctl of the same version as alignd"};
    }
  }
  return response;
}

Result<v1::ExplainResponse> ControlClient::Explain(const std::string& pod, uint32_t limit) const {
  v1::ExplainRequest request;
  request.set_pod(pod);
  request.set_limit(limit);
  return Ask<v1::ExplainRequest, v1::ExplainResponse>({endpoint_, timeout_, option_}, "Explain",
                                                      request);
}

Result<v1::BypassResponse> ControlClient::Bypass(v1::BypassRequest::Action action) const {
  v1::BypassRequest request;
  request.set_action(action);
  // It can take two listings of the runtime.
  return Ask<v1::BypassRequest, v1::BypassResponse>({endpoint_, timeout_ + timeout_, option_},
                                                    "Bypass", request);
}

Result<v1::ListPodsResponse> ControlClient::ListPods() const {
  return Ask<v1::ListPodsRequest, v1::ListPodsResponse>({endpoint_, timeout_, option_}, "ListPods",
                                                        {});
}

Result<v1::GetConfigResponse> ControlClient::GetConfig() const {
  return Ask<v1::GetConfigRequest, v1::GetConfigResponse>({endpoint_, timeout_, option_},
                                                          "GetConfig", {});
}

Result<v1::GetTopologyResponse> ControlClient::GetTopology(
    const v1::GetTopologyRequest& request) const {
  const std::chrono::milliseconds wait(request.wait_ms());
  Result<v1::GetTopologyResponse> asked = Ask<v1::GetTopologyRequest, v1::GetTopologyResponse>(
      {endpoint_, timeout_ + wait, option_}, kGetTopology, request);
  if (!asked.ok()) return asked;
  const v1::GetTopologyResponse& response = *asked;
  // An alignd of before does not know the members of the request.
  if (request.koordinator_annotations() && !response.koordinator_annotations() &&
      response.left_out().empty()) {
    return Error{ErrorCode::kInvalidArgument, "this alignd makes no annotations of Koordinator",
                 "update alignd, or leave --koordinator-annotations out"};
  }
  if (request.pod_placements() && !response.pod_placements()) {
    return Error{ErrorCode::kInvalidArgument, "this alignd does not report what each pod has",
                 "update alignd, or leave --kai-numa-placement out"};
  }
  return response;
}

Result<v1::ChangeResponse> ControlClient::PlanChange(const v1::ChangeRequest& request) const {
  return Ask<v1::ChangeRequest, v1::ChangeResponse>({endpoint_, timeout_, option_}, "PlanChange",
                                                    request);
}

Result<v1::ChangeResponse> ControlClient::ApplyChange(const v1::ChangeRequest& request) const {
  return Ask<v1::ChangeRequest, v1::ChangeResponse>({endpoint_, timeout_, option_}, "ApplyChange",
                                                    request);
}

Result<v1::GetChangeResponse> ControlClient::GetChange(uint64_t change) const {
  v1::GetChangeRequest request;
  request.set_change(change);
  return Ask<v1::GetChangeRequest, v1::GetChangeResponse>({endpoint_, timeout_, option_},
                                                          "GetChange", request);
}

Result<v1::WhyNotResponse> ControlClient::WhyNot(const v1::WhyNotRequest& request) const {
  return Ask<v1::WhyNotRequest, v1::WhyNotResponse>({endpoint_, timeout_, option_}, "WhyNot",
                                                    request);
}

}  // namespace alignd::control
