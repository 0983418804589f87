// How a session uses nghttp2: its options and its callbacks.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "host/printable.h"
#include "proxy/session.h"

namespace alignd::proxy {
namespace {

// A header list of 2 MiB, as Go's peers accept it, ends the call and not its connection: what
// exceeds kMaxHeaderBytes is read and dropped.
constexpr size_t kMaxContinuations = 128;

constexpr char kLimit[] = "the 64 KiB of headers that alignd reads";

nghttp2_nv NameValue(const Headers::Field& field) {
  // nghttp2 does not write to these bytes.
  const auto bytes = [](std::string_view text) {
    return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
  };
  return {bytes(field.name), bytes(field.value), field.name.size(), field.value.size(),
          NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

std::string ResetReason(uint32_t code) {
  if (code == kHeadersTooLong) return std::string("the answer exceeds ") + kLimit;
  const std::string name = nghttp2_http2_strerror(code);
  // A peer that knows the limit does not send the text. Go's end such a call with the first of
  // these codes, gRPC's C library with the second.
  if (code != NGHTTP2_INTERNAL_ERROR && code != NGHTTP2_ENHANCE_YOUR_CALM) return name;
  return name + "; the peer's error text may exceed " + kLimit + ": see its log";
}

void Session::NoteGoAway(const nghttp2_goaway& frame, bool of_peer) {
  if (frame.error_code == NGHTTP2_NO_ERROR || !why_.empty()) return;
  constexpr size_t kMaxBytes = 200;
  why_ = of_peer  ? "the peer reports "
         : ready_ ? "HTTP/2: "
                  : "the peer does not speak HTTP/2, and so not gRPC: ";
  why_ += nghttp2_http2_strerror(frame.error_code);
  const std::string text(reinterpret_cast<const char*>(frame.opaque_data),
                         std::min(frame.opaque_data_len, kMaxBytes));
  if (!text.empty()) why_ += ": " + host::Printable(text);
  // nghttp2 does not give up a call alone for one header that is longer.
  if (!of_peer && frame.error_code == NGHTTP2_COMPRESSION_ERROR) {
    why_ += std::string("; one header of the peer may exceed ") + kLimit + ": see its log";
  }
}

// What the frames of a peer make nghttp2 send is queued without a limit: resets of streams that are
// refused, and answers whose streams the peer has reset. While the socket takes bytes, the queue is
// empty after each round.
bool Session::TooMuchWaits() const {
  constexpr size_t kOfAStream = 4;      // headers, trailers, a window, a reset
  constexpr size_t kOthers = 4 * 1000;  // of PING and SETTINGS, nghttp2 queues up to 1000 answers
  return watches_writing_ &&
         nghttp2_session_get_outbound_queue_size(session_) > kOthers + kOfAStream * streams_.size();
}

const std::vector<nghttp2_nv>& Session::NameValues(const Headers& headers) {
  name_values_.clear();
  for (const Headers::Field& field : headers) name_values_.push_back(NameValue(field));
  return name_values_;
}

// nghttp2 calls these while it parses or packs; `self` is the session.
struct Session::Hooks {
  static Session& Self(void* self) { return *static_cast<Session*>(self); }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    Session& session = Self(self);
    session.block_.clear();
    if (!session.is_server_ || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    const int32_t stream = frame->hd.stream_id;
    // After the last GOAWAY: the caller knows that the stream was not processed, and repeats the
    // call.
    if (stream > session.last_stream_) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    session.streams_[stream].events = session.callbacks_.accept(stream);
    return 0;
  }
  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t,
                      void* self) {
    Session& session = Self(self);
    if (session.block_.bytes() + name_size + value_size > kMaxHeaderBytes) {
      Outgoing* const stream = session.FindStream(frame->hd.stream_id);
      if (stream != nullptr) stream->headers_too_long = true;
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // resets the stream
    }
    session.block_.Add({reinterpret_cast<const char*>(name), name_size},
                       {reinterpret_cast<const char*>(value), value_size});
    return 0;
  }
  static int OnData(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* data,
                    size_t size, void* self) {
    nghttp2_session_consume_connection(session, size);
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    Session& receiver = Self(self);
    if (const Outgoing* known = receiver.FindStream(stream)) {
      known->events->OnData({receiver.received_, bytes});
    }
    return 0;
  }
  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    return Self(self).FrameReceived(*frame);
  }
  static int OnSent(nghttp2_session*, const nghttp2_frame* frame, void* self) {
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      Self(self).NoteGoAway(frame->goaway, /*of_peer=*/false);
    }
    Self(self).FrameSent(*frame);
    return 0;
  }
  static int OnNotSent(nghttp2_session*, const nghttp2_frame* frame, int error, void* self) {
    // Not of a client: its thread goes on while the program ends, and spdlog does not.
    if (Self(self).is_server_) {
      spdlog::debug("HTTP/2 frame of type {} not sent: {}", frame->hd.type,
                    nghttp2_strerror(error));
    }
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    const int32_t stream = frame->hd.stream_id;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
      Self(self).Reset(stream,
                       NGHTTP2_INTERNAL_ERROR);  // headers that the peer waits for cannot be sent
    } else {
      // It never became a stream, so nghttp2 does not report its end.
      const bool too_long = error == NGHTTP2_ERR_FRAME_SIZE_ERROR;
      Self(self).StreamClosed(stream, too_long ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_REFUSED_STREAM);
    }
    return 0;
  }
  static int OnClosed(nghttp2_session*, int32_t stream, uint32_t code, void* self) {
    return Self(self).StreamClosed(stream, code);
  }
  static ssize_t OnRead(nghttp2_session*, int32_t stream, uint8_t*, size_t length, uint32_t* flags,
                        nghttp2_data_source*, void* self) {
    return Self(self).OfferBytes(stream, length, flags);
  }
  static int OnSendData(nghttp2_session*, nghttp2_frame* frame, const uint8_t* frame_header,
                        size_t length, nghttp2_data_source*, void* self) {
    constexpr size_t kFrameHeaderBytes = 9;
    return Self(self).SendBytes(frame->hd.stream_id,
                                {reinterpret_cast<const char*>(frame_header), kFrameHeaderBytes},
                                length);
  }
};

void Session::MakeNative() {
  nghttp2_session_callbacks* hooks = nullptr;
  nghttp2_session_callbacks_new(&hooks);
  nghttp2_session_callbacks_set_on_begin_headers_callback(hooks, Hooks::OnBeginHeaders);
  nghttp2_session_callbacks_set_on_header_callback(hooks, Hooks::OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(hooks, Hooks::OnData);
  nghttp2_session_callbacks_set_on_frame_recv_callback(hooks, Hooks::OnFrame);
  nghttp2_session_callbacks_set_on_frame_send_callback(hooks, Hooks::OnSent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(hooks, Hooks::OnNotSent);
  nghttp2_session_callbacks_set_on_stream_close_callback(hooks, Hooks::OnClosed);
  nghttp2_session_callbacks_set_send_data_callback(hooks, Hooks::OnSendData);
  nghttp2_option* options = nullptr;
  nghttp2_option_new(&options);
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_max_send_header_block_length(options, 2 * kMaxHeaderBytes);
  nghttp2_option_set_max_continuations(options, kMaxContinuations);
  nghttp2_option_set_no_closed_streams(options, 1);
  // In gRPC a header's value may begin or end with a space; nghttp2 would drop the header.
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);
  if (is_server_) {
    // Callers that connect to a path may send it as their authority, which HTTP does not allow.
    nghttp2_option_set_no_http_messaging(options, 1);
    // A caller that cancels many calls is no attacker. What waits for it is limited by
    // TooMuchWaits.
    nghttp2_option_set_stream_reset_rate_limit(options, 1'000'000, 100'000);
  }
  if (is_server_) {
    nghttp2_session_server_new2(&session_, hooks, this, options);
  } else {
    nghttp2_session_client_new2(&session_, hooks, this, options);
  }
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(hooks);
}

nghttp2_data_provider Session::Provider() {
  nghttp2_data_provider provider{};
  provider.read_callback = Hooks::OnRead;
  return provider;
}

void Session::FrameSent(const nghttp2_frame& frame) {
  if (!is_server_ || (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  if (frame.hd.type != NGHTTP2_HEADERS && frame.hd.type != NGHTTP2_DATA) return;
  // The answer is complete: a peer that still sends its request may stop.
  if (nghttp2_session_get_stream_remote_close(session_, frame.hd.stream_id) == 0) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR);
  }
}

}  // namespace alignd::proxy
