// One attempt to register a plugin that was found by its socket: ask it what it is, check that,
// reach it, and tell it how that went.
#pragma once

#include <grpcpp/client_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "alignd/base/result.h"
#include "deviceplugin/checks.h"
#include "deviceplugin/plugin_registry.h"
#include "sync/mutex.h"

namespace alignd::deviceplugin {

// Longest waits for a plugin that was found.
struct OfferDeadlines {
  std::chrono::milliseconds info{10'000};   // dial and GetInfo together
  std::chrono::milliseconds notify{5'000};  // NotifyRegistrationStatus
};

// Thread-safe. Works on a thread of its own, so that a plugin that hangs delays nobody else.
class PluginOffer {
 public:
  // `registry` outlives us. `on_end` runs once, on our thread; Outcome is there then.
  PluginOffer(std::string socket, PluginRegistry& registry, OfferDeadlines deadlines,
              std::function<void()> on_end);
  PluginOffer(const PluginOffer&) = delete;
  PluginOffer& operator=(const PluginOffer&) = delete;
  // Gives up; returns when our thread has ended.
  ~PluginOffer();

  // Gives up, waits for our thread, and says what was registered all the same, or why nothing was.
  Result<Offer> End();

  // What was registered, or why nothing was; nullopt: not yet known.
  std::optional<Result<Offer>> Outcome() const EXCLUDES(mutex_);

 private:
  // Where the registry leaves its answer, also when we have given up.
  struct Answer {
    Mutex mutex;
    CondVar changed;
    bool given_up GUARDED_BY(mutex) = false;
    std::optional<Result<Done>> registered GUARDED_BY(mutex);
  };

  Result<Offer> Try();
  Result<Done> Register(const Offer& offer);
  // Runs one call, which GiveUp cancels.
  grpc::Status Call(std::chrono::milliseconds deadline,
                    const std::function<grpc::Status(grpc::ClientContext*)>& call) EXCLUDES(mutex_);
  void GiveUp() EXCLUDES(mutex_);

  const std::string socket_;
  PluginRegistry& registry_;
  const OfferDeadlines deadlines_;
  const std::shared_ptr<Answer> answer_ = std::make_shared<Answer>();

  mutable Mutex mutex_;
  bool given_up_ GUARDED_BY(mutex_) = false;
  grpc::ClientContext* calling_ GUARDED_BY(mutex_) = nullptr;
  std::optional<Result<Offer>> outcome_ GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace alignd::deviceplugin
