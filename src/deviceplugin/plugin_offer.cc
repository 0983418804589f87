#include "deviceplugin/plugin_offer.h"

#include <grpcpp/channel.h>

#include <utility>

#include "pluginregistration/v1/pluginregistration.pb.h"
#include "rpc/client_call.h"
#include "rpc/unix_socket.h"

namespace alignd::deviceplugin {

PluginOffer::PluginOffer(std::string socket, PluginRegistry& registry, OfferDeadlines deadlines,
                         std::function<void()> on_end)
    : socket_(std::move(socket)),
      registry_(registry),
      deadlines_(deadlines),
      thread_([this, on_end = std::move(on_end)] {
        Result<Offer> outcome = Try();
        {
          const MutexLock lock(mutex_);
          outcome_ = std::move(outcome);
        }
        on_end();
      }) {}

PluginOffer::~PluginOffer() {
  GiveUp();
  if (thread_.joinable()) thread_.join();
}

Result<Offer> PluginOffer::End() {
  GiveUp();
  thread_.join();
  const MutexLock lock(mutex_);
  return *outcome_;
}

std::optional<Result<Offer>> PluginOffer::Outcome() const {
  const MutexLock lock(mutex_);
  return outcome_;
}

void PluginOffer::GiveUp() {
  {
    const MutexLock lock(mutex_);
    given_up_ = true;
    if (calling_ != nullptr) calling_->TryCancel();
  }
  const MutexLock lock(answer_->mutex);
  answer_->given_up = true;
  answer_->changed.NotifyAll();
}

grpc::Status PluginOffer::Call(std::chrono::milliseconds deadline,
                               const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  context.set_wait_for_ready(true);
  {
    const MutexLock lock(mutex_);
    if (given_up_) return grpc::Status::CANCELLED;
    calling_ = &context;
  }
  grpc::Status status = call(&context);
  const MutexLock lock(mutex_);
  calling_ = nullptr;
  return status;
}

Result<Offer> PluginOffer::Try() {
  const Result<std::shared_ptr<grpc::Channel>> channel = rpc::Dial(socket_);
  if (!channel.ok()) return channel.error();
  pluginregistration::PluginInfo info;
  const grpc::Status asked = Call(deadlines_.info, [&](grpc::ClientContext* context) {
    return rpc::CallUnaryAndWait(*channel, context, "/pluginregistration.Registration/GetInfo",
                                 pluginregistration::InfoRequest(), &info);
  });
  if (!asked.ok()) {
    return Error{ErrorCode::kUnavailable,
                 "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket " +
                     socket_ + ", err: " + asked.error_message()};
  }
  Result<Offer> offer = CheckPluginInfo(info, socket_);
  if (offer.ok()) {
    const Result<Done> registered = Register(*offer);
    if (!registered.ok()) {
      offer = registered.error().In("RegisterPlugin error -- plugin registration failed with err");
    }
  }
  pluginregistration::RegistrationStatus status;
  status.set_plugin_registered(offer.ok());
  if (!offer.ok()) status.set_error(offer.error().message);
  pluginregistration::RegistrationStatusResponse response;
  const grpc::Status told = Call(deadlines_.notify, [&](grpc::ClientContext* context) {
    return rpc::CallUnaryAndWait(*channel, context,
                                 "/pluginregistration.Registration/NotifyRegistrationStatus",
                                 status, &response);
  });
  if (told.ok() || !offer.ok()) return offer;
  registry_.Deregister(offer->resource, offer->endpoint);
  return Error{ErrorCode::kUnavailable,
               "RegisterPlugin error -- failed to send registration status at socket " + socket_ +
                   ", err: " + told.error_message()};
}

Result<Done> PluginOffer::Register(const Offer& offer) {
  const auto note = [answer = answer_, &registry = registry_, offer](Result<Done> result) {
    bool too_late = false;
    {
      const MutexLock lock(answer->mutex);
      too_late = answer->given_up && result.ok();
      answer->registered = std::move(result);
      answer->changed.NotifyAll();
    }
    if (too_late) registry.Deregister(offer.resource, offer.endpoint);
  };
  registry_.Register(offer.resource, offer.endpoint, note);
  const MutexLock lock(answer_->mutex);
  while (!answer_->registered && !answer_->given_up) answer_->changed.Wait(answer_->mutex);
  if (!answer_->registered) return Error{ErrorCode::kUnavailable, "given up"};
  return *answer_->registered;
}

}  // namespace alignd::deviceplugin
