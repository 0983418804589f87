// One attempt to register a plugin that was found by its socket: asks for its information, checks
// that, registers it, and notifies it of the result.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "deviceplugin/checks.h"
#include "deviceplugin/plugin_registry.h"
#include "pluginregistration/v1/pluginregistration.pb.h"
#include "service/client.h"

namespace alignd::deviceplugin {

// Deadlines of the calls to a plugin that was found.
struct OfferDeadlines {
  std::chrono::milliseconds info{10'000};   // dial and GetInfo together
  std::chrono::milliseconds notify{5'000};  // NotifyRegistrationStatus
};

// What the registry knows a plugin by.
struct Registered {
  std::string resource;
  uint64_t registration = 0;
};

// Not thread-safe: all methods run on the thread of `run`, and so does `on_end`. No method blocks.
// Calls under way own the attempt.
class PluginOffer : public std::enable_shared_from_this<PluginOffer> {
 public:
  // Runs a task on the owner's thread, or drops it if the owner does not exist any more.
  // Thread-safe.
  using Executor = std::function<void(std::function<void()>)>;
  using OnEnd = std::function<void(Result<Registered>)>;

  // `registry` exists as long as `run` runs tasks. `on_end` runs once, never after Cancel.
  PluginOffer(std::string socket, PluginRegistry& registry, OfferDeadlines deadlines, Executor run,
              OnEnd on_end);
  PluginOffer(const PluginOffer&) = delete;
  PluginOffer& operator=(const PluginOffer&) = delete;

  void Start();

  // Cancels the call under way. A registration that succeeds later is taken back.
  void Cancel();

  // Whether the plugin has answered GetInfo.
  bool HasAnswered() const { return has_answered_; }

 private:
  void AskInfo();
  void OnInfo(const grpc::Status& status, const pluginregistration::PluginInfo& info);
  void OnRegistered(const Offer& offer, const Result<Done>& result);
  void Notify(Result<Registered> outcome);
  void OnNotified(Result<Registered> outcome, const grpc::Status& status);
  void End(Result<Registered> outcome);

  // Calls `method` of pluginregistration.Registration. `next` runs on the owner's thread.
  template <typename Response>
  void Call(const std::string& method, const google::protobuf::Message& request,
            std::chrono::milliseconds deadline,
            std::function<void(const grpc::Status&, const Response&)> next);

  const std::string socket_;
  PluginRegistry& registry_;
  const OfferDeadlines deadlines_;
  const Executor run_;
  const OnEnd on_end_;
  std::shared_ptr<service::Client> client_;       // set by AskInfo
  std::shared_ptr<service::ClientCall> calling_;  // the call under way
  uint64_t registration_ = 0;                     // set by OnInfo
  bool has_answered_ = false;
  bool cancelled_ = false;
};

}  // namespace alignd::deviceplugin
