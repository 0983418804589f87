// A connection to the API server that lasts for several calls.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "alignd/base/result.h"
#include "apiserver/api_client.h"

namespace alignd::apiserver {

// Connects when it is needed, and anew after kMaxAge: the files of its credential may have been
// renewed. One thread at a time. `Time`: of the caller's clock.
template <typename Time>
class KeptCall {
 public:
  static constexpr std::chrono::seconds kMaxAge{60};
  // A connection with the credential of now.
  using Connect = std::function<Result<ApiCall>()>;

  explicit KeptCall(Connect connect) : connect_(std::move(connect)) {}

  // Before each use. Errors: of `connect`.
  Result<Done> Refresh(Time now) {
    if (call_ && now - connected_ < kMaxAge) return Done{};
    Result<ApiCall> call = connect_();
    if (!call.ok()) return call.error();
    call_ = *std::move(call);
    connected_ = now;
    return Done{};
  }
  // After a failure.
  void Drop() { call_.reset(); }

  const ApiCall& operator*() const { return *call_; }

 private:
  const Connect connect_;
  std::optional<ApiCall> call_;
  Time connected_{};
};

}  // namespace alignd::apiserver
