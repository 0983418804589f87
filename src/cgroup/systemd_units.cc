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
constexpr char kSystemd[] = "org.freedesktop.systemd1";
constexpr char kAllowedCpus[] = "AllowedCPUs";
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
  return dbus_message_iter_open_container(&property, DBUS_TYPE_VARIANT, "ay", &variant) &&
         dbus_message_iter_open_container(&variant, DBUS_TYPE_ARRAY, "y", &array) &&
         dbus_message_iter_append_fixed_array(&array, DBUS_TYPE_BYTE, &begin,
                                              static_cast<int>(bits.size())) &&
         dbus_message_iter_close_container(&variant, &array) &&
         dbus_message_iter_close_container(&property, &variant);
}

// CPUQuotaPerSecUSec: the largest number means none.
bool AppendNumber(uint64_t number, DBusMessageIter& property) {
  DBusMessageIter variant;
  return dbus_message_iter_open_container(&property, DBUS_TYPE_VARIANT, "t", &variant) &&
         dbus_message_iter_append_basic(&variant, DBUS_TYPE_UINT64, &number) &&
         dbus_message_iter_close_container(&property, &variant);
}

struct Call {
  std::string unit;
  Message message;  // null if it cannot be made, as for a name that is not UTF-8
};

struct Setting {
  const char* property;
  AppendValue append;
};

// SetUnitProperties(unit, runtime, properties). libdbus would end the process for a text that is
// not UTF-8.
Call MakeSet(const std::string& unit, const Setting& setting) {
  if (!dbus_validate_utf8(unit.c_str(), nullptr)) return {unit, nullptr};
  Message call(dbus_message_new_method_call(kSystemd, "/org/freedesktop/systemd1",
                                            "org.freedesktop.systemd1.Manager",
                                            "SetUnitProperties"));
  if (!call) return {unit, nullptr};
  const char* const name = unit.c_str();
  const dbus_bool_t until_next_boot = 1;
  DBusMessageIter arguments, properties, property;
  dbus_message_iter_init_append(call.get(), &arguments);
  const bool made =
      dbus_message_iter_append_basic(&arguments, DBUS_TYPE_STRING, &name) &&
      dbus_message_iter_append_basic(&arguments, DBUS_TYPE_BOOLEAN, &until_next_boot) &&
      dbus_message_iter_open_container(&arguments, DBUS_TYPE_ARRAY, "(sv)", &properties) &&
      dbus_message_iter_open_container(&properties, DBUS_TYPE_STRUCT, nullptr, &property) &&
      dbus_message_iter_append_basic(&property, DBUS_TYPE_STRING, &setting.property) &&
      setting.append(property) && dbus_message_iter_close_container(&properties, &property) &&
      dbus_message_iter_close_container(&arguments, &properties);
  return {unit, made ? std::move(call) : nullptr};
}

// The object of a unit: other characters than letters and digits are written as `_` and two digits.
// Source: sd_bus_path_encode(3).
std::string ObjectOf(const std::string& unit) {
  std::string path = "/org/freedesktop/systemd1/unit/";
  for (const char c : unit) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9' && path.back() != '/');
    if (is_plain) {
      path += c;
    } else {
      constexpr char kDigits[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      path += '_';
      path += kDigits[byte / 16];
      path += kDigits[byte % 16];
    }
  }
  return path;
}

// Properties.Get(interface, AllowedCPUs).
Call MakeGet(const std::string& unit) {
  const char* const interface = unit.ends_with(".scope")   ? "org.freedesktop.systemd1.Scope"
                                : unit.ends_with(".slice") ? "org.freedesktop.systemd1.Slice"
                                                           : "org.freedesktop.systemd1.Service";
  const char* const property = kAllowedCpus;
  Message call(dbus_message_new_method_call(kSystemd, ObjectOf(unit).c_str(),
                                            "org.freedesktop.DBus.Properties", "Get"));
  const bool made =
      call && dbus_message_append_args(call.get(), DBUS_TYPE_STRING, &interface, DBUS_TYPE_STRING,
                                       &property, DBUS_TYPE_INVALID);
  return {unit, made ? std::move(call) : nullptr};
}

Result<Done> ReadNothing(const std::string&, DBusMessage&) { return Done{}; }

Result<std::optional<CpuSet>> ReadCpus(const std::string& unit, DBusMessage& answer) {
  DBusMessageIter value, variant, array;
  if (!dbus_message_has_signature(&answer, "v") || !dbus_message_iter_init(&answer, &value)) {
    return Unavailable(unit, "its answer has another form");
  }
  dbus_message_iter_recurse(&value, &variant);
  if (dbus_message_iter_get_arg_type(&variant) != DBUS_TYPE_ARRAY ||
      dbus_message_iter_get_element_type(&variant) != DBUS_TYPE_BYTE) {
    return Unavailable(unit, "its answer has another form");
  }
  dbus_message_iter_recurse(&variant, &array);
  const uint8_t* bytes = nullptr;
  int count = 0;
  dbus_message_iter_get_fixed_array(&array, &bytes, &count);
  CpuSet cpus;
  for (int i = 0; i < 8 * count; ++i) {
    if ((bytes[i / 8] >> (i % 8) & 1) == 0) continue;
    if (i > CpuSet::kMaxCpu) return Unavailable(unit, "it names CPU " + std::to_string(i));
    cpus.Add(i);
  }
  return std::optional(cpus);
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

// `if_unknown`: the result for a unit that systemd does not know.
template <typename Value>
Result<Value> Outcome(const std::string& unit, DBusPendingCall* call, const Value& if_unknown,
                      Result<Value> (*read)(const std::string&, DBusMessage&)) {
  if (call == nullptr) return Unavailable(unit, "the call could not be made");
  if (!dbus_pending_call_get_completed(call)) {
    return Unavailable(unit, "it has not answered within 2 s, or ended the connection");
  }
  const Message answer(dbus_pending_call_steal_reply(call));
  if (!answer) return Unavailable(unit, "its answer is lost");
  BusError error;
  if (!dbus_set_error_from_message(&error, answer.get())) return read(unit, *answer);
  if (error.name == kNoSuchUnit || error.name == std::string_view(DBUS_ERROR_UNKNOWN_OBJECT)) {
    return if_unknown;
  }
  return Unavailable(unit, std::string(error.name) + ": " + error.message);
}

std::string AddressOf(const std::string& socket) {
  char* const escaped = dbus_address_escape_value(socket.c_str());
  std::string address = "unix:path=" + std::string(escaped == nullptr ? "" : escaped);
  dbus_free(escaped);
  return address;
}

// One result for each call. All are sent before the first answer is awaited.
template <typename Value>
std::vector<Result<Value>> CallAll(const std::string& socket, const std::vector<Call>& calls,
                                   const Value& if_unknown,
                                   Result<Value> (*read)(const std::string&, DBusMessage&)) {
  std::vector<Result<Value>> results;
  BusError error;
  const Connection connection(dbus_connection_open_private(AddressOf(socket).c_str(), &error));
  if (!connection) {
    for (const Call& call : calls) {
      results.emplace_back(Unavailable(call.unit, socket + ": " + error.message));
    }
    return results;
  }
  dbus_connection_set_exit_on_disconnect(connection.get(), 0);
  std::vector<PendingCall> pending;
  for (const Call& call : calls) {
    DBusPendingCall* sent = nullptr;
    if (call.message) {
      dbus_connection_send_with_reply(connection.get(), call.message.get(), &sent,
                                      DBUS_TIMEOUT_INFINITE);
    }
    pending.emplace_back(sent);
  }
  AwaitAnswers(*connection, pending);
  for (size_t i = 0; i < calls.size(); ++i) {
    results.push_back(Outcome(calls[i].unit, pending[i].get(), if_unknown, read));
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
  std::vector<Call> calls;
  for (const UnitCpus& change : changes) {
    const AppendValue append = [&change](DBusMessageIter& property) {
      return AppendCpus(change.cpus, property);
    };
    // For systemd, no CPU means all.
    calls.push_back(change.cpus.empty() ? Call{change.unit, nullptr}
                                        : MakeSet(change.unit, {kAllowedCpus, append}));
  }
  return CallAll<Done>(socket_, calls, Done{}, ReadNothing);
}

std::vector<Result<std::optional<CpuSet>>> SystemdUnits::ReadAllowedCpus(
    const std::vector<std::string>& units) const {
  std::vector<Call> calls;
  for (const std::string& unit : units) calls.push_back(MakeGet(unit));
  return CallAll<std::optional<CpuSet>>(socket_, calls, std::nullopt, ReadCpus);
}

Result<Done> SystemdUnits::SetCpuQuota(const std::string& unit,
                                       std::optional<uint64_t> per_second) const {
  const uint64_t number = per_second.value_or(std::numeric_limits<uint64_t>::max());
  const auto append = [number](DBusMessageIter& property) {
    return AppendNumber(number, property);
  };
  std::vector<Call> calls;
  calls.push_back(MakeSet(unit, {"CPUQuotaPerSecUSec", append}));
  return CallAll<Done>(socket_, calls, Done{}, ReadNothing).front();
}

}  // namespace alignd::cgroup
