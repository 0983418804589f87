#include "cri/tracked_call.h"

#include <gtest/gtest.h>

namespace alignd::cri {
namespace {

// After these answers of the runtime, a pod whose sandbox is being stopped is still ending.
TEST(StopCall, MayGoOnAfterAnAnswerThatDoesNotSayWhatTheRuntimeDid) {
  using grpc::StatusCode;
  const auto is_ending_after = [](StatusCode code) {
    reconcile::ContainerRegistry registry;
    registry.AddSandbox("s", "pod", "default/pod");
    {
      StopCall call(registry, "s");
      call.Answered({code, ""});
    }
    return registry.IsEnding("pod");
  };
  for (const StatusCode code :
       {StatusCode::CANCELLED, StatusCode::DEADLINE_EXCEEDED, StatusCode::UNAVAILABLE}) {
    EXPECT_TRUE(is_ending_after(code)) << code;
  }
  for (const StatusCode code : {StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::INTERNAL}) {
    EXPECT_FALSE(is_ending_after(code)) << code;
  }
}

}  // namespace
}  // namespace alignd::cri
