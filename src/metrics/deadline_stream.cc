#include "metrics/deadline_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace alignd::metrics {

DeadlineStream::DeadlineStream(int socket, int stop, const Limits& limits)
    : socket_(socket),
      stop_(stop),
      limits_(limits),
      read_until_(Clock::now() + limits.read_within) {}

bool DeadlineStream::Wait(short events, Clock::time_point until) const {
  for (;;) {
    const auto remaining =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (remaining <= 0) return false;
    std::array<pollfd, 2> polled = {{{socket_, events, 0}, {stop_, POLLIN, 0}}};
    const int ready = poll(polled.data(), polled.size(), static_cast<int>(remaining));
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0 && polled[1].revents == 0;
  }
}

bool DeadlineStream::is_readable() const { return next_ < end_ || Wait(POLLIN, read_until_); }

bool DeadlineStream::is_writable() const {
  return Wait(POLLOUT, Clock::now() + limits_.write_within);
}

ssize_t DeadlineStream::read(char* data, size_t size) {
  if (next_ == end_) {
    const size_t space = std::min(buffer_.size(), limits_.max_read_bytes - read_);
    if (space == 0 || !Wait(POLLIN, read_until_)) return -1;
    const ssize_t got = recv(socket_, buffer_.data(), space, MSG_DONTWAIT);
    if (got <= 0) return got;
    next_ = 0;
    end_ = static_cast<size_t>(got);
    read_ += end_;
  }
  const size_t taken = std::min(size, end_ - next_);
  std::copy_n(buffer_.data() + next_, taken, data);
  next_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t DeadlineStream::write(const char* data, size_t size) {
  if (write_until_ == Clock::time_point()) write_until_ = Clock::now() + limits_.write_within;
  for (;;) {
    if (!Wait(POLLOUT, write_until_)) return -1;
    const ssize_t sent = send(socket_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || errno != EAGAIN) return sent;
  }
}

// Nothing here depends on the peer's address.
void DeadlineStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void DeadlineStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace alignd::metrics
