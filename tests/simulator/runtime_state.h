// The state that the calls of a simulated runtime share. Private to the module.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulator/embedded_runtime.h"
#include "simulator/runtime_model.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// Splits "/service/method".
std::pair<std::string, std::string> SplitMethod(const std::string& path);

// Outlives all calls. Thread-safe.
class RuntimeState {
 public:
  // One open GetContainerEvents.
  class Subscriber {
   public:
    virtual ~Subscriber() = default;
    virtual void Send(const std::string& event) = 0;
  };
  // A call that waits for the end of its delay.
  class Delayed {
   public:
    // Must not block, nor call this object.
    virtual void GoOn() = 0;

   protected:
    ~Delayed() = default;
  };

  explicit RuntimeState(EmbeddedRuntime::Observer observer);
  RuntimeState(const RuntimeState&) = delete;
  RuntimeState& operator=(const RuntimeState&) = delete;

  static bool IsKnownService(const std::string& service);

  // Records a request. Returns the delay of its answer.
  std::chrono::milliseconds Record(const std::string& path, const std::string& bytes)
      EXCLUDES(mutex_);
  grpc::Status Answer(const std::string& path, const std::string& request, std::string& response)
      EXCLUDES(mutex_);

  // The failure that was set for the method; OK if there is none.
  grpc::Status FailureOf(const std::string& path) const EXCLUDES(mutex_);

  void Subscribe(Subscriber* subscriber) EXCLUDES(mutex_);
  void Unsubscribe(Subscriber* subscriber) EXCLUDES(mutex_);

  template <typename Use>
  auto With(Use use) const {
    MutexLock lock(mutex_);
    return use(model_);
  }

  // All, or those of one method.
  std::vector<EmbeddedRuntime::Request> Requests(std::optional<std::string_view> method) const
      EXCLUDES(mutex_);
  bool EndContainer(const std::string& id, int32_t exit_code) EXCLUDES(mutex_);
  bool EndSandbox(const std::string& id) EXCLUDES(mutex_);
  void SetFailure(const std::string& method, grpc::Status status, const std::string& containing)
      EXCLUDES(mutex_);
  void SetDelay(const std::string& method, std::chrono::milliseconds delay,
                const std::string& containing) EXCLUDES(mutex_);

  void Add(Delayed* call) EXCLUDES(mutex_);
  void Remove(Delayed* call) EXCLUDES(mutex_);
  void EndDelays() EXCLUDES(mutex_);

 private:
  void Publish() REQUIRES(mutex_);
  runtime::v1::ContainerEventResponse ToCri(const RuntimeModel::Event& event) const
      REQUIRES(mutex_);

  const EmbeddedRuntime::Observer observer_;

  mutable Mutex mutex_;
  RuntimeModel model_ GUARDED_BY(mutex_);
  std::vector<EmbeddedRuntime::Request> requests_ GUARDED_BY(mutex_);
  // By method; those whose request contains the text.
  std::map<std::string, std::pair<grpc::Status, std::string>> failures_ GUARDED_BY(mutex_);
  std::map<std::string, std::pair<std::chrono::milliseconds, std::string>> delays_
      GUARDED_BY(mutex_);
  std::set<Subscriber*> subscribers_ GUARDED_BY(mutex_);
  std::set<Delayed*> delayed_ GUARDED_BY(mutex_);
};

}  // namespace alignd::simulator
