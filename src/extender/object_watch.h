// Follows the objects of one kind at the API server: a list, and a watch from there.
// Source: Kubernetes API concepts, "Efficient detection of changes"; client-go tools/cache,
// reflector.go.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "apiserver/api_client.h"
#include "apiserver/object_list.h"
#include "extender/cluster_view.h"

namespace alignd::extender {

// What an ObjectWatch has learned. Called on its thread.
class ObjectSink {
 public:
  virtual ~ObjectSink() = default;

  virtual void Set(ObjectKind kind, const std::string& key, const std::string& json) = 0;
  // `uid`: of the object that was deleted.
  virtual void Remove(ObjectKind kind, const std::string& key, const std::string& uid) = 0;
  // A list is complete: no other object of the kind exists. It began at that time.
  virtual void Listed(ObjectKind kind, const std::set<std::string>& keys,
                      std::chrono::steady_clock::time_point begun) = 0;
  // A watch has ended in order: all that the API server had at that time has been sent. While it
  // lasts, nothing says how old the events are.
  virtual void Current(ObjectKind kind, std::chrono::steady_clock::time_point as_of) = 0;
  // A call failed; nullopt: the next one is accepted.
  virtual void Failed(ObjectKind kind, const std::optional<Error>& error) = 0;
};

// One thread at a time, except Stop.
class ObjectWatch {
 public:
  // A connection with the credential of now: each list and each watch makes one, so that renewed
  // tokens and certificates are used.
  using Connect = std::function<Result<std::unique_ptr<apiserver::ApiReader>>()>;

  struct Settings {
    // A watch ends after this time, and goes on with the next one: at the latest then, it is known
    // that nothing was missed.
    std::chrono::seconds watch{30};
    std::chrono::seconds watch_after_failure{5};
    // After a failure, the pause doubles from the first to the last. Retry-After replaces it.
    std::chrono::milliseconds first_pause{1'000};
    std::chrono::milliseconds last_pause{30'000};
    int page = 500;  // objects of one answer of a list
  };
  static constexpr std::chrono::seconds kLongestRetryAfter{300};
  static constexpr size_t kMaxEventBytes = size_t{16} << 20;

  ObjectWatch(ObjectKind kind, Settings settings, Connect connect, ObjectSink& sink);
  ObjectWatch(const ObjectWatch&) = delete;
  ObjectWatch& operator=(const ObjectWatch&) = delete;
  ~ObjectWatch();

  // Lists if that is due, or watches until the watch ends. How long to pause before the next step.
  std::chrono::milliseconds Step();

  // Ends a step that runs. Thread-safe.
  void Stop();

  // Ends a step that runs; the next one lists. Thread-safe.
  void ListAgain();

 private:
  class Reader;
  using Attempt = std::optional<apiserver::ApiFailure>;  // nullopt: it succeeded

  Attempt List(apiserver::ApiReader& reader);
  Attempt Watch(apiserver::ApiReader& reader);
  Attempt TakeEvent(std::string_view line);
  std::chrono::milliseconds AfterStop() const;
  std::chrono::milliseconds AfterFailure(const apiserver::ApiFailure& failure);

  const ObjectKind kind_;
  const Settings settings_;
  const Connect connect_;
  ObjectSink& sink_;
  const std::unique_ptr<Reader> reader_;
  std::string version_;  // the watch goes on after it; empty: a list is due
  std::chrono::milliseconds pause_;
  bool has_failed_ = false;  // the last step
};

}  // namespace alignd::extender
