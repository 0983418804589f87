// One HTTP/2 connection, seen from either end: streams of headers, bytes and trailers.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "host/descriptor.h"
#include "host/event_loop.h"
#include "proxy/headers.h"
#include "proxy/pieces.h"

namespace alignd::proxy {

// Of RST_STREAM. Beyond those of HTTP/2: the connection is gone.
inline constexpr uint32_t kConnectionLost = 0xffff'ffff;

// Who is told what comes on a stream. On the loop's thread; may call any method of the session, but
// not destroy it.
class StreamEvents {
 public:
  // First those of the request or the response, then perhaps trailers. `end`: nothing follows.
  virtual void OnHeaders(Headers headers, bool end) = 0;
  // The peer may send more once these are Consumed.
  virtual void OnData(const SharedBytes& data) = 0;
  // The peer has nothing more to send. Not after OnHeaders with `end`.
  virtual void OnEnd() = 0;
  // So many bytes that were written have left.
  virtual void OnWritten(size_t bytes) = 0;
  // The last event. `code`: NGHTTP2_NO_ERROR after an orderly end, else why.
  virtual void OnClosed(uint32_t code) = 0;

 protected:
  ~StreamEvents() = default;
};

// Used on the loop's thread alone. Every method that sends does so at the end of the loop's round.
class Session final : private host::EventLoop::Watcher {
 public:
  struct Callbacks {
    // A server's: a stream begins. Its events go to what this returns, which lives until OnClosed.
    std::function<StreamEvents*(int32_t stream)> accept = nullptr;
    // The peer's settings are there: it serves the connection.
    std::function<void()> on_ready = nullptr;
    // The peer takes no new streams.
    std::function<void()> on_going_away = nullptr;
    // The connection is over, and so are all streams. May destroy the session.
    std::function<void(const std::string& why)> on_closed;
  };

  // `socket`: connected, not blocking. Errors: kIo.
  static Result<std::unique_ptr<Session>> MakeServer(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks);
  static Result<std::unique_ptr<Session>> MakeClient(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Without on_closed, and without OnClosed of streams.
  ~Session();

  // --- Streams. Those that are closed are left alone.

  // A client's new stream, or nullopt if no more can be opened: a connection has 2^30 of them.
  // `events` lives until OnClosed.
  std::optional<int32_t> Request(const Headers& headers, StreamEvents& events);
  // A server's answer.
  void Respond(int32_t stream, const Headers& headers);
  // The same, and nothing follows.
  void RespondAndEnd(int32_t stream, const Headers& headers);
  void Write(int32_t stream, std::string bytes);
  void Write(int32_t stream, const SharedBytes& data);
  // Nothing follows but the trailers, if there are any.
  void End(int32_t stream, Headers trailers = {});
  void Reset(int32_t stream, uint32_t code);
  // So many bytes of OnData are dealt with.
  void Consumed(int32_t stream, size_t bytes);

  // --- The connection.

  size_t streams() const { return streams_.size(); }
  // Has no new streams opened, by the peer or by us, lets those go on that were opened before this
  // was known, and closes the connection when they have ended.
  void Drain();
  // Sends what can be sent without waiting, and closes the connection: streams get OnClosed, nobody
  // gets on_closed.
  void Close();

 private:
  struct Outgoing {
    StreamEvents* events = nullptr;
    Pieces bytes;
    bool ended = false;
    bool deferred = false;  // nghttp2 waits for bytes
    Headers trailers;
  };

  // A runtime's error text travels in the headers and can be long; nghttp2 takes headers of 64 KiB
  // and gives the connection up at a longer one. Peers that are told so give up the call instead.
  static constexpr size_t kMaxHeaderBytes = 64 << 10;

  Session(host::EventLoop& loop, host::Descriptor socket, Callbacks callbacks, bool is_server);
  Result<Done> Open();

  // --- session_hooks.cc: how nghttp2 is set up, and what it calls.
  struct Hooks;
  void MakeNative();
  static nghttp2_data_provider Provider();  // of the bytes that are written

  void OnReady(uint32_t events) override;
  // kAll: what was there, perhaps nothing. kOver: the connection has failed, and we may be gone.
  enum class Received { kSome, kAll, kOver };
  Received Receive();
  // False if the connection is broken.
  bool Send();
  void SendSoon();
  void EndOfRound();
  void Fail(const std::string& why);
  void CloseStreams(uint32_t code);
  void Watch(bool for_writing);

  Outgoing* FindStream(int32_t stream);
  void Resume(int32_t stream, Outgoing& outgoing);
  // How many bytes of the stream, of `length` at most, the next frame is to have.
  ssize_t OfferBytes(int32_t stream, size_t length, uint32_t* flags);
  // Sends them behind the frame's header.
  int SendBytes(int32_t stream, std::string_view frame_header, size_t length);
  int StreamClosed(int32_t stream, uint32_t code);
  int FrameReceived(const nghttp2_frame& frame);
  void FrameSent(const nghttp2_frame& frame);

  host::EventLoop& loop_;
  const host::Descriptor socket_;
  const Callbacks callbacks_;
  const bool is_server_;
  nghttp2_session* session_ = nullptr;
  std::unordered_map<int32_t, Outgoing> streams_;
  SharedBuffer received_;  // what is being parsed
  Headers block_;          // being received
  Pieces out_;             // frames that the socket has not taken yet
  bool ready_ = false;
  bool draining_ = false;
  bool goes_ = false;  // the peer knows; the last GOAWAY is due
  int32_t last_stream_ = std::numeric_limits<int32_t>::max();  // named in it
  bool is_closed_ = false;
  bool sends_soon_ = false;
  bool watches_writing_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for tasks of the loop
};

}  // namespace alignd::proxy
