// A call that a handler answers with a stream of messages of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "host/event_loop.h"
#include "proxy/grpc_framing.h"
#include "proxy/held_bytes.h"
#include "proxy/session.h"

namespace alignd::proxy {

// Where the messages come from. Destroyed when the call has ended.
class MessageStream {
 public:
  MessageStream() = default;
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;
  virtual ~MessageStream() = default;

  // Called once, before Next, on the loop's thread. `wake` runs on any thread, whenever there is a
  // message again.
  virtual void Follow(std::function<void()> wake) = 0;
  // The next message, without gRPC's prefix; nullopt: there is none now. Called when the one before
  // has been sent, on the loop's thread.
  virtual std::optional<std::string> Next() = 0;
};

// Sends them, one at a time: for a caller that does not read, one message is held. Used on the
// loop's thread. Sends no more once it is destroyed.
class MessageSender : public std::enable_shared_from_this<MessageSender> {
 public:
  // Begins the answer on this stream. `held` counts what is not sent; it and `session` outlive the
  // sender.
  static std::shared_ptr<MessageSender> Start(std::shared_ptr<host::EventLoop> loop,
                                              Session& session, int32_t stream, HeldShare& held,
                                              std::shared_ptr<MessageStream> messages) {
    session.Respond(stream, AnswerBegin());
    const std::shared_ptr<MessageSender> sender(
        new MessageSender(std::move(loop), session, stream, held, std::move(messages)));
    sender->messages_->Follow(
        [weak = sender->weak_from_this(), poster = sender->loop_] { Post(*poster, weak); });
    sender->SendNext();
    return sender;
  }

  // So many bytes have been sent.
  void Written(size_t bytes) {
    unsent_ -= std::min(unsent_, bytes);
    // Not at once: the session is packing a frame.
    if (unsent_ == 0) Post(*loop_, weak_from_this());
  }

 private:
  MessageSender(std::shared_ptr<host::EventLoop> loop, Session& session, int32_t stream,
                HeldShare& held, std::shared_ptr<MessageStream> messages)
      : loop_(std::move(loop)),
        session_(session),
        stream_(stream),
        held_(held),
        messages_(std::move(messages)) {}

  static void Post(host::EventLoop& loop, const std::weak_ptr<MessageSender>& weak) {
    loop.Post([weak] {
      if (const auto sender = weak.lock()) sender->SendNext();
    });
  }

  void SendNext() {
    if (unsent_ > 0) return;
    std::optional<std::string> message = messages_->Next();
    if (!message) return;
    std::string frame = FrameOf(*std::move(message));
    unsent_ = frame.size();
    held_.Hold(frame.size());
    session_.Write(stream_, std::move(frame));
  }

  const std::shared_ptr<host::EventLoop> loop_;
  Session& session_;
  const int32_t stream_;
  HeldShare& held_;
  const std::shared_ptr<MessageStream> messages_;
  size_t unsent_ = 0;
};

}  // namespace alignd::proxy
