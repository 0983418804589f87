#include "cgroup/systemd_units.h"

#include <dbus/dbus.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

namespace alignd::cgroup {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience{2000};
constexpr std::string_view kNoSuchUnit = "org.freedesktop.systemd1.NoSuchUnit";

struct ClosesConnection {
  void operator()(DBusConnection* connection) const {
    dbus_connection_close(connection);
    dbus_connection_unref(connection);
  }
};
struct DropsMessage {
  void operator()(DBusMessage* message) const { dbus_message_unref(message); }
};
struct DropsCall {
  void operator()(DBusPendingCall* call) const {
    dbus_pending_call_cancel(call);
    dbus_pending_call_unref(call);
  }
};
using Connection = std::unique_ptr<DBusConnection, ClosesConnection>;
using Message = std::unique_ptr<DBusMessage, DropsMessage>;
using PendingCall = std::unique_ptr<DBusPendingCall, DropsCall>;

struct BusError : DBusError {
  BusError() { dbus_error_init(this); }
  BusError(const BusError&) = delete;
  BusError& operator=(const BusError&) = delete;
  ~BusError() { dbus_error_free(this); }
};

Error Unavailable(const std::string& unit, const std::string& what) {
  return {ErrorCode::kUnavailable, "systemd has not taken over a setting of " + unit + ": " + what,
          "let alignd, as root, connect to /run/systemd/private of the system on which the runtime "
          "makes its cgroups"};
}

// Appends the property's value, a variant, to its structure.
using AppendValue = std::function<bool(DBusMessageIter& property)>;

// AllowedCPUs: bit i of byte j is CPU 8 j + i.
bool AppendCpus(const CpuSet& cpus, DBusMessageIter& property) {
  std::vector<uint8_t> bits;
  for (const int cpu : cpus) {
    const auto byte = static_cast<size_t>(cpu) / 8;
    if (bits.size() <= byte) bits.resize(byte + 1);
    bits[byte] = static_cast<uint8_t>(bits[byte] | 1U << (cpu % 8));
  }
  DBusMessageIter variant, array;
  const uint8_t* const begin = bits.data();
  return !bits.empty() &&
         dbus_message_iter_open_container(&property, DBUS_TYPE_VARIANT, "ay", &variant) &&
         dbus_message_iter_open_container(&variant, DBUS_TYPE_ARRAY, "y", &array) &&
         dbus_message_iter_append_fixed_array(&array, DBUS_TYPE_BYTE, &begin,
                                              static_cast<int>(bits.size())) &&
         dbus_message_iter_close_container(&variant, &array) &&
         dbus_message_iter_close_container(&property, &variant);
}

// CPUQuotaPerSecUSec: the largest number means none.
bool AppendNoQuota(DBusMessageIter& property) {
  const uint64_t none = std::numeric_limits<uint64_t>::max();
  DBusMessageIter variant;
  return dbus_message_iter_open_container(&property, DBUS_TYPE_VARIANT, "t", &variant) &&
         dbus_message_iter_append_basic(&variant, DBUS_TYPE_UINT64, &none) &&
         dbus_message_iter_close_container(&property, &variant);
}

struct Setting {
  std::string unit;
  const char* property;
  AppendValue append;
};

// SetUnitProperties(unit, runtime, properties). Null for a name that is not UTF-8, which would end
// the process in libdbus, and if memory is short.
Message MakeCall(const Setting& setting) {
  if (!dbus_validate_utf8(setting.unit.c_str(), nullptr)) return nullptr;
  Message call(dbus_message_new_method_call("org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                            "org.freedesktop.systemd1.Manager",
                                            "SetUnitProperties"));
  if (!call) return nullptr;
  const char* const unit = setting.unit.c_str();
  const dbus_bool_t until_next_boot = 1;
  DBusMessageIter arguments, properties, property;
  dbus_message_iter_init_append(call.get(), &arguments);
  const bool made =
      dbus_message_iter_append_basic(&arguments, DBUS_TYPE_STRING, &unit) &&
      dbus_message_iter_append_basic(&arguments, DBUS_TYPE_BOOLEAN, &until_next_boot) &&
      dbus_message_iter_open_container(&arguments, DBUS_TYPE_ARRAY, "(sv)", &properties) &&
      dbus_message_iter_open_container(&properties, DBUS_TYPE_STRUCT, nullptr, &property) &&
      dbus_message_iter_append_basic(&property, DBUS_TYPE_STRING, &setting.property) &&
      setting.append(property) && dbus_message_iter_close_container(&properties, &property) &&
      dbus_message_iter_close_container(&arguments, &properties);
  return made ? std::move(call) : nullptr;
}

// The answers arrive in `calls`, as far as there are any before the end of the patience.
void AwaitAnswers(DBusConnection& connection, const std::vector<PendingCall>& calls) {
  const auto deadline = steady_clock::now() + kPatience;
  const auto is_open = [](const PendingCall& call) {
    return call && !dbus_pending_call_get_completed(call.get());
  };
  while (std::ranges::any_of(calls, is_open)) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left <= milliseconds(0)) return;
    if (!dbus_connection_read_write_dispatch(&connection, static_cast<int>(left.count()))) return;
  }
}

Result<Done> Outcome(const std::string& unit, DBusPendingCall* call) {
  if (call == nullptr) return Unavailable(unit, "the call could not be made");
  if (!dbus_pending_call_get_completed(call)) {
    return Unavailable(unit, "it has not answered within 2 s, or ended the connection");
  }
  const Message answer(dbus_pending_call_steal_reply(call));
  if (!answer) return Unavailable(unit, "its answer is lost");
  BusError error;
  if (!dbus_set_error_from_message(&error, answer.get())) return Done{};
  if (error.name == kNoSuchUnit) return Done{};
  return Unavailable(unit, std::string(error.name) + ": " + error.message);
}

std::string AddressOf(const std::string& socket) {
  char* const escaped = dbus_address_escape_value(socket.c_str());
  std::string address = "unix:path=" + std::string(escaped == nullptr ? "" : escaped);
  dbus_free(escaped);
  return address;
}

// All calls are sent before the first answer is awaited.
std::vector<Result<Done>> SetAll(const std::string& socket, const std::vector<Setting>& settings) {
  std::vector<Result<Done>> results;
  BusError error;
  const Connection connection(dbus_connection_open_private(AddressOf(socket).c_str(), &error));
  if (!connection) {
    for (const Setting& setting : settings) {
      results.emplace_back(Unavailable(setting.unit, socket + ": " + error.message));
    }
    return results;
  }
  dbus_connection_set_exit_on_disconnect(connection.get(), 0);
  std::vector<PendingCall> calls;
  for (const Setting& setting : settings) {
    const Message call = MakeCall(setting);
    DBusPendingCall* pending = nullptr;
    if (call) {
      dbus_connection_send_with_reply(connection.get(), call.get(), &pending,
                                      DBUS_TIMEOUT_INFINITE);
    }
    calls.emplace_back(pending);
  }
  AwaitAnswers(*connection, calls);
  for (size_t i = 0; i < settings.size(); ++i) {
    results.push_back(Outcome(settings[i].unit, calls[i].get()));
  }
  return results;
}

}  // namespace

std::optional<std::string> UnitOfCgroup(const std::string& path) {
  const std::string last = path.substr(path.rfind('/') + 1);
  for (const std::string_view suffix : {".scope", ".slice", ".service"}) {
    if (last.size() > suffix.size() && last.ends_with(suffix)) return last;
  }
  return std::nullopt;
}

SystemdUnits::SystemdUnits(std::filesystem::path socket) : socket_(socket.string()) {}

std::vector<Result<Done>> SystemdUnits::SetAllowedCpus(const std::vector<UnitCpus>& changes) const {
  std::vector<Setting> settings;
  for (const UnitCpus& change : changes) {
    settings.push_back({change.unit, "AllowedCPUs", [&change](DBusMessageIter& property) {
                          return AppendCpus(change.cpus, property);
                        }});
  }
  return SetAll(socket_, settings);
}

Result<Done> SystemdUnits::LiftCpuQuota(const std::string& unit) const {
  return SetAll(socket_, {{unit, "CPUQuotaPerSecUSec", AppendNoQuota}}).front();
}

}  // namespace alignd::cgroup
