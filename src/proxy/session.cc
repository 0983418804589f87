#include "proxy/session.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace alignd::proxy {
namespace {

// The number of bytes that a peer may send on one stream before they are consumed.
constexpr int32_t kStreamWindow = 2 << 20;
// The number of waiting bytes of a stream that may keep their read buffers, which can be many times
// larger. Further bytes are copied: they wait long enough.
constexpr size_t kMaxShared = 512 << 10;
// Streams do not wait for each other: bytes that arrive are consumed from the connection's window
// at once.
constexpr int32_t kConnectionWindow = 64 << 20;
constexpr int kReadsPerRound = 4;  // so that other connections get their turn
constexpr size_t kReadGrowth = 4;  // see kShortestRead
constexpr size_t kWriteBytes = 256 << 10;

// Shared by all sessions of a loop, which has one thread.
SharedBuffer TakeBuffer() {
  static thread_local ReadBuffers buffers;
  return buffers.Take();
}

}  // namespace

Result<std::unique_ptr<Session>> Session::MakeServer(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks, uint32_t max_streams) {
  std::unique_ptr<Session> session(
      new Session(loop, std::move(socket), std::move(callbacks), /*is_server=*/true));
  const Result<Done> opened = session->Open(max_streams);
  if (!opened.ok()) return opened.error();
  return session;
}

Result<std::unique_ptr<Session>> Session::MakeClient(host::EventLoop& loop, host::Descriptor socket,
                                                     Callbacks callbacks) {
  std::unique_ptr<Session> session(
      new Session(loop, std::move(socket), std::move(callbacks), /*is_server=*/false));
  const Result<Done> opened = session->Open(/*max_streams=*/0);
  if (!opened.ok()) return opened.error();
  return session;
}

Session::Session(host::EventLoop& loop, host::Descriptor socket, Callbacks callbacks,
                 bool is_server)
    : loop_(loop),
      socket_(std::move(socket)),
      callbacks_(std::move(callbacks)),
      is_server_(is_server) {
  MakeNative();
}

Result<Done> Session::Open(uint32_t max_streams) {
  const Result<Done> watched = loop_.Watch(socket_.fd(), EPOLLIN, *this);
  if (!watched.ok()) return watched.error();
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, kMaxHeaderBytes},
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, is_server_ ? 3 : 4);
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  SendSoon();
  return Done{};
}

Session::~Session() {
  *alive_ = false;
  if (!is_closed_) loop_.Unwatch(socket_.fd());
  nghttp2_session_del(session_);
}

// --- Streams.

Session::Outgoing* Session::FindStream(int32_t stream) {
  if (found_.first != stream || found_.second == nullptr) {
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return nullptr;
    found_ = {stream, &found->second};
  }
  return found_.second->events == nullptr ? nullptr : found_.second;
}

std::optional<int32_t> Session::Request(const Headers& headers, StreamEvents& events) {
  if (is_closed_) return std::nullopt;
  const std::vector<nghttp2_nv>& list = NameValues(headers);
  const nghttp2_data_provider provider = Provider();
  const int32_t stream =
      nghttp2_submit_request(session_, nullptr, list.data(), list.size(), &provider, nullptr);
  if (stream < 0) return std::nullopt;
  streams_[stream].events = &events;
  SendSoon();
  return stream;
}

void Session::Respond(int32_t stream, const Headers& headers) {
  if (is_closed_ || FindStream(stream) == nullptr) return;
  const std::vector<nghttp2_nv>& list = NameValues(headers);
  const nghttp2_data_provider provider = Provider();
  nghttp2_submit_response(session_, stream, list.data(), list.size(), &provider);
  SendSoon();
}

void Session::RespondAndEnd(int32_t stream, const Headers& headers) {
  if (is_closed_ || FindStream(stream) == nullptr) return;
  const std::vector<nghttp2_nv>& list = NameValues(headers);
  nghttp2_submit_response(session_, stream, list.data(), list.size(), nullptr);
  SendSoon();
}

void Session::Resume(int32_t stream, Outgoing& outgoing) {
  if (std::exchange(outgoing.deferred, false)) nghttp2_session_resume_data(session_, stream);
  SendSoon();
}

void Session::Write(int32_t stream, std::string bytes) {
  Outgoing* const outgoing = FindStream(stream);
  if (is_closed_ || outgoing == nullptr || outgoing->is_reset || bytes.empty()) return;
  outgoing->bytes.AppendOwned(std::move(bytes));
  Resume(stream, *outgoing);
}

void Session::Write(int32_t stream, const SharedBytes& data) {
  Outgoing* const outgoing = FindStream(stream);
  if (is_closed_ || outgoing == nullptr || outgoing->is_reset || data.bytes.empty()) return;
  if (outgoing->bytes.size() < kMaxShared) {
    outgoing->bytes.Append(data);
  } else {
    outgoing->bytes.Append(data.bytes);
  }
  Resume(stream, *outgoing);
}

void Session::End(int32_t stream, Headers trailers) {
  Outgoing* const outgoing = FindStream(stream);
  if (is_closed_ || outgoing == nullptr || outgoing->ended || outgoing->is_reset) return;
  outgoing->ended = true;
  outgoing->trailers = std::move(trailers);
  Resume(stream, *outgoing);
}

void Session::Reset(int32_t stream, uint32_t code) {
  Outgoing* const outgoing = FindStream(stream);
  if (is_closed_ || outgoing == nullptr) return;
  // A peer that does not read keeps the RST_STREAM, and so the stream, waiting.
  outgoing->is_reset = true;
  outgoing->bytes = {};
  outgoing->ended = false;
  outgoing->trailers = {};
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, code);
  SendSoon();
}

void Session::Consumed(int32_t stream, size_t bytes) {
  if (is_closed_ || FindStream(stream) == nullptr) return;
  nghttp2_session_consume_stream(session_, stream, bytes);
  SendSoon();
}

// --- Called by nghttp2.

ssize_t Session::OfferBytes(int32_t stream, size_t length, uint32_t* flags) {
  Outgoing* const outgoing = FindStream(stream);
  if (outgoing == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  // A frame of one piece needs no copy.
  const size_t size = std::min(length, outgoing->bytes.FirstSize());
  if (size == 0 && !outgoing->ended) {
    outgoing->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  if (size > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (outgoing->ended && size == outgoing->bytes.size()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!outgoing->trailers.empty()) {
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const std::vector<nghttp2_nv>& list = NameValues(outgoing->trailers);
      nghttp2_submit_trailer(session_, stream, list.data(), list.size());
    }
  }
  return static_cast<ssize_t>(size);
}

int Session::SendBytes(int32_t stream, std::string_view frame_header, size_t length) {
  Outgoing* const outgoing = FindStream(stream);
  if (outgoing == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  out_.Append(frame_header);
  out_.AppendFrom(outgoing->bytes, length);
  outgoing->events->OnWritten(length);
  // Without a pause, nghttp2 would pack as many frames as the peer's window allows, even if the
  // socket accepts fewer bytes.
  return out_.size() < kWriteBytes ? 0 : NGHTTP2_ERR_PAUSE;
}

int Session::FrameReceived(const nghttp2_frame& frame) {
  const bool end = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame.hd.type) {
    case NGHTTP2_HEADERS:
      if (const Outgoing* known = FindStream(frame.hd.stream_id)) {
        known->events->OnHeaders(std::exchange(block_, {}), end);
      }
      break;
    case NGHTTP2_DATA:
      if (const Outgoing* known = FindStream(frame.hd.stream_id); end && known != nullptr) {
        known->events->OnEnd();
      }
      break;
    case NGHTTP2_SETTINGS:
      if (!std::exchange(ready_, true) && callbacks_.on_ready) callbacks_.on_ready();
      break;
    case NGHTTP2_PING:
      // The answer to Drain's ping: the peer knows that this side accepts no more streams.
      if ((frame.hd.flags & NGHTTP2_FLAG_ACK) != 0 && draining_) {
        goes_ = true;
        SendSoon();
      }
      break;
    case NGHTTP2_GOAWAY:
      NoteGoAway(frame.goaway, /*of_peer=*/true);
      if (callbacks_.on_going_away) callbacks_.on_going_away();
      break;
    default:
      break;
  }
  return 0;
}

int Session::StreamClosed(int32_t stream, uint32_t code) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return 0;
  StreamEvents* const events = found->second.events;
  if (found->second.headers_too_long) code = kHeadersTooLong;
  if (found_.first == stream) found_ = {};
  streams_.erase(found);
  if (events != nullptr) events->OnClosed(code);
  return 0;
}

// --- The connection.

void Session::Watch(bool for_writing) {
  if (watches_writing_ == for_writing) return;
  watches_writing_ = for_writing;
  loop_.Change(socket_.fd(), for_writing ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Session::OnReady(uint32_t events) {
  // recv reports hang-ups and errors.
  if ((events & ~uint32_t{EPOLLOUT}) != 0) {
    // Bytes that arrive together are forwarded together, as far as the first read is long.
    for (int i = 0; i < kReadsPerRound; ++i) {
      const bool is_short = read_bytes_ < ReadBuffers::kSize;
      const Received received = Receive();
      if (received == Received::kOver) return;
      if (received == Received::kAll || is_short) break;
    }
  }
  SendSoon();
}

Session::Received Session::Receive() {
  SharedBuffer buffer = TakeBuffer();
  const size_t wanted = read_bytes_;
  const ssize_t size = recv(socket_.fd(), buffer.get(), wanted, 0);
  if (size < 0 && errno == EINTR) return Received::kSome;
  if (size < 0 && errno == EAGAIN) return Received::kAll;
  if (size <= 0) {
    Fail(size == 0 ? "connection closed" : std::generic_category().message(errno));
    return Received::kOver;
  }
  const bool is_full = static_cast<size_t>(size) == wanted;
  read_bytes_ = is_full ? std::min(wanted * kReadGrowth, ReadBuffers::kSize)
                        : std::max(wanted / kReadGrowth, kShortestRead);
  received_ = std::move(buffer);
  const ssize_t used =
      nghttp2_session_mem_recv(session_, received_.get(), static_cast<size_t>(size));
  received_.reset();
  if (used < 0) {
    Fail(std::string("HTTP/2: ") + nghttp2_strerror(static_cast<int>(used)));
    return Received::kOver;
  }
  if (TooMuchWaits()) {
    Fail("the peer does not read what it makes this side send");
    return Received::kOver;
  }
  return is_full ? Received::kSome : Received::kAll;
}

bool Session::Send() {
  for (;;) {
    while (out_.size() < kWriteBytes) {
      const uint8_t* frames = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &frames);
      if (size < 0) return false;
      if (size == 0) break;
      out_.Append({reinterpret_cast<const char*>(frames), static_cast<size_t>(size)});
    }
    if (out_.empty()) {
      Watch(false);
      return true;
    }
    switch (out_.SendTo(socket_.fd())) {
      case Pieces::Sent::kAll:
        break;
      case Pieces::Sent::kSome:
        Watch(true);
        return true;
      case Pieces::Sent::kBroken:
        return false;
    }
  }
}

void Session::SendSoon() {
  if (is_closed_ || std::exchange(sends_soon_, true)) return;
  loop_.AtEndOfRound([this, alive = alive_] {
    if (*alive) EndOfRound();
  });
}

void Session::EndOfRound() {
  sends_soon_ = false;
  if (is_closed_) return;
  if (std::exchange(goes_, false)) {
    // The streams that arrived together with the answer to the ping have been read, so they are
    // served, and the GOAWAY includes them.
    last_stream_ = nghttp2_session_get_last_proc_stream_id(session_);
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last_stream_, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  if (!Send()) {
    // The peer has gone, but its last bytes may not have been read yet.
    Received received = Received::kSome;
    while (received == Received::kSome) received = Receive();
    if (received != Received::kOver) Fail("connection closed");
    return;  // this session may be destroyed
  }
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0 &&
      out_.empty()) {
    Ended();
  }
}

// A peer that is opening a stream finds the connection open, and reads that the stream was not
// accepted. A closed one would break its write: it could not know how far the call has come.
void Session::Ended() {
  if (!is_server_ || !draining_) return Fail("connection ended");
  if (std::exchange(lingers_, true)) return;
  shutdown(socket_.fd(), SHUT_WR);
  loop_.After(kLinger, [this, alive = alive_] {
    if (*alive) Fail("connection ended");
  });
}

void Session::Fail(const std::string& why) {
  if (is_closed_) return;
  is_closed_ = true;
  loop_.Unwatch(socket_.fd());
  if (why_.empty()) why_ = why;
  CloseStreams(kConnectionLost);
  // It may destroy this session.
  const auto on_closed = callbacks_.on_closed;
  if (on_closed) on_closed(std::string(why_));
}

void Session::CloseStreams(uint32_t code) {
  while (!streams_.empty()) StreamClosed(streams_.begin()->first, code);
}

void Session::Drain() {
  if (is_closed_ || std::exchange(draining_, true)) return;
  if (is_server_) {
    nghttp2_submit_shutdown_notice(session_);
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  } else {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
  }
  SendSoon();
}

void Session::Close() {
  if (is_closed_) return;
  Send();
  is_closed_ = true;
  loop_.Unwatch(socket_.fd());
  CloseStreams(kConnectionLost);
}

}  // namespace alignd::proxy
