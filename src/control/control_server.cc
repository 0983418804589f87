#include "control/control_server.h"

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "alignd/control/v1/control.pb.h"
#include "control/change_report.h"
#include "control/reports.h"
#include "control/unix_ms.h"
#include "control/why_not_report.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"
#include "service/unary_server.h"
#include "sync/task_queue.h"

namespace alignd::control {
namespace {

constexpr size_t kDefaultLimit = 10;

// The limit of one answer. The oldest decisions beyond it are not sent.
constexpr size_t kMaxAnswerBytes = rpc::kMaxMessageBytes / 2;

// How long changes for one pod are searched: less than alignctl waits.
constexpr std::chrono::seconds kMaxSearch{5};

// Others may have access to the socket: they may read.
grpc::Status RequireMayChange(const service::Call& call, const char* what) {
  const uid_t own = geteuid();
  if (call.user && (*call.user == 0 || *call.user == own)) return grpc::Status();
  const std::string caller =
      call.user ? "user " + std::to_string(*call.user) : "a user that is not known";
  const std::string allowed =
      own == 0 ? "root" : "root and user " + std::to_string(own) + ", as which alignd runs,";
  return {grpc::StatusCode::PERMISSION_DENIED,
          caller + " may not " + what + ": only " + allowed +
              " may; repeat the command as root, as with sudo"};
}

}  // namespace

// Its methods run on threads of their own. What takes long delays no report.
class ControlServer::Service {
 public:
  Service(ReportSources sources, const Follow& follow)
      : sources_(std::move(sources)), topology_(reports_, sources_, follow) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  // Tasks that still wait use the other members.
  ~Service() { reports_.Stop(); }

  service::Methods Methods() {
    service::Methods methods;
    Add<v1::GetStatusRequest, v1::GetStatusResponse>(
        methods, "GetStatus", reports_, [this](const auto& request, auto& response, const auto&) {
          response = ReportStatus(sources_, request.list_devices());
          return grpc::Status();
        });
    // Reads the files of claims and of their devices.
    Add<v1::ListPodsRequest, v1::ListPodsResponse>(
        methods, "ListPods", explanations_, [this](const auto&, auto& response, const auto&) {
          response = ReportPods(sources_);
          return grpc::Status();
        });
    Add<v1::ExplainRequest, v1::ExplainResponse>(
        methods, "Explain", explanations_,
        [this](const auto& request, auto& response, const auto& call) {
          return Explain(request, response, call);
        });
    Add<v1::WhyNotRequest, v1::WhyNotResponse>(
        methods, "WhyNot", explanations_,
        [this](const auto& request, auto& response, const auto& call) {
          return WhyNot(request, response, call);
        });
    Add<v1::BypassRequest, v1::BypassResponse>(
        methods, "Bypass", switches_,
        [this](const auto& request, auto& response, const auto& call) {
          return Bypass(request, response, call);
        });
    AddChanges(methods);
    Add<v1::GetConfigRequest, v1::GetConfigResponse>(
        methods, "GetConfig", reports_, [this](const auto&, auto& response, const auto&) {
          response.set_config(sources_.facts.config);
          for (const v1::Setting& setting : sources_.facts.settings) {
            *response.add_settings() = setting;
          }
          return grpc::Status();
        });
    methods.emplace(kGetTopology, service::OnQueue(reports_, topology_.Method()));
    return methods;
  }

 private:
  void AddChanges(service::Methods& methods) {
    Add<v1::ChangeRequest, v1::ChangeResponse>(
        methods, "PlanChange", explanations_,
        [this](const auto& request, auto& response, const auto&) {
          return Change(request, /*apply=*/false, response);
        });
    Add<v1::ChangeRequest, v1::ChangeResponse>(
        methods, "ApplyChange", explanations_,
        [this](const auto& request, auto& response, const auto& call) {
          const grpc::Status may = RequireMayChange(call, "change the configuration");
          return may.ok() ? Change(request, /*apply=*/true, response) : may;
        });
    Add<v1::GetChangeRequest, v1::GetChangeResponse>(
        methods, "GetChange", reports_, [this](const auto& request, auto& response, const auto&) {
          if (sources_.changer == nullptr) return NoChanges();
          response = sources_.changer->Outcome(request.change());
          return grpc::Status();
        });
  }

  template <typename Request, typename Response, typename Compute>
  static void Add(service::Methods& methods, const std::string& name, TaskQueue& queue,
                  Compute compute) {
    methods.emplace("/alignd.control.v1.Control/" + name,
                    service::OnQueue(queue, service::Computed<Request, Response>(compute)));
  }

  grpc::Status Explain(const v1::ExplainRequest& request, v1::ExplainResponse& response,
                       const service::Call& call) const {
    const size_t limit = request.limit() == 0 ? kDefaultLimit : request.limit();
    size_t bytes = 0;
    const auto add = [&response, &bytes](v1::PodDecision message) {
      bytes += message.ByteSizeLong();
      if (bytes > kMaxAnswerBytes) return false;
      *response.add_decisions() = std::move(message);
      return true;
    };
    const auto waiting = sources_.allocation.WaitingPods();
    for (const auto& decision : sources_.allocation.decisions().Newest(request.pod(), limit)) {
      if (call.IsCancelled()) return grpc::Status(grpc::StatusCode::CANCELLED, "");
      v1::PodDecision message = ReportDecision(sources_.node, *decision);
      if (waiting && decision->waits) {
        message.set_position(static_cast<uint32_t>(waiting->PositionOf(decision->pod_uid)));
      }
      if (!add(std::move(message))) return grpc::Status();
    }
    if (sources_.history == nullptr) return grpc::Status();
    for (const auto& decision : sources_.history->before()) {
      if (static_cast<size_t>(response.decisions_size()) >= limit) break;
      if (!allocation::NamesPod(request.pod(), decision->pod_uid(), decision->pod_namespace(),
                                decision->pod_name())) {
        continue;
      }
      if (!add(*decision)) break;
    }
    return grpc::Status();
  }

  grpc::Status WhyNot(const v1::WhyNotRequest& request, v1::WhyNotResponse& response,
                      const service::Call& call) const {
    const auto may_go_on = [&call, until = std::chrono::steady_clock::now() + kMaxSearch] {
      return !call.IsCancelled() && std::chrono::steady_clock::now() < until;
    };
    Result<v1::WhyNotResponse> report = ReportWhyNot(sources_, request, may_go_on);
    if (!report.ok()) return rpc::ToStatus(report.error());
    response = *std::move(report);
    return grpc::Status();
  }

  grpc::Status Bypass(const v1::BypassRequest& request, v1::BypassResponse& response,
                      const service::Call& call) const {
    if (request.action() != v1::BypassRequest::STATUS) {
      const grpc::Status may = RequireMayChange(call, "turn the bypass on or off");
      if (!may.ok()) return may;
    }
    reconcile::Bypass* const bypass = sources_.bypass;
    if (bypass == nullptr) return {grpc::StatusCode::UNIMPLEMENTED, "there is no bypass"};
    Result<Done> switched = Done{};
    if (request.action() == v1::BypassRequest::ON) switched = bypass->TurnOn();
    if (request.action() == v1::BypassRequest::OFF) switched = bypass->TurnOff();
    // Not UNAVAILABLE: alignctl takes that for an alignd that does not answer.
    if (!switched.ok()) {
      return {grpc::StatusCode::ABORTED, rpc::ToStatus(switched.error()).error_message()};
    }
    const auto since = bypass->since();
    response.set_on(since.has_value());
    response.set_mirrors_devices(sources_.mirrors_devices);
    response.set_ends_at_restart(bypass->EndsAtRestart());
    if (since) response.set_since_unix_ms(UnixMs(*since));
    return grpc::Status();
  }

  static grpc::Status NoChanges() {
    return {grpc::StatusCode::UNIMPLEMENTED, "the configuration cannot be changed"};
  }

  // Not UNAVAILABLE: alignctl takes that for an alignd that does not answer.
  static grpc::Status Answered(const Error& error) {
    grpc::Status status = rpc::ToStatus(error);
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
    return {grpc::StatusCode::ABORTED, status.error_message()};
  }

  grpc::Status Change(const v1::ChangeRequest& request, bool apply,
                      v1::ChangeResponse& response) const {
    if (sources_.changer == nullptr) return NoChanges();
    v1::ChangeRequest wanted = request;
    if (apply) wanted.set_may_move(sources_.changer->MayMove(request));
    Result<v1::ChangeResponse> report = ReportChange(sources_, wanted);
    const bool is_reload = apply && request.config().empty();
    // What can be decided only later says nothing of the file.
    const auto refuse = [&](const Error& error) {
      if (is_reload && error.code != ErrorCode::kUnavailable) sources_.changer->Refused(error);
    };
    if (!report.ok()) refuse(report.error());
    if (!report.ok()) return Answered(report.error());
    response = *std::move(report);
    if (!response.admitted()) {
      refuse({ErrorCode::kInvalidArgument, WhyRefused(response), kSeePlan});
    }
    if (!apply || !response.admitted()) return grpc::Status();
    const Result<uint64_t> change = sources_.changer->Apply(wanted);
    if (!change.ok()) {
      refuse(change.error());
      return Answered(change.error());
    }
    response.set_change(*change);
    return grpc::Status();
  }

  const ReportSources sources_;
  TaskQueue reports_{"control", TaskQueue::kLinger};
  TaskQueue explanations_{"explain", TaskQueue::kLinger};
  // An emergency switch waits for no explanation, and never lacks a thread.
  TaskQueue switches_{"bypass"};
  TopologyService topology_;
};

Result<std::unique_ptr<ControlServer>> ControlServer::Start(std::shared_ptr<host::EventLoop> loop,
                                                            const std::string& endpoint,
                                                            ReportSources sources,
                                                            const Follow& follow) {
  auto service = std::make_unique<Service>(std::move(sources), follow);
  auto server = service::UnaryServer::Start(std::move(loop), endpoint, service->Methods());
  if (!server.ok()) return server.error();
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(service), *std::move(server)));
}

ControlServer::ControlServer(std::unique_ptr<Service> service,
                             std::unique_ptr<service::UnaryServer> server)
    : service_(std::move(service)), server_(std::move(server)) {}

ControlServer::~ControlServer() = default;

}  // namespace alignd::control
