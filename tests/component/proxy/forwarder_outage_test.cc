// The runtime is not there yet, hangs, goes and comes back: no call waits longer than its deadline,
// and calls succeed again as soon as the runtime answers.
#include <sys/socket.h>

#include <filesystem>

#include "edge/process.h"
#include "edge/unix_socket.h"
#include "forwarder_fixture.h"
#include "host/descriptor.h"

namespace alignd::proxy {
namespace {

using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A CRI method, and a method of another service.
constexpr const char* kMethods[] = {"/runtime.v1.RuntimeService/Version", "/s.S/Echo"};

class Outage : public ForwarderTest {
 protected:
  void StartEcho() { StartBackend({{kMethods[0], Echo}, {kMethods[1], Echo}}); }

  RawAnswer CallWithin(const char* method, milliseconds deadline) {
    return CallUnary(caller_, method, "x", [deadline](grpc::ClientContext& context) {
      context.set_deadline(std::chrono::system_clock::now() + deadline);
    });
  }
  void ExpectRecovery() {
    for (const char* const method : kMethods) {
      EXPECT_TRUE(testing::WaitUntil([&] { return Call(method, "x").status.ok(); })) << method;
    }
  }

  // A process that listens on its socket and never accepts a connection.
  host::Descriptor HangingRuntime() const { return testing::ListenUnix(BackendEndpoint()); }
};

TEST_F(Outage, HangingRuntimeCostsTheCallerItsDeadlineAtMost) {
  {
    const host::Descriptor hanging = HangingRuntime();
    StartForwarder();
    for (const char* const method : kMethods) {
      const Clock::time_point begin = Clock::now();
      const StatusCode code = CallWithin(method, milliseconds(200)).status.error_code();
      EXPECT_TRUE(code == StatusCode::DEADLINE_EXCEEDED || code == StatusCode::UNAVAILABLE) << code;
      EXPECT_LT(Clock::now() - begin, kPatience / 4);
    }
    // A caller with a longer deadline gets the reason.
    EXPECT_EQ(Call(kMethods[0], "x").status.error_code(), StatusCode::UNAVAILABLE);
  }
  std::filesystem::remove(BackendEndpoint());
  StartEcho();
  ExpectRecovery();
}

TEST_F(Outage, RuntimeThatStopsAnsweringCostsTheCallerItsDeadline) {
  Gate released;
  std::atomic<bool> hangs = true;
  const auto hang = [&](grpc::ServerContext& context, RawStream& stream) {
    if (hangs) released.Wait();
    return Echo(context, stream);
  };
  StartBackend({{kMethods[0], hang}, {kMethods[1], hang}});
  StartForwarder();
  for (const char* const method : kMethods) {
    EXPECT_EQ(CallWithin(method, milliseconds(200)).status.error_code(),
              StatusCode::DEADLINE_EXCEEDED);
  }
  hangs = false;
  released.Open();
  ExpectRecovery();
  caller_.reset();
  StopForwarder(milliseconds(0));
  backend_.reset();
}

TEST_F(Outage, CallUnderWayEndsIfTheRuntimeDies) {
  for (const char* const method : kMethods) {
    Gate arrived;
    StartBackend({{method, [&](grpc::ServerContext& context, RawStream&) {
                     arrived.Open();
                     while (!context.IsCancelled()) {
                       std::this_thread::sleep_for(milliseconds(5));
                     }
                     return Status::CANCELLED;
                   }}});
    if (forwarder_ == nullptr) StartForwarder();
    RawAnswer answer;
    // A new channel each time: the forwarder, not this channel, has to reconnect.
    std::thread calling([&] {
      testing::WaitUntil([&] {
        answer = Call(method, "x");
        return arrived.Wait(milliseconds(0));
      });
    });
    EXPECT_TRUE(arrived.Wait());
    backend_.reset();
    calling.join();
    EXPECT_TRUE(answer.status.error_code() == StatusCode::UNAVAILABLE ||
                answer.status.error_code() == StatusCode::CANCELLED)
        << answer.status.error_code() << answer.status.error_message();
  }
}

// The wait for a runtime that was away does not grow with each attempt.
TEST_F(Outage, RuntimeThatWasAwayForLongIsReachedSoon) {
  StartForwarder();
  const Clock::time_point away = Clock::now();
  while (Clock::now() - away < std::chrono::seconds(3)) {
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(Call(kMethods[0], "x").status.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_LT(Clock::now() - begin, kPatience / 4);
    std::this_thread::sleep_for(milliseconds(50));
  }
  StartEcho();
  const Clock::time_point back = Clock::now();
  ExpectRecovery();
  const milliseconds took = std::chrono::duration_cast<milliseconds>(Clock::now() - back);
  RecordProperty("recovery_ms", static_cast<int>(took.count()));
  EXPECT_LT(took, kPatience / 4);
}

}  // namespace
}  // namespace alignd::proxy
