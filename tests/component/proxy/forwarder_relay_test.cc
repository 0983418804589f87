// Calls that are not intercepted: nothing is added, lost or delayed, and none outlives its caller.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <atomic>
#include <thread>

#include "forwarder_fixture.h"

namespace alignd::proxy {
namespace {

using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

TEST_F(ForwarderTest, PassesAUnaryCallByteForByte) {
  StartBackend({{"/any.Service/Method", Echo}});
  StartForwarder();
  const std::string cases[] = {"", std::string("\0\xff\x80 not a message", 16), "\x0a\x03pod",
                               std::string(70'000, 'x')};
  for (const std::string& request : cases) {
    const RawAnswer answer = Call("/any.Service/Method", request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.message, request);
  }
}

TEST_F(ForwarderTest, PassesStatusMessageAndDetails) {
  const Status status(StatusCode::FAILED_PRECONDITION, "not: \xc3\xa4llowed\n100%",
                      std::string("\x08\x09\x12\0\x01", 5));
  StartBackend({{"/s.S/Fail", [&](ServerContext&, RawStream&) { return status; }}});
  StartForwarder();
  const RawAnswer answer = Call("/s.S/Fail", "x");
  EXPECT_EQ(answer.message, std::nullopt);
  EXPECT_EQ(answer.status.error_code(), status.error_code());
  EXPECT_EQ(answer.status.error_message(), status.error_message());
  EXPECT_EQ(answer.status.error_details(), status.error_details());
}

// gRPC's own limit for metadata is 8 KiB; a runtime's error text can quote a whole command line.
TEST_F(ForwarderTest, PassesALongStatusMessage) {
  const std::string text(60'000, 'e');
  StartBackend({{"/s.S/Fail",
                 [&](ServerContext&, RawStream&) { return Status(StatusCode::UNKNOWN, text); }}});
  StartForwarder();
  const RawAnswer answer = Call("/s.S/Fail", "x");
  EXPECT_EQ(answer.status.error_code(), StatusCode::UNKNOWN);
  EXPECT_EQ(answer.status.error_message(), text);
}

TEST_F(ForwarderTest, KeepsSpacesAtTheEndsOfAText) {
  StartBackend({{"/s.S/Fail", [&](ServerContext& context, RawStream&) {
                   context.AddTrailingMetadata("x-note", " both ");
                   return Status(StatusCode::UNKNOWN, " exec failed: ");
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Fail", SetPatience);
  call.Write("x");
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_EQ(call.Finish().error_message(), " exec failed: ");
  const auto& trailers = call.context().GetServerTrailingMetadata();
  ASSERT_EQ(trailers.count("x-note"), 1u);
  EXPECT_EQ(trailers.find("x-note")->second, " both ");
}

// A caller that connects to a path may send it as its authority.
TEST_F(ForwarderTest, AcceptsAPathAsAuthority) {
  StartBackend({{"/s.S/Echo", Echo}});
  StartForwarder();
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "/run/alignd/alignd.sock");
  const auto channel = grpc::CreateCustomChannel("unix:" + ForwarderEndpoint(),
                                                 grpc::InsecureChannelCredentials(), arguments);
  EXPECT_EQ(CallUnary(channel, "/s.S/Echo", "x", SetPatience).message, "x");
}

// Runtimes in Go keep to the limit in the settings; gRPC's C core does not, and loses its
// connection.
TEST_F(ForwarderTest, SurvivesATooLongStatusMessage) {
  const std::string text(200'000, 'e');
  StartBackend({{"/s.S/Echo", Echo}, {"/s.S/Fail", [&](ServerContext&, RawStream&) {
                                        return Status(StatusCode::UNKNOWN, text);
                                      }}});
  StartForwarder();
  const Status status = Call("/s.S/Fail", "x").status;
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(),
            "the connection to the runtime is gone: HTTP/2: COMPRESSION_ERROR; one header of the "
            "peer may exceed the 64 KiB of headers that alignd reads: see its log");
  EXPECT_EQ(Call("/s.S/Echo", "after").message, "after");
}

TEST_F(ForwarderTest, BackendRefusesUnknownMethods) {
  StartBackend({{"/s.S/Known", Echo}});
  StartForwarder();
  EXPECT_EQ(Call("/s.S/Unknown", "x").status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call("/other/Known", "x").status.error_code(), StatusCode::UNIMPLEMENTED);
}

TEST_F(ForwarderTest, PassesAServerStream) {
  StartBackend({{"/s.S/Count", [](ServerContext&, RawStream& stream) {
                   grpc::ByteBuffer request;
                   stream.Read(&request);
                   for (int i = 0; i < 500; ++i) stream.Write(ToBuffer(std::to_string(i)));
                   return Status(StatusCode::OUT_OF_RANGE, "no more numbers");
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Count", SetPatience);
  call.Write("go");
  call.WritesDone();
  for (int i = 0; i < 500; ++i) ASSERT_EQ(call.Read(), std::to_string(i));
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_EQ(call.Finish().error_message(), "no more numbers");
}

TEST_F(ForwarderTest, PassesAClientStreamAndItsEnd) {
  StartBackend({{"/s.S/Join", [](ServerContext&, RawStream& stream) {
                   std::string all;
                   grpc::ByteBuffer message;
                   while (stream.Read(&message)) all += ToText(message) + ",";
                   stream.Write(ToBuffer(all));
                   return Status::OK;
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Join", SetPatience);
  for (const char* word : {"a", "", "c"}) ASSERT_TRUE(call.Write(word));
  call.WritesDone();
  EXPECT_EQ(call.Read(), "a,,c,");
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(ForwarderTest, PassesABidirectionalStream) {
  StartBackend({{"/s.S/Echo", Echo}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Echo", SetPatience);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(call.Write(std::to_string(i)));
    ASSERT_EQ(call.Read(), std::to_string(i));
  }
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(ForwarderTest, EndsACallThatTheBackendEndsBeforeTheCallerDoes) {
  StartBackend({{"/s.S/Early", [](ServerContext&, RawStream& stream) {
                   grpc::ByteBuffer message;
                   stream.Read(&message);
                   return Status(StatusCode::ABORTED, "heard enough");
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Early", SetPatience);
  ASSERT_TRUE(call.Write("first"));
  EXPECT_EQ(call.Read(), std::nullopt);  // without a half-close from this side
  EXPECT_EQ(call.Finish().error_message(), "heard enough");
}

TEST_F(ForwarderTest, PassesMetadataBothWaysButNoConnectionHeaders) {
  std::multimap<std::string, std::string> seen;
  StartBackend({{"/s.S/Meta", [&](ServerContext& context, RawStream& stream) {
                   for (const auto& [key, value] : context.client_metadata()) {
                     seen.emplace(std::string(key.data(), key.size()),
                                  std::string(value.data(), value.size()));
                   }
                   context.AddInitialMetadata("first", "1");
                   context.AddInitialMetadata("first-bin", std::string("\0\xfe", 2));
                   context.AddTrailingMetadata("last", "a");
                   context.AddTrailingMetadata("last", "b");
                   context.AddTrailingMetadata("last-bin", std::string("\xff\0", 2));
                   return Echo(context, stream);
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Meta", [](grpc::ClientContext& context) {
    SetPatience(context);
    context.AddMetadata("traceparent", "00-1");
    context.AddMetadata("twice", "one");
    context.AddMetadata("twice", "two");
    context.AddMetadata("raw-bin", std::string("\0\x01\xff", 3));
  });
  call.WritesDone();
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_TRUE(call.Finish().ok());

  EXPECT_EQ(seen.count("user-agent"), 1u);  // the forwarder's own
  seen.erase("user-agent");
  const std::multimap<std::string, std::string> sent = {{"raw-bin", std::string("\0\x01\xff", 3)},
                                                        {"traceparent", "00-1"},
                                                        {"twice", "one"},
                                                        {"twice", "two"}};
  EXPECT_EQ(seen, sent);
  const auto& first = call.context().GetServerInitialMetadata();
  ASSERT_EQ(first.count("first"), 1u);
  EXPECT_EQ(first.find("first")->second, "1");
  ASSERT_EQ(first.count("first-bin"), 1u);
  EXPECT_EQ(first.find("first-bin")->second, grpc::string_ref("\0\xfe", 2));
  const auto& last = call.context().GetServerTrailingMetadata();
  ASSERT_EQ(last.count("last"), 2u);
  EXPECT_EQ(last.find("last")->second, "a");
  ASSERT_EQ(last.count("last-bin"), 1u);
  EXPECT_EQ(last.find("last-bin")->second, grpc::string_ref("\xff\0", 2));
}

TEST_F(ForwarderTest, PassesInitialMetadataBeforeTheFirstMessage) {
  Gate headers_seen;
  StartBackend({{"/s.S/Early", [&](ServerContext& context, RawStream& stream) {
                   context.AddInitialMetadata("ready", "yes");
                   stream.SendInitialMetadata();
                   const bool seen = headers_seen.Wait();
                   stream.Write(ToBuffer("after"));
                   return seen ? Status::OK : Status(StatusCode::INTERNAL, "headers came late");
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Early", SetPatience);
  call.WaitForInitialMetadata();
  EXPECT_EQ(call.context().GetServerInitialMetadata().count("ready"), 1u);
  headers_seen.Open();
  EXPECT_EQ(call.Read(), "after");
  EXPECT_EQ(call.Finish().error_message(), "");
}

TEST_F(ForwarderTest, PassesTheDeadline) {
  using std::chrono::seconds;
  std::chrono::system_clock::time_point seen;
  StartBackend({{"/s.S/Deadline", [&](ServerContext& context, RawStream&) {
                   seen = context.deadline();
                   return Status::OK;
                 }}});
  StartForwarder();
  const auto deadline = std::chrono::system_clock::now() + seconds(100);
  CallUnary(caller_, "/s.S/Deadline", "x",
            [&](grpc::ClientContext& context) { context.set_deadline(deadline); });
  EXPECT_LT(seen, deadline + seconds(2));
  EXPECT_GT(seen, deadline - seconds(2));
  CallUnary(caller_, "/s.S/Deadline", "x");
  EXPECT_GT(seen, deadline + std::chrono::hours(24));  // no deadline stays no deadline
}

TEST_F(ForwarderTest, EndsBothHalvesAtTheDeadline) {
  Gate ended;
  StartBackend({{"/s.S/Hang", [&](ServerContext&, RawStream& stream) {
                   grpc::ByteBuffer message;
                   while (stream.Read(&message)) {
                   }
                   ended.Open();
                   return Status::OK;
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Hang", [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  });
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_EQ(call.Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(ended.Wait());
}

TEST_F(ForwarderTest, CancelsTheBackendWhenTheCallerCancels) {
  Gate ended;
  std::atomic<bool> cancelled = false;
  StartBackend({{"/s.S/Watch", [&](ServerContext& context, RawStream& stream) {
                   stream.Write(ToBuffer("event"));
                   grpc::ByteBuffer message;
                   while (stream.Read(&message)) {
                   }
                   cancelled = context.IsCancelled();
                   ended.Open();
                   return Status::OK;
                 }}});
  StartForwarder();
  RawCall call(caller_, "/s.S/Watch", SetPatience);
  ASSERT_EQ(call.Read(), "event");
  call.context().TryCancel();
  EXPECT_EQ(call.Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_TRUE(ended.Wait());
  EXPECT_TRUE(cancelled);
}

TEST_F(ForwarderTest, PassesTheLongestMessageAndRefusesALongerOne) {
  const std::string longest(rpc::kMaxMessageBytes, 'm');
  StartBackend({{"/s.S/Echo", Echo}});
  StartForwarder();
  const RawAnswer answer = Call("/s.S/Echo", longest);
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(answer.message == longest);
  grpc::ChannelArguments unlimited;
  unlimited.SetMaxSendMessageSize(-1);
  const auto channel = grpc::CreateCustomChannel("unix:" + ForwarderEndpoint(),
                                                 grpc::InsecureChannelCredentials(), unlimited);
  const RawAnswer refused = CallUnary(channel, "/s.S/Echo", longest + "m", SetPatience);
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED)
      << refused.status.error_message();
}

TEST_F(ForwarderTest, SlowsABackendDownToTheCallersSpeed) {
  std::atomic<int> written = 0;
  StartBackend({{"/s.S/Flood", [&](ServerContext&, RawStream& stream) {
                   const grpc::ByteBuffer message = ToBuffer(std::string(1 << 20, 'f'));
                   while (written < 200 && stream.Write(message)) ++written;
                   return Status::OK;
                 }}});
  StartForwarder();
  // 200 MiB take a sanitized program on a busy machine longer than other calls.
  RawCall call(caller_, "/s.S/Flood", [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + 5 * kPatience);
  });
  ASSERT_TRUE(call.Read().has_value());
  int before = -1;
  for (int now = written; now != before; now = written) {  // until nothing more is written
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_LT(written, 100);
  int read = 1;
  while (call.Read().has_value()) ++read;
  EXPECT_EQ(read, 200);
  EXPECT_TRUE(call.Finish().ok());
}

TEST_F(ForwarderTest, AnswersUnavailableAtOnceWithoutABackendAndRecovers) {
  StartForwarder();
  const auto start = std::chrono::steady_clock::now();
  const RawAnswer answer = Call("/s.S/Echo", "x");
  EXPECT_EQ(answer.status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience / 4);

  for (int round = 0; round < 2; ++round) {
    StartBackend({{"/s.S/Echo", Echo}});
    const auto back = std::chrono::steady_clock::now();
    while (!Call("/s.S/Echo", "x").status.ok()) {
      ASSERT_LT(std::chrono::steady_clock::now() - back, kPatience);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    backend_.reset();
    EXPECT_EQ(Call("/s.S/Echo", "x").status.error_code(), StatusCode::UNAVAILABLE);
  }
}

TEST_F(ForwarderTest, KeepsManyCallsApart) {
  constexpr int kCalls = 200;
  Mutex mutex;
  CondVar changed;
  int waiting = 0;
  StartBackend({{"/s.S/Meet", [&](ServerContext& context, RawStream& stream) {
                   const auto deadline = std::chrono::steady_clock::now() + kPatience;
                   {
                     MutexLock lock(mutex);
                     ++waiting;
                     changed.NotifyAll();
                     while (waiting < kCalls && changed.WaitUntil(mutex, deadline)) {
                     }
                   }
                   return Echo(context, stream);
                 }}});
  StartForwarder();
  std::vector<std::unique_ptr<RawCall>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<RawCall>(caller_, "/s.S/Meet", [](auto& context) {
      context.set_deadline(std::chrono::system_clock::now() + 3 * kPatience);
    }));
    ASSERT_TRUE(calls.back()->Write("call " + std::to_string(i)));
    calls.back()->WritesDone();
  }
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(calls[static_cast<size_t>(i)]->Read(), "call " + std::to_string(i));
    EXPECT_TRUE(calls[static_cast<size_t>(i)]->Finish().ok());
  }
  EXPECT_EQ(waiting, kCalls);  // all were under way at the same time
}

// Both halves end at any moment of the cancel, and nothing is used after its end.
TEST_F(ForwarderTest, SurvivesCancelsAtAnyMoment) {
  StartBackend({{"/s.S/Echo", Echo}});
  StartForwarder();
  for (int i = 0; i < 200; ++i) {
    RawCall call(caller_, "/s.S/Echo", SetPatience);
    std::thread cancel([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 10));
      call.context().TryCancel();
    });
    call.Write("x");
    call.Read();
    if (i % 2 == 0) call.WritesDone();
    cancel.join();
    call.Finish();
  }
  EXPECT_TRUE(Call("/s.S/Echo", "still here").status.ok());
}

}  // namespace
}  // namespace alignd::proxy
