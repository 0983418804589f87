// One HTTP/2 connection, as its server or its client: streams of headers, bytes and trailers.
#pragma once

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/descriptor.h"
#include "host/event_loop.h"
#include "proxy/headers.h"
#include "proxy/pieces.h"

namespace alignd::proxy {

// Codes beside the error codes of HTTP/2: the connection is gone; the peer's headers are too long.
inline constexpr uint32_t kConnectionLost = 0xffff'ffff;
inline constexpr uint32_t kHeadersTooLong = 0xffff'fffe;

// Why a stream was reset with `code`, for a person.
std::string ResetReason(uint32_t code);

// Receives the events of one stream, on the loop's thread. May call any method of the session, but
// not destroy it.
class StreamEvents {
 public:
  // The headers of the request or the response, later perhaps trailers. `end`: nothing follows.
  virtual void OnHeaders(Headers headers, bool end) = 0;
  // The peer may send more once these are Consumed.
  virtual void OnData(const SharedBytes& data) = 0;
  // The peer has nothing more to send. Not after OnHeaders with `end`.
  virtual void OnEnd() = 0;
  // So many of the written bytes have been sent.
  virtual void OnWritten(size_t bytes) = 0;
  // The last event. `code`: NGHTTP2_NO_ERROR after an orderly end, else the reason.
  virtual void OnClosed(uint32_t code) = 0;

 protected:
  ~StreamEvents() = default;
};

// Used on the loop's thread only. Methods that send do so at the end of the loop's round.
class Session final : private host::EventLoop::Watcher {
 public:
  struct Callbacks {
    // Of a server: a stream begins. Returns the receiver of its events, which lives until OnClosed.
    std::function<StreamEvents*(int32_t stream)> accept = nullptr;
    // The peer's settings have arrived: it serves the connection.
    std::function<void()> on_ready = nullptr;
    // The peer accepts no new streams.
    std::function<void()> on_going_away = nullptr;
    // The connection and all its streams have ended. May destroy the session.
    std::function<void(const std::string& why)> on_closed;
  };

  // `socket`: connected, not blocking. `max_streams`: of the peer at a time, also of a peer that
  // does not acknowledge this limit; further streams are refused. A peer that does not read the
  // answers to its frames loses the connection, as a client's peer does. Errors: kIo.
  static Result<std::unique_ptr<Session>> MakeServer(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks, uint32_t max_streams);
  static Result<std::unique_ptr<Session>> MakeClient(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Without on_closed, and without OnClosed of streams.
  ~Session();

  // --- Streams. On a closed stream, these methods do nothing.

  // A client's new stream; nullopt if no more can be opened: a connection can have 2^30 of them.
  // `events` lives until OnClosed.
  std::optional<int32_t> Request(const Headers& headers, StreamEvents& events);
  // A server's answer.
  void Respond(int32_t stream, const Headers& headers);
  // An answer of headers alone.
  void RespondAndEnd(int32_t stream, const Headers& headers);
  void Write(int32_t stream, std::string bytes);
  void Write(int32_t stream, const SharedBytes& data);
  // Nothing follows but the trailers, if they are not empty.
  void End(int32_t stream, Headers trailers = {});
  void Reset(int32_t stream, uint32_t code);
  // So many bytes of OnData have been processed: the peer may send as many more.
  void Consumed(int32_t stream, size_t bytes);

  // --- The connection.

  size_t streams() const { return streams_.size(); }
  // Why the connection has ended, also for its streams' OnClosed; empty if Close has ended it.
  const std::string& why() const { return why_; }
  // Ends the connection in order: neither side opens new streams, and the connection closes when
  // the last stream has ended. Streams that the peer opened before it knew go on. A server's
  // connection is closed by the peer, or 100 ms later.
  void Drain();
  // Sends what can be sent without waiting, and closes the connection. Streams get OnClosed;
  // on_closed is not called.
  void Close();

 private:
  struct Outgoing {
    StreamEvents* events = nullptr;
    Pieces bytes;
    bool ended = false;
    bool is_reset = false;          // sends no more bytes
    bool headers_too_long = false;  // those of the peer
    bool deferred = false;          // nghttp2 waits for bytes from Write
    Headers trailers;
  };

  // A runtime's error text is a header and can be long. nghttp2 accepts headers of 64 KiB and
  // closes the connection at a longer one. A peer that knows this limit ends only the call.
  static constexpr size_t kMaxHeaderBytes = 64 << 10;
  // A round ends after a short read, and what was read is sent: with many calls in flight, the next
  // process works on the first ones while this one reads the others. Full reads make the next one
  // longer, because a long answer is faster in large pieces.
  static constexpr size_t kShortestRead = 512;
  // For a peer that has not closed a drained connection.
  static constexpr std::chrono::milliseconds kLinger{100};

  Session(host::EventLoop& loop, host::Descriptor socket, Callbacks callbacks, bool is_server);
  Result<Done> Open(uint32_t max_streams);

  // --- session_hooks.cc: the options of nghttp2, and its callbacks.
  struct Hooks;
  void MakeNative();
  static nghttp2_data_provider Provider();  // reads the bytes of Write
  // The frame says that the connection ends with an error.
  void NoteGoAway(const nghttp2_goaway& frame, bool of_peer);
  bool TooMuchWaits() const;

  void OnReady(uint32_t events) override;
  // kAll: everything that had arrived, perhaps nothing. kOver: the connection has failed, and this
  // session may have been destroyed.
  enum class Received { kSome, kAll, kOver };
  Received Receive();
  // False if the connection is broken.
  bool Send();
  void SendSoon();
  void EndOfRound();
  void Ended();
  void Fail(const std::string& why);
  void CloseStreams(uint32_t code);
  void Watch(bool for_writing);

  // Null if it is not known, or not open yet.
  Outgoing* FindStream(int32_t stream);
  // The list is valid until the next one; nghttp2 copies it.
  const std::vector<nghttp2_nv>& NameValues(const Headers& headers);
  void Resume(int32_t stream, Outgoing& outgoing);
  // The number of bytes of the stream for the next frame, at most `length`.
  ssize_t OfferBytes(int32_t stream, size_t length, uint32_t* flags);
  // Sends the frame's header and the bytes.
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
  // The one that FindStream found last: most steps of a call follow each other.
  std::pair<int32_t, Outgoing*> found_{0, nullptr};
  std::vector<nghttp2_nv> name_values_;  // its memory is used again
  size_t read_bytes_ = kShortestRead;    // of the next read, at most
  SharedBuffer received_;                // being parsed
  Headers block_;                        // being received
  Pieces out_;                           // frames that the socket has not accepted yet
  bool ready_ = false;
  bool draining_ = false;
  bool goes_ = false;  // the peer knows that this side drains; the last GOAWAY is due
  int32_t last_stream_ = std::numeric_limits<int32_t>::max();  // as the last GOAWAY names it
  bool lingers_ = false;                                       // waits for the peer to close
  std::string why_;                                            // the reason that is known first
  bool is_closed_ = false;
  bool sends_soon_ = false;
  bool watches_writing_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for tasks of the loop
};

}  // namespace alignd::proxy
