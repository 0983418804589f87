// How calls end when the backend or the forwarder ends.
#include <memory>
#include <thread>

#include "edge/frames_peer.h"
#include "forwarder_fixture.h"

namespace alignd::proxy {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

TEST_F(ForwarderTest, EndsAStreamWhoseBackendDies) {
  Gate started;
  StartBackend({{"/s.S/Watch", [&](ServerContext&, RawStream& stream) {
                   stream.Write(ToBuffer("event"));
                   started.Open();
                   grpc::ByteBuffer message;
                   while (stream.Read(&message)) {
                   }
                   return Status::OK;
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Watch", SetPatience);
  ASSERT_EQ(call.Read(), "event");
  ASSERT_TRUE(started.Wait());
  backend_.reset();
  EXPECT_EQ(call.Read(), std::nullopt);
  const Status status = call.Finish();
  EXPECT_TRUE(status.error_code() == StatusCode::UNAVAILABLE ||
              status.error_code() == StatusCode::CANCELLED)
      << status.error_code();
}

TEST_F(ForwarderTest, StopsWithOpenStreamsAndCancelsThem) {
  Gate ended;
  StartBackend({{"/s.S/Watch", [&](ServerContext&, RawStream& stream) {
                   stream.Write(ToBuffer("event"));
                   grpc::ByteBuffer message;
                   while (stream.Read(&message)) {
                   }
                   ended.Open();
                   return Status::OK;
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Watch", SetPatience);
  ASSERT_EQ(call.Read(), "event");
  StopForwarder(std::chrono::milliseconds(50));
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_FALSE(call.Finish().ok());
  EXPECT_TRUE(ended.Wait());
}

TEST_F(ForwarderTest, CallsMayEndByThemselvesDuringTheGrace) {
  Gate arrived;
  Gate proceed;
  StartBackend({{"/s.S/Slow", [&](ServerContext& context, RawStream& stream) {
                   arrived.Open();
                   proceed.Wait();
                   return Echo(context, stream);
                 }}});
  StartForwarder();
  RawAnswer answer;
  std::thread calling([&] { answer = Call("/s.S/Slow", "x"); });
  EXPECT_TRUE(arrived.Wait());
  std::thread stopping([&] { StopForwarder(kPatience); });
  proceed.Open();
  calling.join();
  stopping.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, "x");
}

// The loop is shared with other parts of the daemon, and outlives the forwarder and its timers.
TEST_F(ForwarderTest, LoopGoesOnWhenTheForwarderHasEnded) {
  StartBackend({{"/s.S/Echo", Echo}});
  for (int i = 0; i < 3; ++i) {
    StartForwarder();
    EXPECT_EQ(Call("/s.S/Echo", "hello").message, "hello");
    StopForwarder(std::chrono::milliseconds(20));
    caller_.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the end of the grace period
  }
  Gate ran;
  loop_->Post([&] { ran.Open(); });
  EXPECT_TRUE(ran.Wait());
}

// Sees what the runtime answered.
class ResponseHandler final : public CallHandler {
 public:
  explicit ResponseHandler(Status& seen) : seen_(seen) {}
  void OnRequest(std::string request, std::function<void(Decision)> decide) override {
    decide(std::move(request));
  }
  void OnResponse(const Status& status, const std::string*) override { seen_ = status; }

 private:
  Status& seen_;
};

TEST_F(ForwarderTest, NamesTheLimitThatAnErrorTextOfTheRuntimeExceeds) {
  using namespace testing::frames;
  const std::string text =
      "the call of the runtime was reset: the answer exceeds the 64 KiB of headers that alignd "
      "reads";
  for (const bool is_handled : {false, true}) {
    const auto runtime =
        std::make_unique<FramesPeer>(BackendEndpoint(), kOk + LongTrailers(75'000));
    Status seen;
    StartForwarder([&](const std::string&) {
      return is_handled ? std::make_unique<ResponseHandler>(seen) : nullptr;
    });
    const Status status = Call("/s.S/Fail", "x").status;
    EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << is_handled;
    EXPECT_EQ(status.error_message(), text) << is_handled;
    EXPECT_EQ(seen.error_message(), is_handled ? text : "");
    caller_.reset();
    StopForwarder(std::chrono::milliseconds(0));
    std::filesystem::remove(BackendEndpoint());
    std::filesystem::remove(ForwarderEndpoint());
  }
}

}  // namespace
}  // namespace alignd::proxy
