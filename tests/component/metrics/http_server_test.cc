// The HTTP server and its callers, also hostile ones.
#include "metrics/http_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/http_client.h"
#include "edge/no_threads.h"
#include "edge/process.h"
#include "edge/thread_names.h"

namespace alignd::metrics {
namespace {

using std::chrono::milliseconds;
using testing::ConnectTcp;
using testing::ConnectUnix;
using testing::Get;
using testing::HttpReply;
using testing::WaitUntil;

constexpr size_t kLongText = 8 << 20;

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServer::Settings settings = {}, ListenAddress address = {.ip = "127.0.0.1"}) {
    settings.failed = [this](const Error&) { ++failures_; };
    settings.serving = [this](const ListenAddress& served) {
      served_port_ = served.port;
      ++servings_;
    };
    server_ = HttpServer::Start(
        std::move(address),
        {{"/ok", [] { return HttpAnswer{.text = "ok"}; }},
         {"/bad", [] { return HttpAnswer{.status = 503, .text = "not ready\n"}; }},
         {"/wait",
          [this] {
            ++waiting_;
            EXPECT_TRUE(WaitUntil([this] { return goes_on_.load(); }));
            return HttpAnswer{.text = "waited"};
          }},
         {"/long", [] { return HttpAnswer{.text = std::string(kLongText, 'x')}; }}},
        std::move(settings));
  }
  HttpReply GetPage(const std::string& path, const std::string& method = "GET") const {
    return Get(ConnectTcp(server_->port()), path, method);
  }

  static int Threads() { return testing::ThreadNames()["metrics"]; }

  std::atomic<int> waiting_ = 0;
  std::atomic<bool> goes_on_ = false;
  std::atomic<int> failures_ = 0;
  std::atomic<int> servings_ = 0;
  std::atomic<int> served_port_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesItsPagesAndNothingElse) {
  Start();
  ASSERT_NE(server_->port(), 0);
  EXPECT_EQ(served_port_, server_->port());  // not the 0 of the address
  const HttpReply ok = GetPage("/ok");
  EXPECT_EQ(ok.status, 200);
  EXPECT_EQ(ok.body, "ok");
  EXPECT_NE(ok.headers.find("Content-Type: text/plain; charset=utf-8"), std::string::npos);
  EXPECT_EQ(GetPage("/ok?verbose").body, "ok");
  EXPECT_EQ(GetPage("/bad").status, 503);
  EXPECT_EQ(GetPage("/bad").body, "not ready\n");
  EXPECT_EQ(GetPage("/long").body.size(), kLongText);
  const HttpReply head = GetPage("/ok", "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  for (const std::string path : {"/", "/ok/", "/../etc/passwd", "/OK", "//ok"}) {
    EXPECT_EQ(GetPage(path).status, 404) << path;
  }
  for (const std::string method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
    EXPECT_EQ(GetPage("/ok", method).status, 405) << method;
  }
  EXPECT_EQ(failures_, 0);
  EXPECT_EQ(servings_, 1);
}

TEST_F(HttpServerTest, NothingIsUsedFromElsewhere) {
  Start();
  const std::string headers = GetPage("/ok").headers;
  EXPECT_NE(headers.find("Content-Security-Policy: default-src 'none'; "), std::string::npos)
      << headers;
  EXPECT_EQ(headers.find("unsafe"), std::string::npos) << headers;
  EXPECT_NE(headers.find("frame-ancestors 'none'"), std::string::npos) << headers;
  EXPECT_NE(headers.find("X-Content-Type-Options: nosniff"), std::string::npos) << headers;
}

// A foreign site whose name resolves to this address.
TEST_F(HttpServerTest, PagesThatNamePodsNeedAnAddressOrOurNameAsHost) {
  Start({.named_hosts_only = {"/ok"}});
  const auto reply = [this](const std::string& path, const std::string& host) {
    const auto connection = ConnectTcp(server_->port());
    testing::SendText(connection, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    return testing::ReadReply(connection);
  };
  utsname names{};
  ASSERT_EQ(uname(&names), 0);
  for (const std::string& host : std::vector<std::string>{
           "localhost:10271", "LOCALHOST", "127.0.0.1", "10.1.2.3:80", "[::1]:10271", "[::1]",
           names.nodename, std::string(names.nodename) + ":10271"}) {
    EXPECT_EQ(reply("/ok", host).status, 200) << host;
  }
  for (const std::string host : {"evil.example", "evil.example:10271", "localhost.evil.example",
                                 "127.0.0.1.evil.example", "[evil.example]", "["}) {
    const HttpReply refused = reply("/ok", host);
    EXPECT_EQ(refused.status, 421) << host;
    // What to do behind a proxy that keeps the caller's Host.
    EXPECT_NE(refused.body.find("a proxy must set \"Host: localhost\""), std::string::npos)
        << refused.body;
    EXPECT_EQ(reply("/bad", host).status, 503) << host;
  }
}

TEST_F(HttpServerTest, GarbageGetsAnErrorOrNothing) {
  Start();
  const std::string endless(1 << 20, 'a');
  for (const std::string& text : std::vector<std::string>{
           std::string("\r\n\r\n"), std::string("GET\r\n\r\n"),
           std::string("\0\xff\x16\x03\x01", 5), "GET /" + endless + " HTTP/1.1\r\n\r\n",
           "GET /ok HTTP/1.1\r\nA: " + endless + "\r\n\r\n",
           "GET /ok HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
           std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    const host::Descriptor connection = ConnectTcp(server_->port());
    ASSERT_GE(connection.fd(), 0);
    testing::SendText(connection, text);
    shutdown(connection.fd(), SHUT_WR);
    (void)testing::ReadReply(connection);
  }
  EXPECT_EQ(GetPage("/ok").status, 200);
}

// Each range would be a copy of the page.
TEST_F(HttpServerTest, RangesAreIgnored) {
  Start();
  std::string ranges = "0-";
  while (ranges.size() < 3500) ranges += ",0-";
  const host::Descriptor connection = ConnectTcp(server_->port());
  testing::SendText(connection, "GET /long HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n");
  const HttpReply reply = testing::ReadReply(connection);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body.size(), kLongText);
}

// Brotli at its best would compress a page for 0.3 s.
TEST_F(HttpServerTest, PagesAreNotCompressed) {
  Start();
  for (const std::string coding : {"br", "gzip", "gzip, deflate, br"}) {
    const host::Descriptor connection = ConnectTcp(server_->port());
    testing::SendText(connection,
                      "GET /long HTTP/1.1\r\nAccept-Encoding: gzip\r\n"
                      "Accept-Encoding: " +
                          coding + "\r\n\r\n");
    const HttpReply reply = testing::ReadReply(connection);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.find("Content-Encoding"), std::string::npos) << coding;
    EXPECT_EQ(reply.body.size(), kLongText);
  }
}

// Headers without end take no more memory than the limit.
TEST_F(HttpServerTest, ARequestHasALimitInBytes) {
  Start({.max_request_bytes = 4096, .request_within = std::chrono::seconds(60)});
  const host::Descriptor connection = ConnectTcp(server_->port());
  std::string request = "GET /ok HTTP/1.1\r\n";
  while (request.size() < 5000) request += "A" + std::to_string(request.size()) + ": b\r\n";
  testing::SendText(connection, request + "\r\n");
  EXPECT_NE(testing::ReadReply(connection).status, 200);
  EXPECT_EQ(GetPage("/ok").status, 200);
}

// One byte now and then does not extend the deadline.
TEST_F(HttpServerTest, SlowCallersAreCutOff) {
  Start({.threads = 1, .request_within = milliseconds(100)});
  const host::Descriptor slow = ConnectTcp(server_->port());
  ASSERT_TRUE(testing::SendText(slow, "GET /ok HTTP/1.1\r\n"));
  EXPECT_TRUE(WaitUntil([&] { return !testing::SendText(slow, "a"); }));
  EXPECT_EQ(GetPage("/ok").status, 200);
}

TEST_F(HttpServerTest, ACallerThatDoesNotReadIsCutOff) {
  Start({.threads = 1, .answer_within = milliseconds(100)});
  const host::Descriptor deaf = ConnectTcp(server_->port());
  ASSERT_TRUE(testing::SendText(deaf, "GET /long HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(GetPage("/ok").status, 200);  // the only thread is free again
}

TEST_F(HttpServerTest, HasThreadsWhileCallersNeedThem) {
  Start({.threads = 3});
  EXPECT_EQ(Threads(), 0);
  EXPECT_EQ(GetPage("/ok").status, 200);
  EXPECT_EQ(Threads(), 1);
  std::vector<std::future<HttpReply>> callers;
  for (int i = 0; i < 5; ++i) {
    callers.push_back(std::async(std::launch::async, [this] { return GetPage("/wait"); }));
  }
  EXPECT_TRUE(WaitUntil([this] { return waiting_ == 3; }));
  EXPECT_EQ(Threads(), 3);
  goes_on_ = true;
  for (auto& caller : callers) EXPECT_EQ(caller.get().status, 200);
  EXPECT_TRUE(WaitUntil([] { return Threads() == 0; }));  // after TaskQueue::kLinger
  EXPECT_EQ(GetPage("/ok").status, 200);
}

TEST_F(HttpServerTest, ServesCallersOneByOneIfNoFurtherThreadCanBeStarted) {
  Start({.threads = 3});
  EXPECT_EQ(GetPage("/ok").status, 200);
  std::vector<host::Descriptor> callers;
  const testing::NoThreads none;
  for (int i = 0; i < 3; ++i) {
    callers.push_back(ConnectTcp(server_->port()));
    ASSERT_TRUE(testing::SendText(callers.back(), "GET /wait HTTP/1.1\r\nHost: [::1]\r\n\r\n"));
  }
  EXPECT_TRUE(WaitUntil([this] { return waiting_ == 1; }));
  EXPECT_EQ(Threads(), 1);
  goes_on_ = true;
  for (const host::Descriptor& caller : callers) EXPECT_EQ(testing::ReadReply(caller).status, 200);
  EXPECT_EQ(waiting_, 3);
}

TEST_F(HttpServerTest, TheAcceptingThreadServesCallersIfThereIsNoOther) {
  Start({.threads = 3});
  std::vector<host::Descriptor> callers;
  const testing::NoThreads none;
  for (int i = 0; i < 3; ++i) {
    callers.push_back(ConnectTcp(server_->port()));
    ASSERT_TRUE(testing::SendText(callers.back(), "GET /ok HTTP/1.1\r\nHost: [::1]\r\n\r\n"));
  }
  for (const host::Descriptor& caller : callers) EXPECT_EQ(testing::ReadReply(caller).status, 200);
  EXPECT_EQ(Threads(), 0);
  EXPECT_EQ(server_->refused(), 0U);
}

TEST_F(HttpServerTest, AFloodOfConnectionsIsBoundedAndPasses) {
  Start({.threads = 2, .max_waiting = 4, .request_within = milliseconds(200)});
  std::vector<host::Descriptor> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(ConnectTcp(server_->port()));
  EXPECT_TRUE(WaitUntil([&] { return server_->refused() > 0; }));
  // The callers stay, and send nothing; their time ends.
  EXPECT_TRUE(WaitUntil([&] { return GetPage("/ok").status == 200; }));
}

TEST_F(HttpServerTest, StopsAtOnceAlsoWithCallersThatHang) {
  Start({.threads = 1, .request_within = std::chrono::hours(1)});
  std::vector<host::Descriptor> callers;
  for (int i = 0; i < 8; ++i) callers.push_back(ConnectTcp(server_->port()));
  server_.reset();  // does not wait for an hour
  EXPECT_EQ(testing::ReadReply(callers.front()).status, 0);
}

TEST_F(HttpServerTest, AnAddressInUseIsTriedAgain) {
  std::optional<host::Descriptor> first(std::in_place);
  Result<host::Descriptor> taken = Listen({.ip = "127.0.0.1"});
  ASSERT_TRUE(taken.ok());
  first = *std::move(taken);
  const uint16_t port = PortOf(*first);
  Start({.retry = milliseconds(50)}, {.ip = "127.0.0.1", .port = port});
  EXPECT_EQ(servings_, 0);
  EXPECT_GE(failures_, 1);
  EXPECT_EQ(server_->port(), 0);
  first.reset();
  EXPECT_TRUE(WaitUntil([&] { return servings_ == 1; }));
  EXPECT_EQ(GetPage("/ok").status, 200);
}

TEST_F(HttpServerTest, AUnixSocketIsForOwnerAndGroupAndIsRemoved) {
  const testing::FakeTree tree;
  const std::string path = (tree.root() / "metrics.sock").string();
  Start({}, {.path = path});
  EXPECT_EQ(Get(ConnectUnix(path), "/ok").body, "ok");
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace alignd::metrics
