#include "alignd/machine/node_json.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace alignd {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMinInt = std::numeric_limits<int>::min();

Error Invalid(const std::string& place, const std::string& message) {
  return {ErrorCode::kInvalidArgument, place + ": " + message};
}

// What stands there, short enough for a message.
std::string Shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  constexpr size_t kShown = 80;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

std::string Indexed(const std::string& place, size_t index) {
  return place + "[" + std::to_string(index) + "]";
}

Result<int> ToInt(const Json& value, int64_t min, int64_t max, const std::string& place) {
  const bool whole = value.is_number_integer();
  const bool too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMaxInt);
  if (whole && !too_large) {
    const auto number = value.get<int64_t>();
    if (number >= min && number <= max) return static_cast<int>(number);
  }
  return Invalid(place, Shown(value) + ": not a whole number from " + std::to_string(min) + " to " +
                            std::to_string(max));
}

Result<uint64_t> ToUint64(const Json& value, const std::string& place) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return Invalid(place, Shown(value) + ": not a whole number of 64 bits");
}

// The list under a key that must be there.
Result<const Json*> ListAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return Invalid(key, "absent");
  if (!found->is_array()) return Invalid(key, Shown(*found) + ": not a list");
  return &*found;
}

Result<Cpu> ToCpu(const Json& row, const std::string& place) {
  if (!row.is_array() || row.size() != 5) {
    return Invalid(place, Shown(row) + ": not a row [cpu, core, socket, numa, uncore]");
  }
  struct Column {
    int Cpu::*member;
    int64_t min;
    int64_t max;
  };
  static constexpr Column kColumns[] = {{&Cpu::cpu, 0, CpuSet::kMaxCpu},
                                        {&Cpu::core, kMinInt, kMaxInt},
                                        {&Cpu::socket, kMinInt, kMaxInt},
                                        {&Cpu::numa, 0, kMaxInt},
                                        {&Cpu::uncore, kMinInt, kMaxInt}};
  Cpu cpu;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const Column& column = kColumns[i];
    const Result<int> number = ToInt(row[i], column.min, column.max, Indexed(place, i));
    if (!number.ok()) return number.error();
    cpu.*column.member = *number;
  }
  return cpu;
}

// A page size as it stands in a key: decimal, no sign, no leading zero.
std::optional<uint64_t> ToPageSize(const std::string& key) {
  uint64_t size = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, code] = std::from_chars(key.data(), end, size);
  if (code != std::errc{} || stop != end || key.front() == '0') return std::nullopt;
  return size;
}

Result<std::map<uint64_t, uint64_t>> ToHugepages(const Json& value, const std::string& place) {
  std::map<uint64_t, uint64_t> pages_by_size;
  if (value.is_null()) return pages_by_size;
  if (!value.is_object()) return Invalid(place, Shown(value) + ": not an object");
  uint64_t room = std::numeric_limits<uint64_t>::max();  // so that no sum of ours can overflow
  for (const auto& [key, count] : value.items()) {
    const std::string at = place + "." + Shown(Json(key));
    const std::optional<uint64_t> size = ToPageSize(key);
    if (!size) return Invalid(at, "not a page size in bytes");
    const Result<uint64_t> pages = ToUint64(count, at);
    if (!pages.ok()) return pages.error();
    if (*pages > room / *size) return Invalid(at, Shown(count) + ": more than 64 bits of bytes");
    room -= *pages * *size;
    pages_by_size[*size] = *pages;
  }
  return pages_by_size;
}

Result<std::vector<int>> ToDistances(const Json& value, const std::string& place) {
  std::vector<int> distances;
  if (value.is_null()) return distances;
  if (!value.is_array()) return Invalid(place, Shown(value) + ": not a list");
  for (const Json& element : value) {
    const Result<int> distance = ToInt(element, 0, kMaxInt, Indexed(place, distances.size()));
    if (!distance.ok()) return distance.error();
    distances.push_back(*distance);
  }
  return distances;
}

Result<NumaNode> ToNumaNode(const Json& value, const std::string& place) {
  if (!value.is_object()) return Invalid(place, Shown(value) + ": not an object");
  NumaNode node;
  const auto id_at = value.find("id");
  if (id_at == value.end()) return Invalid(place + ".id", "absent");
  const Result<int> id = ToInt(*id_at, 0, kMaxInt, place + ".id");
  if (!id.ok()) return id.error();
  node.id = *id;
  if (const auto at = value.find("memory"); at != value.end()) {
    const Result<uint64_t> memory_bytes = ToUint64(*at, place + ".memory");
    if (!memory_bytes.ok()) return memory_bytes.error();
    node.memory_bytes = *memory_bytes;
  }
  if (const auto at = value.find("hugepages"); at != value.end()) {
    Result<std::map<uint64_t, uint64_t>> hugepages = ToHugepages(*at, place + ".hugepages");
    if (!hugepages.ok()) return hugepages.error();
    node.hugepages = std::move(hugepages).value();
  }
  if (const auto at = value.find("distances"); at != value.end()) {
    Result<std::vector<int>> distances = ToDistances(*at, place + ".distances");
    if (!distances.ok()) return distances.error();
    node.distances = std::move(distances).value();
  }
  return node;
}

// The elements of the list under `key`, each understood by `convert`.
template <typename Value>
Result<std::vector<Value>> ToValues(const Json& node, const char* key,
                                    Result<Value> (*convert)(const Json&, const std::string&)) {
  const Result<const Json*> list = ListAt(node, key);
  if (!list.ok()) return list.error();
  std::vector<Value> values;
  for (const Json& element : **list) {
    Result<Value> value = convert(element, Indexed(key, values.size()));
    if (!value.ok()) return value.error();
    values.push_back(std::move(value).value());
  }
  return values;
}

void Append(std::string& out, const Cpu& cpu) {
  out += "[" + std::to_string(cpu.cpu) + "," + std::to_string(cpu.core) + "," +
         std::to_string(cpu.socket) + "," + std::to_string(cpu.numa) + "," +
         std::to_string(cpu.uncore) + "]";
}

void Append(std::string& out, const NumaNode& node) {
  out += "{\"id\":" + std::to_string(node.id) + ",\"memory\":" + std::to_string(node.memory_bytes) +
         ",\"hugepages\":{";
  std::map<std::string, uint64_t> by_key;  // in the order of the keys as text, as Go has it
  for (const auto& [size, pages] : node.hugepages) by_key[std::to_string(size)] = pages;
  const char* separator = "";
  for (const auto& [key, pages] : by_key) {
    out += separator + ("\"" + key + "\":") + std::to_string(pages);
    separator = ",";
  }
  out += "},\"distances\":";
  if (node.distances.empty()) {
    out += "null}";
    return;
  }
  out += "[";
  separator = "";
  for (const int distance : node.distances) {
    out += separator + std::to_string(distance);
    separator = ",";
  }
  out += "]}";
}

template <typename Value>
void AppendList(std::string& out, const std::vector<Value>& values) {
  out += "[";
  const char* separator = "";
  for (const Value& value : values) {
    out += separator;
    Append(out, value);
    separator = ",";
  }
  out += "]";
}

}  // namespace

std::string MachineToNodeJson(const Machine& machine) {
  std::string out = "{\"cpus\":";
  AppendList(out, machine.cpu_rows());
  out += ",\"numa\":";
  AppendList(out, machine.numa());
  out += "}";
  return out;
}

Result<Machine> MachineFromNodeJson(std::string_view json) {
  const Json node = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (node.is_discarded()) return Error{ErrorCode::kInvalidArgument, "not JSON"};
  if (!node.is_object()) return Error{ErrorCode::kInvalidArgument, "not a JSON object"};
  Result<std::vector<Cpu>> cpus = ToValues<Cpu>(node, "cpus", ToCpu);
  if (!cpus.ok()) return cpus.error();
  Result<std::vector<NumaNode>> numa = ToValues<NumaNode>(node, "numa", ToNumaNode);
  if (!numa.ok()) return numa.error();
  return Machine::Make(std::move(cpus).value(), std::move(numa).value());
}

}  // namespace alignd
