#include "metrics/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <httplib.h>
#include <netinet/in.h>
#include <pthread.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "host/descriptor.h"
#include "metrics/deadline_stream.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::metrics {
namespace {

// The threads of one httplib::Server, which exist while connections need them. If too many
// connections wait, a further one is closed on the thread that accepts.
class BoundedPool final : public httplib::TaskQueue {
 public:
  // `refusing` is true while a task runs that is to close its connection.
  BoundedPool(size_t max_threads, size_t max_waiting, std::atomic<bool>& refusing)
      : max_waiting_(max_waiting), refusing_(refusing), threads_(max_threads) {}
  BoundedPool(const BoundedPool&) = delete;
  BoundedPool& operator=(const BoundedPool&) = delete;
  ~BoundedPool() override { shutdown(); }

  void enqueue(std::function<void()> task) override {
    const Place place = Push(task);
    if (place == Place::kQueue) return;
    refusing_ = place == Place::kNone;
    task();
    refusing_ = false;
  }

  // Runs what waits, and ends the threads.
  void shutdown() override {
    for (Thread& thread : threads_) thread.queue.Stop();
  }

 private:
  struct Thread {
    bool is_working = false;
    alignd::TaskQueue queue{"metrics", alignd::TaskQueue::kLinger};
  };

  // Where a task runs. The thread that accepts serves callers itself while the system has no other.
  enum class Place { kQueue, kHere, kNone };

  Place Push(const std::function<void()>& task) {
    const MutexLock lock(mutex_);
    if (tasks_.size() >= max_waiting_) return Place::kNone;
    tasks_.push_back(task);
    for (Thread& thread : threads_) {
      if (thread.is_working) continue;
      thread.is_working = thread.queue.Post([this, &thread] { Work(thread); });
      if (thread.is_working) return Place::kQueue;
    }
    // There is no further thread, and those that work take it.
    if (std::ranges::any_of(threads_, &Thread::is_working)) return Place::kQueue;
    tasks_.pop_back();
    return Place::kHere;
  }

  void Work(Thread& thread) {
    while (const std::function<void()> task = Next(thread)) task();
  }

  // Empty: no task waits.
  std::function<void()> Next(Thread& thread) {
    const MutexLock lock(mutex_);
    thread.is_working = !tasks_.empty();
    if (!thread.is_working) return {};
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  const size_t max_waiting_;
  std::atomic<bool>& refusing_;
  Mutex mutex_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::deque<Thread> threads_;  // last: their tasks use the others. `is_working`: under the mutex
};

// `[::1]:10271`, `10.0.0.1`, `localhost:80`, or this machine's name; also no Host at all, which
// browsers never send.
bool IsNamedHost(std::string host) {
  if (host.empty()) return true;
  const size_t colon = host.rfind(':');
  if (host.front() == '[') {
    host = host.substr(1, host.find(']') - 1);
  } else if (colon != std::string::npos) {
    host.erase(colon);
  }
  in6_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1 ||
      inet_pton(AF_INET6, host.c_str(), &address) == 1) {
    return true;
  }
  utsname names{};
  return strcasecmp(host.c_str(), "localhost") == 0 ||
         (uname(&names) == 0 && strcasecmp(host.c_str(), names.nodename) == 0);
}

// Pages have their scripts and styles from here alone, and are shown in no frame.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// cpp-httplib's server on a socket that was made elsewhere, with our own streams. It serves once.
class Server final : public httplib::Server {
 public:
  // `stop`: becomes readable when all connections are to end. `pages` outlives the server.
  Server(const HttpPages& pages, const HttpServer::Settings& settings, int stop,
         std::atomic<uint64_t>& refused)
      : settings_(settings), stop_(stop), refused_(refused) {
    new_task_queue = [this] {
      return new BoundedPool(settings_.threads, settings_.max_waiting, refusing_);
    };
    set_payload_max_length(0);
    // Everything is answered here: the library matches no path, and reads no body.
    set_pre_routing_handler(
        [this, &pages](const httplib::Request& request, httplib::Response& response) {
          Respond(pages, request, response);
          return HandlerResponse::Handled;
        });
  }

  // Returns when `listening` was shut down, or accepting has failed. Closes it. -1: returns at
  // once.
  void Serve(int listening) {
    if (listening < 0) return;
    accepting_ = std::this_thread::get_id();
    svr_sock_ = listening;
    try {
      listen_after_bind();
    } catch (...) {
      close(svr_sock_.exchange(INVALID_SOCKET));
      throw;
    }
  }

 private:
  void Respond(const HttpPages& pages, const httplib::Request& request,
               httplib::Response& response) const {
    response.set_header("Content-Security-Policy", kContentPolicy);
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("X-Content-Type-Options", "nosniff");
    if (request.method != "GET" && request.method != "HEAD") {
      response.status = 405;
      response.set_header("Allow", "GET, HEAD");
      response.set_content("only GET and HEAD\n", "text/plain; charset=utf-8");
      return;
    }
    const auto page = pages.find(request.path);
    if (page == pages.end()) {
      response.status = 404;
      response.set_content("no such page\n", "text/plain; charset=utf-8");
      return;
    }
    if (settings_.named_hosts_only.contains(page->first) &&
        !IsNamedHost(request.get_header_value("Host"))) {
      response.status = 421;
      response.set_content(
          "this page is served under an IP address, localhost or the name of this machine; a proxy "
          "must set \"Host: localhost\"\n",
          "text/plain; charset=utf-8");
      return;
    }
    HttpAnswer answer = page->second();
    response.status = answer.status;
    response.set_header("Cache-Control", "no-store");
    response.set_content(std::move(answer.text), answer.content_type);
  }

  bool process_and_close_socket(socket_t socket) override {
    const host::Descriptor owned(socket);
    if (refusing_ && std::this_thread::get_id() == accepting_) {
      ++refused_;
      return true;
    }
    DeadlineStream stream(socket, stop_,
                          {.max_read_bytes = settings_.max_request_bytes,
                           .read_within = settings_.request_within,
                           .write_within = settings_.answer_within});
    bool closed = false;
    // A page is short. A caller could ask for thousands of overlapping ranges, each of all of it;
    // or for brotli, at whose best quality the library would compress for 0.3 s.
    const bool served =
        process_request(stream, /*close_connection=*/true, closed, [](httplib::Request& request) {
          request.ranges.clear();
          request.headers.erase("Accept-Encoding");
        });
    shutdown(socket, SHUT_RDWR);
    return served;
  }

  const HttpServer::Settings settings_;
  const int stop_;
  std::atomic<uint64_t>& refused_;
  std::atomic<bool> refusing_ = false;
  std::thread::id accepting_;  // written before the first connection
};

class ListeningServer final : public HttpServer {
 public:
  ListeningServer(ListenAddress address, HttpPages pages, Settings settings)
      : address_(std::move(address)),
        pages_(std::move(pages)),
        settings_(std::move(settings)),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    TryListen();
    thread_ = std::thread([this] { Run(); });
  }
  ListeningServer(const ListeningServer&) = delete;
  ListeningServer& operator=(const ListeningServer&) = delete;
  ~ListeningServer() override {
    (void)eventfd_write(stop_.fd(), 1);
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      if (listening_.fd() >= 0) shutdown(listening_.fd(), SHUT_RDWR);
      wake_.NotifyAll();
    }
    thread_.join();
    if (port_ == 0 && is_ours_) unlink(address_.path.c_str());
  }

  uint16_t port() const override { return port_; }
  uint64_t refused() const override { return refused_; }

 private:
  void TryListen() {
    Result<host::Descriptor> listening = Listen(address_);
    if (!listening.ok()) {
      if (settings_.failed) settings_.failed(listening.error());
      return;
    }
    port_ = PortOf(*listening);
    is_ours_ = !address_.path.empty();
    {
      const MutexLock lock(mutex_);
      listening_ = *std::move(listening);
    }
    if (!settings_.serving) return;
    ListenAddress served = address_;
    if (served.path.empty()) served.port = port_;
    settings_.serving(served);
  }

  void Run() {
    (void)pthread_setname_np(pthread_self(), "metrics-accept");
    while (!IsStopping()) {
      if (IsListening()) ServeOnce();
      if (!WaitForRetry()) return;
      TryListen();
    }
  }

  void ServeOnce() {
    Error why{ErrorCode::kIo, "listen on " + address_.ToString() + ": accepting has ended",
              "raise the limits of open files and threads, if they are reached"};
    try {
      Server server(pages_, settings_, stop_.fd(), refused_);
      server.Serve(Duplicate());
    } catch (const std::exception& error) {  // no thread, or no memory
      why.message = "listen on " + address_.ToString() + ": " + error.what();
    }
    {
      const MutexLock lock(mutex_);
      listening_ = host::Descriptor();
      if (stopping_) return;
    }
    if (settings_.failed) settings_.failed(why);
  }

  // The library closes its descriptor when it likes. Ours stays, so that the destructor shuts down
  // this socket and no other. -1: no descriptor is free.
  int Duplicate() {
    const MutexLock lock(mutex_);
    return fcntl(listening_.fd(), F_DUPFD_CLOEXEC, 0);
  }

  bool IsStopping() {
    const MutexLock lock(mutex_);
    return stopping_;
  }
  bool IsListening() {
    const MutexLock lock(mutex_);
    return listening_.fd() >= 0;
  }

  // False: stop.
  bool WaitForRetry() {
    const auto until = std::chrono::steady_clock::now() + settings_.retry;
    const MutexLock lock(mutex_);
    while (!stopping_ && wake_.WaitUntil(mutex_, until)) {
    }
    return !stopping_;
  }

  const ListenAddress address_;
  const HttpPages pages_;
  const Settings settings_;
  const host::Descriptor stop_;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint16_t> port_ = 0;
  std::atomic<bool> is_ours_ = false;  // the unix socket

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  host::Descriptor listening_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

std::unique_ptr<HttpServer> HttpServer::Start(ListenAddress address, HttpPages pages,
                                              Settings settings) {
  return std::make_unique<ListeningServer>(std::move(address), std::move(pages),
                                           std::move(settings));
}

}  // namespace alignd::metrics
