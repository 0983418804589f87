// An intercepted call: the handler gets the whole request, decides once, and gets the outcome.
#include <atomic>
#include <thread>
#include <vector>

#include "forwarder_fixture.h"

namespace alignd::proxy {
namespace {

using grpc::Status;
using grpc::StatusCode;
using Decide = std::function<void(CallHandler::Decision)>;

// A record of one intercepted call.
struct Record {
  std::string request;
  Gate asked;
  Decide decide;  // only if the script keeps it
  Gate responded;
  Status status;
  std::optional<std::string> response;
  Gate cancelled;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  Gate destroyed;
  Status begins;  // what the handler says when the call begins
  bool is_relayed = false;
  bool outlives_caller = false;
};

using Script = std::function<void(Record&, const std::string& request, Decide)>;

class ScriptedHandler final : public CallHandler {
 public:
  ScriptedHandler(std::shared_ptr<Record> record, Script script)
      : record_(std::move(record)), script_(std::move(script)) {}
  ~ScriptedHandler() override { record_->destroyed.Open(); }

  bool IsRelayed() const override { return record_->is_relayed; }
  bool OutlivesCaller() const override { return record_->outlives_caller; }
  Status OnCall() override { return record_->begins; }

  void OnRequest(std::string request, Decide decide) override {
    record_->request = std::move(request);
    script_(*record_, record_->request, std::move(decide));
    record_->asked.Open();
  }

  void OnDeadline(std::chrono::steady_clock::time_point deadline) override {
    record_->deadline = deadline;
  }
  void OnCancelled() override { record_->cancelled.Open(); }

  void OnResponse(const Status& status, const std::string* response) override {
    record_->status = status;
    if (response != nullptr) record_->response = *response;
    record_->responded.Open();
  }

 private:
  const std::shared_ptr<Record> record_;
  const Script script_;
};

constexpr const char* kMethod = "/s.S/Create";

class HandlerTest : public ForwarderTest {
 protected:
  void Start(const Script& script) {
    StartBackend({{kMethod,
                   [this](grpc::ServerContext&, RawStream& stream) {
                     grpc::ByteBuffer message;
                     if (!stream.Read(&message)) {
                       return Status(StatusCode::INVALID_ARGUMENT, "no message");
                     }
                     ++received_;
                     if (hang_) stopped_.Wait();
                     if (!failure_.ok()) return failure_;
                     if (answers_) stream.Write(ToBuffer("made " + ToText(message)));
                     if (answers_twice_) stream.Write(ToBuffer("made another"));
                     return Status::OK;
                   }},
                  {"/s.S/Other", [](grpc::ServerContext&, RawStream& stream) {
                     grpc::ByteBuffer message;
                     while (stream.Read(&message)) stream.Write(message);
                     return Status::OK;
                   }}});
    StartForwarder([this, script](const std::string& method) -> std::unique_ptr<CallHandler> {
      if (method != kMethod) return nullptr;
      return std::make_unique<ScriptedHandler>(record_, script);
    });
  }
  // Callbacks on gRPC's threads use the members, so they end before the members are destroyed.
  ~HandlerTest() override {
    stopped_.Open();
    caller_.reset();
    StopForwarder(std::chrono::milliseconds(0));
    backend_.reset();
  }

  // The runtime has the request, and has not answered yet.
  void CancelAfterForwarding() {
    hang_ = true;
    Start([](Record&, const std::string& request, const Decide& decide) { decide(request); });
    RawCall call(caller_, kMethod, SetPatience);
    call.Write("web");
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (received_ == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_EQ(received_, 1);
    call.context().TryCancel();
    EXPECT_EQ(call.Finish().error_code(), StatusCode::CANCELLED);
    // Once another call on the same connection is answered, the forwarder knows of the cancel.
    EXPECT_EQ(Call("/s.S/Other", "x").message, "x");
    if (!record_->outlives_caller) return;
    EXPECT_FALSE(record_->destroyed.Wait(std::chrono::milliseconds(0)));
  }

  const std::shared_ptr<Record> record_ = std::make_shared<Record>();
  std::atomic<int> received_ = 0;
  std::atomic<bool> hang_ = false;
  Gate stopped_;
  Status failure_;
  bool answers_ = true;
  bool answers_twice_ = false;
};

void Keep(Record& record, const std::string&, Decide decide) { record.decide = std::move(decide); }
void PassOn(Record&, const std::string& request, const Decide& decide) { decide(request); }

TEST_F(HandlerTest, ReplacesTheRequestAndGetsTheAnswer) {
  Start([](Record&, const std::string& request, const Decide& decide) {
    decide(request + " on CPU 3");
  });
  const RawAnswer answer = Call(kMethod, "web");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.message, "made web on CPU 3");
  EXPECT_EQ(record_->request, "web");
  EXPECT_TRUE(record_->status.ok());
  EXPECT_EQ(record_->response, "made web on CPU 3");
  EXPECT_TRUE(record_->destroyed.Wait());
}

TEST_F(HandlerTest, RefusalIsNotForwarded) {
  Start([](Record&, const std::string&, const Decide& decide) {
    decide(Status(StatusCode::FAILED_PRECONDITION, "TopologyAffinityError: no"));
  });
  const RawAnswer answer = Call(kMethod, "web");
  EXPECT_EQ(answer.status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(answer.status.error_message(), "TopologyAffinityError: no");
  EXPECT_EQ(answer.message, std::nullopt);
  EXPECT_TRUE(record_->destroyed.Wait());
  EXPECT_EQ(received_, 0);
  EXPECT_FALSE(record_->responded.Wait(std::chrono::milliseconds(0)));
}

TEST_F(HandlerTest, KnowsTheCallersDeadline) {
  Start(PassOn);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(Call(kMethod, "web").status.ok());
  ASSERT_TRUE(record_->deadline);
  EXPECT_GT(*record_->deadline, before + kPatience / 2);
  // gRPC rounds grpc-timeout up to three digits: 19.95 s becomes 20.0 s.
  constexpr std::chrono::seconds kRounding{1};
  EXPECT_LE(*record_->deadline, std::chrono::steady_clock::now() + kPatience + kRounding);
  EXPECT_FALSE(record_->cancelled.Wait(std::chrono::milliseconds(0)));
}

TEST_F(HandlerTest, KnowsThatTheCallerHasNoDeadline) {
  Start(PassOn);
  EXPECT_TRUE(CallUnary(caller_, kMethod, "web").status.ok());
  EXPECT_FALSE(record_->deadline);
}

TEST_F(HandlerTest, IsNotifiedIfTheCallEndsWhileItDecides) {
  for (const bool by_stop : {false, true}) {
    SCOPED_TRACE(by_stop);
    const auto record = std::make_shared<Record>();
    StartForwarder([record](const std::string&) -> std::unique_ptr<CallHandler> {
      return std::make_unique<ScriptedHandler>(record, Keep);
    });
    RawCall call(caller_, kMethod, SetPatience);
    call.Write("web");
    call.WritesDone();
    ASSERT_TRUE(record->asked.Wait());
    EXPECT_FALSE(record->cancelled.Wait(std::chrono::milliseconds(0)));
    if (by_stop) {
      StopForwarder(std::chrono::milliseconds(0));
    } else {
      call.context().TryCancel();
    }
    EXPECT_TRUE(record->cancelled.Wait());
    call.Finish();
    record->decide = nullptr;
    caller_.reset();
    StopForwarder(std::chrono::milliseconds(0));
  }
}

TEST_F(HandlerTest, MayDecideLateOnAnotherThreadWhileOtherCallsPass) {
  Start(Keep);
  RawCall call(caller_, kMethod, SetPatience);
  call.Write("web");
  call.WritesDone();
  ASSERT_TRUE(record_->asked.Wait());
  EXPECT_EQ(Call("/s.S/Other", "meanwhile").message, "meanwhile");
  EXPECT_EQ(received_, 0);
  std::thread([&] { std::exchange(record_->decide, nullptr)("later"); }).join();
  EXPECT_EQ(call.Read(), "made later");
  EXPECT_TRUE(call.Finish().ok());
}

// The kubelet's Go client half-closes at once; other clients need not.
TEST_F(HandlerTest, IsAskedBeforeTheCallerHalfCloses) {
  Start(PassOn);
  RawCall call(caller_, kMethod, SetPatience);
  call.Write("web");
  EXPECT_EQ(call.Read(), "made web");
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(HandlerTest, OnlyTheFirstDecisionHasAnEffect) {
  Start([](Record&, const std::string& request, const Decide& decide) {
    decide(request);
    decide(Status(StatusCode::ABORTED, "second thoughts"));
  });
  EXPECT_EQ(Call(kMethod, "web").message, "made web");
  EXPECT_EQ(received_, 1);
}

TEST_F(HandlerTest, GetsTheStatusOfTheBackend) {
  Start(PassOn);
  failure_ = Status(StatusCode::UNKNOWN, "no space left", "details");
  const RawAnswer answer = Call(kMethod, "web");
  EXPECT_EQ(answer.status.error_message(), "no space left");
  EXPECT_EQ(answer.status.error_details(), "details");
  EXPECT_EQ(record_->status.error_code(), StatusCode::UNKNOWN);
  EXPECT_EQ(record_->response, std::nullopt);
}

TEST_F(HandlerTest, GetsUnavailableWithoutABackend) {
  Start(PassOn);
  backend_.reset();
  EXPECT_EQ(Call(kMethod, "web").status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(record_->status.error_code(), StatusCode::UNAVAILABLE);
}

TEST_F(HandlerTest, NeverGetsOkWithoutAMessage) {
  Start(PassOn);
  answers_ = false;
  EXPECT_EQ(Call(kMethod, "web").status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(record_->status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(record_->response, std::nullopt);
}

TEST_F(HandlerTest, IsNotAskedAboutACallWithoutARequest) {
  Start(PassOn);
  RawCall call(caller_, kMethod, SetPatience);
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_EQ(call.Finish().error_message(), std::string(kMethod) + " without a whole request");
  EXPECT_FALSE(record_->asked.Wait(std::chrono::milliseconds(0)));
  EXPECT_EQ(received_, 0);
}

TEST_F(HandlerTest, IsNotAskedAboutACompressedRequest) {
  Start(PassOn);
  const std::string long_enough(4096, 'x');  // to be compressed
  const RawAnswer answer =
      CallUnary(caller_, kMethod, long_enough, [](grpc::ClientContext& context) {
        SetPatience(context);
        context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
      });
  EXPECT_EQ(answer.status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(received_, 0);
  EXPECT_FALSE(record_->asked.Wait(std::chrono::milliseconds(0)));
}

// In one frame with the first message, or later.
TEST_F(HandlerTest, SecondMessageEndsTheCall) {
  Start(Keep);
  RawCall call(caller_, kMethod, SetPatience);
  call.Write("web");
  ASSERT_TRUE(record_->asked.Wait());
  call.Write("and more");
  EXPECT_EQ(call.Read(), std::nullopt);
  const Status status = call.Finish();
  EXPECT_EQ(status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "more than one message in a unary call");
  EXPECT_TRUE(record_->cancelled.Wait());
  std::exchange(record_->decide, nullptr)("too late");
  EXPECT_TRUE(record_->destroyed.Wait());
  EXPECT_EQ(received_, 0);
}

TEST_F(HandlerTest, MayEndTheCallBeforeAnyMessage) {
  Start(PassOn);
  record_->begins = Status(StatusCode::UNIMPLEMENTED, "never");
  RawCall call(caller_, kMethod, SetPatience);
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_EQ(call.Finish().error_message(), "never");
  EXPECT_EQ(Call(kMethod, "web").status.error_message(), "never");
  EXPECT_FALSE(record_->asked.Wait(std::chrono::milliseconds(0)));
  EXPECT_EQ(received_, 0);
}

TEST_F(HandlerTest, NeverGetsTwoAnswers) {
  Start(PassOn);
  answers_twice_ = true;
  EXPECT_EQ(Call(kMethod, "web").status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(record_->status.error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(record_->response, std::nullopt);
}

TEST_F(HandlerTest, DecisionAfterTheCallerHasCancelledHasNoEffect) {
  Start(Keep);
  RawCall call(caller_, kMethod, SetPatience);
  call.Write("web");
  ASSERT_TRUE(record_->asked.Wait());
  call.context().TryCancel();
  EXPECT_EQ(call.Finish().error_code(), StatusCode::CANCELLED);
  // Another call on the same connection: once it is answered, the forwarder knows of the cancel.
  EXPECT_EQ(Call("/s.S/Other", "x").message, "x");
  StopForwarder(std::chrono::milliseconds(0));
  EXPECT_FALSE(record_->destroyed.Wait(std::chrono::milliseconds(0)));  // `decide` still exists
  std::exchange(record_->decide, nullptr)("too late");
  EXPECT_TRUE(record_->destroyed.Wait());
  EXPECT_EQ(received_, 0);
  EXPECT_FALSE(record_->responded.Wait(std::chrono::milliseconds(0)));
}

TEST_F(HandlerTest, DroppingTheDecisionAnswersTheCaller) {
  Start([](Record&, const std::string&, const Decide&) {});
  EXPECT_EQ(Call(kMethod, "web").status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(received_, 0);
}

TEST_F(HandlerTest, DeadlineEndsACallWithoutADecision) {
  Start(Keep);
  const RawAnswer answer = CallUnary(caller_, kMethod, "web", [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  });
  EXPECT_EQ(answer.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  StopForwarder(std::chrono::milliseconds(0));  // does not wait for the decision
  record_->decide = nullptr;
  EXPECT_TRUE(record_->destroyed.Wait());
}

TEST_F(HandlerTest, GetsCancelledIfTheCallerLeavesAfterForwarding) {
  CancelAfterForwarding();
  ASSERT_TRUE(record_->responded.Wait());
  EXPECT_EQ(record_->status.error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(record_->destroyed.Wait());
  stopped_.Open();
}

TEST_F(HandlerTest, OutlivesACallerUntilTheRuntimeAnswers) {
  record_->outlives_caller = true;
  CancelAfterForwarding();
  EXPECT_TRUE(record_->responded.Wait(std::chrono::milliseconds(0)));
  EXPECT_EQ(record_->status.error_code(), StatusCode::CANCELLED);
  stopped_.Open();
  EXPECT_TRUE(record_->destroyed.Wait());
}

TEST_F(HandlerTest, OfARelayedCallOutlivesACallerUntilTheRuntimeAnswers) {
  record_->outlives_caller = true;
  record_->is_relayed = true;
  CancelAfterForwarding();
  stopped_.Open();
  EXPECT_TRUE(record_->destroyed.Wait());
}

TEST_F(HandlerTest, OutlivesACallerUntilTheRuntimeIsGone) {
  record_->outlives_caller = true;
  record_->is_relayed = true;
  CancelAfterForwarding();
  std::thread stop([this] { backend_->Stop(); });
  EXPECT_TRUE(record_->destroyed.Wait());
  stopped_.Open();
  stop.join();
}

TEST_F(HandlerTest, SurvivesCancelsAtAnyMoment) {
  Start([](Record&, const std::string& request, const Decide& decide) {
    std::thread([request, decide] { decide(request); }).detach();
  });
  for (int i = 0; i < 150; ++i) {
    RawCall call(caller_, kMethod, SetPatience);
    call.Write("web");
    std::this_thread::sleep_for(std::chrono::microseconds(i * 10));
    call.context().TryCancel();
    call.Finish();
  }
  EXPECT_EQ(Call(kMethod, "still here").message, "made still here");
}

}  // namespace
}  // namespace alignd::proxy
