// One connection with deadlines, as cpp-httplib reads and writes it.
#pragma once

#include <httplib.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace alignd::metrics {

// The deadlines hold for the whole connection: a caller that sends one byte now and then does not
// extend them. (cpp-httplib's own timeouts begin anew with each byte, and it reads any number of
// headers.) One thread.
class DeadlineStream final : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    size_t max_read_bytes = 0;
    std::chrono::milliseconds read_within{0};
    std::chrono::milliseconds write_within{0};  // from the first write
  };

  // The descriptors outlive the stream, which closes neither. `stop`: becomes readable when all
  // reads and writes are to fail.
  DeadlineStream(int socket, int stop, const Limits& limits);

  bool is_readable() const override;
  bool is_writable() const override;
  // -1: the deadline has passed, there is too much to read, the connection has failed, or `stop`.
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  bool Wait(short events, Clock::time_point until) const;

  const int socket_;
  const int stop_;
  const Limits limits_;
  const Clock::time_point read_until_;
  Clock::time_point write_until_{};  // set with the first write
  size_t read_ = 0;                  // bytes, from the socket
  std::array<char, 4096> buffer_;    // cpp-httplib reads byte by byte
  size_t next_ = 0;
  size_t end_ = 0;
};

}  // namespace alignd::metrics
