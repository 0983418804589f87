// Servers of alignd's own services, against gRPC's client and against bytes written by hand.
#include "service/unary_server.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "edge/fake_tree.h"
#include "edge/loop_thread.h"
#include "edge/raw_call.h"
#include "host/descriptor.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::service {
namespace {

using grpc::StatusCode;
using testing::CallUnary;
using testing::RawAnswer;

constexpr char kMethod[] = "/test.Service/Method";

void Echo(const Call& call) { call.answer(call.request); }

class UnaryServerTest : public ::testing::Test {
 protected:
  void Serve(Methods methods) {
    auto server = UnaryServer::Start(services_.loop(), Socket(), std::move(methods));
    ASSERT_TRUE(server.ok()) << server.error().Text();
    server_ = *std::move(server);
    caller_ = *rpc::Dial(Socket());
  }

  std::string Socket() const { return (tree_.root() / "service.sock").string(); }

  const testing::FakeTree tree_;
  const testing::LoopThread services_;
  TaskQueue queue_{"test"};
  std::unique_ptr<UnaryServer> server_;
  std::shared_ptr<grpc::Channel> caller_;
};

// A connection whose other end writes HTTP/2 by hand.
class HandWritten {
 public:
  explicit HandWritten(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    EXPECT_EQ(connect(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    nghttp2_hd_deflate_new(&deflater_, 0);  // without a dynamic table: the same bytes each time
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    Send(Frame(NGHTTP2_SETTINGS, 0, 0, ""));
  }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;
  ~HandWritten() { nghttp2_hd_deflate_del(deflater_); }

  static std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
    std::string frame;
    for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift & 0xff);
    frame += {static_cast<char>(type), static_cast<char>(flags)};
    for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 0xff);
    return frame.append(payload);
  }

  // Begins a call, with its whole message.
  std::string CallFrames(uint32_t stream) {
    const std::vector<std::pair<std::string, std::string>> headers = {
        {":method", "POST"},         {":scheme", "http"}, {":path", kMethod},
        {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : headers) {
      list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    std::array<uint8_t, 1024> block;
    const ssize_t size =
        nghttp2_hd_deflate_hd(deflater_, block.data(), block.size(), list.data(), list.size());
    EXPECT_GT(size, 0);
    return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream,
                 {reinterpret_cast<char*>(block.data()), static_cast<size_t>(size)}) +
           Frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream, std::string(5, '\0'));
  }

  // All of it; EPIPE if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // The type of the next frame, waited for; nullopt at the end of the connection.
  std::optional<uint8_t> NextFrame() {
    std::string header;
    if (!Read(header, 9)) return std::nullopt;
    const auto at = [&](size_t i) { return size_t{static_cast<unsigned char>(header[i])}; };
    std::string payload;
    if (!Read(payload, at(0) << 16 | at(1) << 8 | at(2))) return std::nullopt;
    return static_cast<uint8_t>(header[3]);
  }

  bool IsClosed() {
    while (NextFrame()) {
    }
    return true;
  }

 private:
  bool Read(std::string& into, size_t size) {
    into.resize(size);
    for (size_t done = 0; done < size;) {
      const ssize_t got = read(socket_.fd(), into.data() + done, size - done);
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }

  const host::Descriptor socket_;
  nghttp2_hd_deflater* deflater_ = nullptr;
};

// Keeps the calls that it gets.
class Keeper {
 public:
  Method method() {
    return [this](Call call) {
      const MutexLock lock(mutex_);
      calls_.push_back(std::move(call));
      came_.NotifyAll();
    };
  }
  size_t size() {
    const MutexLock lock(mutex_);
    return calls_.size();
  }
  void WaitFor(size_t count) {
    const MutexLock lock(mutex_);
    while (calls_.size() < count) came_.Wait(mutex_);
  }
  std::vector<Call> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::vector<Call> calls_ GUARDED_BY(mutex_);
};

TEST_F(UnaryServerTest, AnswersGrpcsClient) {
  Serve({{kMethod, Echo}});
  EXPECT_EQ(CallUnary(caller_, kMethod, "hello").message, "hello");
  EXPECT_EQ(CallUnary(caller_, kMethod, "").message, "");
  const std::string long_text(60 << 10, 'x');
  EXPECT_EQ(CallUnary(caller_, kMethod, long_text).message, long_text);
}

TEST_F(UnaryServerTest, RefusesWhatItDoesNotServe) {
  Serve({{kMethod, Echo},
         {"/test.Service/Long",
          [](const Call& call) { call.answer(std::string((16 << 20) + 1, 'x')); }},
         {"/test.Service/Dropped", [](const Call&) {}},
         {"/test.Service/Typed",
          Computed<v1beta1::RegisterRequest, v1beta1::Empty>([](const auto&, auto&, const auto&) {
            return grpc::Status(StatusCode::NOT_FOUND, "nothing");
          })}});
  const auto status = [&](const std::string& method, const std::string& request) {
    return CallUnary(caller_, method.c_str(), request).status;
  };
  EXPECT_EQ(status("/test.Service/Other", "").error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status("/test.Service/Other", "").error_message(),
            "unknown method /test.Service/Other");
  EXPECT_EQ(status(kMethod, std::string((64 << 10) + 1, 'x')).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status("/test.Service/Long", "").error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status("/test.Service/Dropped", "").error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status("/test.Service/Typed", "\xff").error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(status("/test.Service/Typed", "").error_message(), "nothing");
  EXPECT_EQ(CallUnary(caller_, kMethod, "still there").message, "still there");
}

TEST_F(UnaryServerTest, HoldsACallerToItsStreamsThatNeverAcknowledgesTheLimit) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}, {"/test.Service/Echo", Echo}});
  HandWritten caller(Socket());
  constexpr uint32_t kCalls = 1000;
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(caller.Send(caller.CallFrames(2 * i + 1)));
  }
  for (uint32_t refused = 0; refused < kCalls - 100;) {
    const std::optional<uint8_t> type = caller.NextFrame();
    ASSERT_TRUE(type) << "closed after " << refused << " refused streams";
    if (*type == NGHTTP2_RST_STREAM) ++refused;
  }
  EXPECT_EQ(keeper.size(), 100U);
  EXPECT_EQ(CallUnary(caller_, "/test.Service/Echo", "other").message, "other");
  for (const Call& call : keeper.Take()) {
    EXPECT_FALSE(call.IsCancelled());
    call.answer("");
  }
}

TEST_F(UnaryServerTest, ReportsThatTheCallerHasGone) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}});
  std::optional<HandWritten> caller(std::in_place, Socket());
  ASSERT_TRUE(caller->Send(caller->CallFrames(1)));
  keeper.WaitFor(1);
  const std::vector<Call> calls = keeper.Take();
  EXPECT_FALSE(calls[0].IsCancelled());
  caller.reset();
  while (!calls[0].IsCancelled()) usleep(1000);
  calls[0].answer("without effect");
}

TEST_F(UnaryServerTest, ClosesIdleConnectionsToServeNewOnes) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}, {"/test.Service/Echo", Echo}});
  std::vector<std::unique_ptr<HandWritten>> callers;
  callers.push_back(std::make_unique<HandWritten>(Socket()));
  ASSERT_TRUE(callers[0]->Send(callers[0]->CallFrames(1)));
  keeper.WaitFor(1);
  while (callers.size() < 300) callers.push_back(std::make_unique<HandWritten>(Socket()));
  EXPECT_EQ(CallUnary(caller_, "/test.Service/Echo", "served").message, "served");
  EXPECT_TRUE(callers[1]->IsClosed());  // the oldest that is idle
  EXPECT_FALSE(keeper.Take()[0].IsCancelled());
}

TEST_F(UnaryServerTest, RefusesWhatTheQueueCannotTake) {
  Keeper keeper;
  std::atomic<bool> runs = false;
  std::atomic<bool> goes_on = false;
  Serve({{kMethod, OnQueue(queue_, [&](const Call& call) {
            runs = true;
            while (!goes_on) usleep(1000);
            call.answer(call.request);
          })}});
  std::vector<std::unique_ptr<HandWritten>> callers;
  callers.push_back(std::make_unique<HandWritten>(Socket()));
  ASSERT_TRUE(callers[0]->Send(callers[0]->CallFrames(1)));
  while (!runs) usleep(1000);
  for (int i = 0; i < 2; ++i) {
    callers.push_back(std::make_unique<HandWritten>(Socket()));
    for (uint32_t call = 0; call < 60; ++call) {
      ASSERT_TRUE(callers.back()->Send(callers.back()->CallFrames(2 * call + 1)));
    }
  }
  while (queue_.size() < kMaxWaiting) usleep(1000);
  EXPECT_EQ(CallUnary(caller_, kMethod, "more").status.error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  goes_on = true;
  while (queue_.size() > 0) usleep(1000);
  EXPECT_EQ(CallUnary(caller_, kMethod, "later").message, "later");
}

TEST_F(UnaryServerTest, RemovesItsSocketAndEndsWhatWaits) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}});
  HandWritten caller(Socket());
  ASSERT_TRUE(caller.Send(caller.CallFrames(1)));
  keeper.WaitFor(1);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(Socket()));
  EXPECT_TRUE(caller.IsClosed());
  const std::vector<Call> calls = keeper.Take();
  EXPECT_TRUE(calls[0].IsCancelled());
  calls[0].answer("too late");
}

}  // namespace
}  // namespace alignd::service
