// Serves a few pages over HTTP/1.1, also to hostile callers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "metrics/listen_address.h"

namespace alignd::metrics {

struct HttpAnswer {
  int status = 200;
  std::string text;
  std::string content_type = "text/plain; charset=utf-8";
};

// Pages by path. The functions are called by several threads at a time.
using HttpPages = std::map<std::string, std::function<HttpAnswer()>>;

// GET and HEAD; one request per connection. No page can use anything from elsewhere, or be shown in
// a frame. Thread-safe.
//
// Callers are not trusted: there are at most `threads` threads, at most `max_waiting` connections
// wait for them, and further ones are closed at once. A connection has `request_within` for its
// request of at most `max_request_bytes`, and `answer_within` to read the answer; a body is not
// read.
class HttpServer {
 public:
  struct Settings {
    size_t threads = 4;
    size_t max_waiting = 32;
    size_t max_request_bytes = 4096;  // Prometheus sends some hundreds
    std::chrono::milliseconds request_within{2'000};
    std::chrono::milliseconds answer_within{10'000};
    // Pages that are served only to requests whose Host is an IP address, localhost or this
    // machine's name. A site whose name is made to resolve to this address could else read them in
    // a browser that has the address open (DNS rebinding).
    std::set<std::string> named_hosts_only{};
    // After an address could not be used, it is tried again.
    std::chrono::milliseconds retry{10'000};
    // The address cannot be used, or the server has ended early; and: it is served, with the port
    // that was chosen for port 0. On any thread; may be null.
    std::function<void(const Error&)> failed{};
    std::function<void(const ListenAddress&)> serving{};
  };

  // Tries to listen at once. If that fails, it calls `failed` and tries again later.
  static std::unique_ptr<HttpServer> Start(ListenAddress address, HttpPages pages,
                                           Settings settings);

  // Ends the connections at once, and removes the unix socket.
  virtual ~HttpServer() = default;

  // The TCP port that is served; 0: none, or not yet.
  virtual uint16_t port() const = 0;
  // How many connections were closed because too many waited.
  virtual uint64_t refused() const = 0;
};

}  // namespace alignd::metrics
