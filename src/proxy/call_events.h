// What the forwarder reports about its calls: for metrics.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace alignd::proxy {

// A call that has ended.
struct CallReport {
  std::string_view method;  // "/runtime.v1.RuntimeService/CreateContainer", as the caller sent it
  // As the caller got it. A call whose caller has gone has CANCELLED.
  grpc::StatusCode code = grpc::StatusCode::UNKNOWN;
  // Of an intercepted call: from its whole request to the decision of its handler. nullopt: there
  // was none.
  std::optional<std::chrono::nanoseconds> added;
};

// Runs on the forwarder's thread and returns at once.
class CallEvents {
 public:
  CallEvents() = default;
  CallEvents(const CallEvents&) = delete;
  CallEvents& operator=(const CallEvents&) = delete;
  virtual ~CallEvents() = default;

  virtual void Begun() = 0;
  // Follows each Begun.
  virtual void Ended(const CallReport& report) = 0;
};

// Collects the report of one call, and gives it to `events` in its destructor.
class CallRecord {
 public:
  // `events` may be null, and outlives this object.
  explicit CallRecord(CallEvents* events) : events_(events) {}
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;
  ~CallRecord() {
    if (events_ == nullptr || !begun_) return;
    events_->Ended({method_, code_.value_or(grpc::StatusCode::UNKNOWN), added_});
  }

  void Begin(std::string_view method) {
    if (events_ == nullptr) return;
    begun_ = true;
    method_ = method;
    events_->Begun();
  }
  // The handler has the request.
  void Ask() { asked_ = Clock::now(); }
  // The handler has decided.
  void Decided() { added_ = Clock::now() - asked_; }
  // The first code is the one that the caller got.
  void End(grpc::StatusCode code) {
    if (!code_) code_ = code;
  }

 private:
  using Clock = std::chrono::steady_clock;

  CallEvents* const events_;
  bool begun_ = false;
  std::string method_;
  std::optional<grpc::StatusCode> code_;
  Clock::time_point asked_;
  std::optional<std::chrono::nanoseconds> added_;
};

}  // namespace alignd::proxy
