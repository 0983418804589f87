#include "deviceplugin/plugin_offer.h"

#include <optional>
#include <utility>

namespace alignd::deviceplugin {
namespace {

Error CallError(const std::string& what, const std::string& socket, const grpc::Status& status) {
  return {ErrorCode::kUnavailable,
          "RegisterPlugin error -- " + what + " at socket " + socket +
              ", err: " + status.error_message(),
          "check the plugin's pod and its log; if no plugin serves this socket, delete it"};
}

}  // namespace

PluginOffer::PluginOffer(std::string socket, PluginRegistry& registry, OfferDeadlines deadlines,
                         Executor run, OnEnd on_end)
    : socket_(std::move(socket)),
      registry_(registry),
      deadlines_(deadlines),
      run_(std::move(run)),
      on_end_(std::move(on_end)) {}

void PluginOffer::Start() {
  run_([self = shared_from_this()] { self->AskInfo(); });
}

void PluginOffer::Cancel() {
  cancelled_ = true;
  if (calling_ != nullptr) calling_->Cancel();
}

template <typename Response>
void PluginOffer::Call(const std::string& method, const google::protobuf::Message& request,
                       std::chrono::milliseconds deadline,
                       std::function<void(const grpc::Status&, const Response&)> next) {
  auto state = std::make_shared<service::UnaryCall<Response>>(service::ClientCall::Options{
      .timeout = deadline, .waits_for_peer = true, .max_message_bytes = kMaxListBytes});
  calling_ = std::shared_ptr<service::ClientCall>(state, &state->call);
  service::UnaryCall<Response>& parts = *state;
  client_->StartUnary(parts.call, "/pluginregistration.Registration/" + method, request,
                      parts.response,
                      [self = shared_from_this(), state = std::move(state),
                       next = std::move(next)](const grpc::Status& status) {
                        self->run_([self, state, next, status] {
                          self->calling_.reset();
                          next(status, state->response);
                        });
                      });
}

void PluginOffer::AskInfo() {
  if (cancelled_) return;
  Result<std::shared_ptr<service::Client>> client =
      service::Client::Dial(socket_, service::CallThread::kPlugins);
  if (!client.ok()) return End(client.error());
  client_ = *std::move(client);
  Call<pluginregistration::PluginInfo>(
      "GetInfo", pluginregistration::InfoRequest(), deadlines_.info,
      [this](const grpc::Status& status, const pluginregistration::PluginInfo& info) {
        OnInfo(status, info);
      });
}

void PluginOffer::OnInfo(const grpc::Status& status, const pluginregistration::PluginInfo& info) {
  if (cancelled_) return;
  if (!status.ok()) {
    return End(CallError("failed to get plugin info using RPC GetInfo", socket_, status));
  }
  has_answered_ = true;
  const Result<Offer> offer = CheckPluginInfo(info, socket_);
  if (!offer.ok()) return Notify(offer.error());
  registration_ =
      registry_.Register(offer->resource, offer->endpoint,
                         [self = shared_from_this(), offer = *offer](const Result<Done>& result) {
                           self->run_([self, offer, result] { self->OnRegistered(offer, result); });
                         });
}

void PluginOffer::OnRegistered(const Offer& offer, const Result<Done>& result) {
  if (!result.ok()) {
    if (cancelled_) return;
    return Notify(result.error().In("RegisterPlugin error -- plugin registration failed with err"));
  }
  if (cancelled_) return registry_.Deregister(offer.resource, registration_);
  Notify(Registered{offer.resource, registration_});
}

void PluginOffer::Notify(Result<Registered> outcome) {
  pluginregistration::RegistrationStatus status;
  status.set_plugin_registered(outcome.ok());
  if (!outcome.ok()) status.set_error(outcome.error().message);
  Call<pluginregistration::RegistrationStatusResponse>(
      "NotifyRegistrationStatus", status, deadlines_.notify,
      [this, outcome = std::move(outcome)](
          const grpc::Status& notified,
          const pluginregistration::RegistrationStatusResponse& /*nothing*/) {
        OnNotified(outcome, notified);
      });
}

void PluginOffer::OnNotified(Result<Registered> outcome, const grpc::Status& status) {
  if (outcome.ok() && (cancelled_ || !status.ok())) {
    registry_.Deregister(outcome->resource, outcome->registration);
    outcome = CallError("failed to send registration status", socket_, status);
  }
  End(std::move(outcome));
}

void PluginOffer::End(Result<Registered> outcome) {
  if (!cancelled_) on_end_(std::move(outcome));
}

}  // namespace alignd::deviceplugin
