// Stands for systemd at its private socket: takes SetUnitProperties and writes it down, and answers
// questions for AllowedCPUs=.
#pragma once

#include <dbus/dbus.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "sync/mutex.h"

namespace alignd::testing {

// Serves one connection after the other, as many calls as each has. Messages are read and written
// by libdbus; its own server needs a main loop.
class FakeSystemd {
 public:
  enum class Manner { kAnswers, kIsSilent, kHangsUp };

  // `refusals`: names of errors by unit. `on_call` runs before each answer, on the fake's thread.
  explicit FakeSystemd(const std::filesystem::path& socket, Manner manner = Manner::kAnswers,
                       std::map<std::string, std::string> refusals = {},
                       std::function<void()> on_call = nullptr)
      : manner_(manner),
        refusals_(std::move(refusals)),
        on_call_(std::move(on_call)),
        listener_(ListenUnix(socket)) {
    thread_ = std::thread([this] { Serve(); });
  }
  FakeSystemd(const FakeSystemd&) = delete;
  FakeSystemd& operator=(const FakeSystemd&) = delete;
  ~FakeSystemd() {
    shutdown(listener_.fd(), SHUT_RDWR);
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      if (connection_ >= 0) shutdown(connection_, SHUT_RDWR);
    }
    thread_.join();
  }

  // What it answers to questions for AllowedCPUs=. Bytes as in the message.
  void SetAllowedCpus(const std::string& object, const std::vector<uint8_t>& bytes) {
    const MutexLock lock(mutex_);
    allowed_[object] = bytes;
  }

  // "UNIT PROPERTY=VALUE" in the order of the calls. Bytes are in hexadecimal.
  std::vector<std::string> calls() const {
    const MutexLock lock(mutex_);
    return calls_;
  }

 private:
  void Serve() {
    for (;;) {
      const host::Descriptor accepted(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      if (accepted.fd() < 0) return;
      {
        const MutexLock lock(mutex_);
        if (stopped_) return;
        connection_ = accepted.fd();
      }
      if (LogIn(accepted.fd())) TakeCalls(accepted.fd());
      const MutexLock lock(mutex_);
      connection_ = -1;
    }
  }

  // D-Bus Specification, Authentication Protocol.
  bool LogIn(int fd) {
    for (;;) {
      const size_t end = buffer_.find("\r\n");
      if (end == std::string::npos) {
        if (!Receive(fd)) return false;
        continue;
      }
      const std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 2);
      if (line == "BEGIN") return true;
      const bool identifies = line.find("AUTH EXTERNAL ") != std::string::npos;
      Send(fd, identifies ? "OK 0123456789abcdef0123456789abcdef\r\n" : "ERROR\r\n");
    }
  }

  void TakeCalls(int fd) {
    if (manner_ == Manner::kHangsUp) return;
    for (;;) {
      const int needed = dbus_message_demarshal_bytes_needed(buffer_.data(), Size(buffer_));
      if (needed <= 0 || needed > Size(buffer_)) {
        EXPECT_GE(needed, 0) << "no D-Bus message";
        if (needed < 0 || !Receive(fd)) break;
        continue;
      }
      DBusError error = DBUS_ERROR_INIT;
      DBusMessage* const call = dbus_message_demarshal(buffer_.data(), needed, &error);
      buffer_.erase(0, static_cast<size_t>(needed));
      if (call == nullptr) {
        ADD_FAILURE() << error.message;
        dbus_error_free(&error);
        break;
      }
      Answer(fd, call);
      dbus_message_unref(call);
    }
    buffer_.clear();
  }

  void Answer(int fd, DBusMessage* call) {
    if (dbus_message_is_method_call(call, "org.freedesktop.DBus.Properties", "Get")) {
      AnswerGet(fd, call);
      return;
    }
    EXPECT_TRUE(
        dbus_message_is_method_call(call, "org.freedesktop.systemd1.Manager", "SetUnitProperties"));
    EXPECT_STREQ(dbus_message_get_path(call), "/org/freedesktop/systemd1");
    EXPECT_STREQ(dbus_message_get_signature(call), "sba(sv)");
    DBusMessageIter arguments, properties, property, value;
    const char* unit = "";
    const char* name = "";
    dbus_bool_t until_next_boot = 0;
    dbus_message_iter_init(call, &arguments);
    dbus_message_iter_get_basic(&arguments, &unit);
    dbus_message_iter_next(&arguments);
    dbus_message_iter_get_basic(&arguments, &until_next_boot);
    EXPECT_TRUE(until_next_boot);
    dbus_message_iter_next(&arguments);
    dbus_message_iter_recurse(&arguments, &properties);
    dbus_message_iter_recurse(&properties, &property);
    dbus_message_iter_get_basic(&property, &name);
    dbus_message_iter_next(&property);
    dbus_message_iter_recurse(&property, &value);
    const auto refusal = refusals_.find(unit);
    {
      const MutexLock lock(mutex_);
      calls_.push_back(std::string(unit) + " " + name + "=" + Text(value));
    }
    if (on_call_) on_call_();
    if (manner_ == Manner::kIsSilent) return;
    Reply(fd, refusal == refusals_.end()
                  ? dbus_message_new_method_return(call)
                  : dbus_message_new_error(call, refusal->second.c_str(), "as the test wants"));
  }

  void AnswerGet(int fd, DBusMessage* call) {
    const char* interface = "";
    const char* property = "";
    EXPECT_TRUE(dbus_message_get_args(call, nullptr, DBUS_TYPE_STRING, &interface, DBUS_TYPE_STRING,
                                      &property, DBUS_TYPE_INVALID));
    EXPECT_STREQ(property, "AllowedCPUs");
    const MutexLock lock(mutex_);
    const auto unit = allowed_.find(dbus_message_get_path(call));
    if (unit == allowed_.end()) {
      Reply(fd, dbus_message_new_error(call, DBUS_ERROR_UNKNOWN_OBJECT, "no such unit"));
      return;
    }
    DBusMessage* const answer = dbus_message_new_method_return(call);
    DBusMessageIter arguments, variant, array;
    const uint8_t* const bytes = unit->second.data();
    dbus_message_iter_init_append(answer, &arguments);
    dbus_message_iter_open_container(&arguments, DBUS_TYPE_VARIANT, "ay", &variant);
    dbus_message_iter_open_container(&variant, DBUS_TYPE_ARRAY, "y", &array);
    dbus_message_iter_append_fixed_array(&array, DBUS_TYPE_BYTE, &bytes,
                                         static_cast<int>(unit->second.size()));
    dbus_message_iter_close_container(&variant, &array);
    dbus_message_iter_close_container(&arguments, &variant);
    Reply(fd, answer);
  }

  void Reply(int fd, DBusMessage* answer) {
    dbus_message_set_serial(answer, ++serial_);
    char* bytes = nullptr;
    int length = 0;
    EXPECT_TRUE(dbus_message_marshal(answer, &bytes, &length));
    Send(fd, std::string(bytes, static_cast<size_t>(length)));
    dbus_free(bytes);
    dbus_message_unref(answer);
  }

  static std::string Text(DBusMessageIter& value) {
    if (dbus_message_iter_get_arg_type(&value) == DBUS_TYPE_UINT64) {
      uint64_t number = 0;
      dbus_message_iter_get_basic(&value, &number);
      return std::to_string(number);
    }
    DBusMessageIter array;
    const uint8_t* bytes = nullptr;
    int count = 0;
    dbus_message_iter_recurse(&value, &array);
    dbus_message_iter_get_fixed_array(&array, &bytes, &count);
    std::string text;
    constexpr char kDigits[] = "0123456789abcdef";
    for (int i = 0; i < count; ++i) {
      text += kDigits[bytes[i] / 16];
      text += kDigits[bytes[i] % 16];
    }
    return text;
  }

  bool Receive(int fd) {
    char bytes[4096];
    const ssize_t count = recv(fd, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    buffer_.append(bytes, static_cast<size_t>(count));
    return true;
  }
  static void Send(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  static int Size(const std::string& bytes) { return static_cast<int>(bytes.size()); }

  const Manner manner_;
  const std::map<std::string, std::string> refusals_;
  const std::function<void()> on_call_;
  const host::Descriptor listener_;
  std::string buffer_;   // of the thread alone
  uint32_t serial_ = 0;  // likewise
  std::thread thread_;
  mutable Mutex mutex_;
  std::vector<std::string> calls_ GUARDED_BY(mutex_);
  std::map<std::string, std::vector<uint8_t>> allowed_ GUARDED_BY(mutex_);
  int connection_ GUARDED_BY(mutex_) = -1;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace alignd::testing
