#include "alignd/machine/node_json.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/json/json_view.h"
#include "core/machine/node_json_reader.h"

namespace alignd {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMinInt = std::numeric_limits<int>::min();

Result<int> ToInt(const json::View& value, int64_t least, int64_t most) {
  const Result<int64_t> number = value.Integer(least, most);
  if (!number.ok()) return number.error();
  return static_cast<int>(*number);
}

Result<Cpu> ToCpu(const json::View& row) {
  const Result<std::vector<json::View>> columns = row.Elements();
  if (!columns.ok()) return columns.error();
  struct Column {
    int Cpu::*member;
    int64_t least;
    int64_t most;
  };
  static constexpr Column kColumns[] = {{&Cpu::cpu, 0, CpuSet::kMaxCpu},
                                        {&Cpu::core, kMinInt, kMaxInt},
                                        {&Cpu::socket, kMinInt, kMaxInt},
                                        {&Cpu::numa, 0, kMaxInt},
                                        {&Cpu::uncore, kMinInt, kMaxInt}};
  if (columns->size() != std::size(kColumns)) {
    return row.Wrong("is a row of " + std::to_string(columns->size()) +
                     ", not of 5: cpu, core, socket, numa, uncore");
  }
  Cpu cpu;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const Column& column = kColumns[i];
    const Result<int> number = ToInt((*columns)[i], column.least, column.most);
    if (!number.ok()) return number.error();
    cpu.*column.member = *number;
  }
  return cpu;
}

// A page size as a key: decimal, no sign, no leading zero.
std::optional<uint64_t> ToPageSize(const std::string& key) {
  uint64_t size = 0;
  const char* const end = key.data() + key.size();
  const auto [stop, code] = std::from_chars(key.data(), end, size);
  if (code != std::errc{} || stop != end || key.front() == '0') return std::nullopt;
  return size;
}

Result<std::map<uint64_t, uint64_t>> ToHugepages(const json::View& value) {
  const auto members = value.Members();
  if (!members.ok()) return members.error();
  std::map<uint64_t, uint64_t> pages_by_size;
  uint64_t max_bytes = std::numeric_limits<uint64_t>::max();  // sums of huge pages do not overflow
  for (const auto& [key, count] : *members) {
    const std::optional<uint64_t> size = ToPageSize(key);
    if (!size) return value.Wrong("\"" + key + "\" is not a page size in bytes");
    const Result<uint64_t> pages = count.Unsigned();
    if (!pages.ok()) return pages.error();
    if (*pages > max_bytes / *size)
      return count.IsNot("a number of pages whose bytes fit into 64 bits");
    max_bytes -= *pages * *size;
    pages_by_size[*size] = *pages;
  }
  return pages_by_size;
}

Result<std::vector<int>> ToDistances(const json::View& value) {
  const Result<std::vector<json::View>> elements = value.Elements();
  if (!elements.ok()) return elements.error();
  std::vector<int> distances;
  for (const json::View& element : *elements) {
    const Result<int> distance = ToInt(element, 0, kMaxInt);
    if (!distance.ok()) return distance.error();
    distances.push_back(*distance);
  }
  return distances;
}

Result<CpuSet> ToCpuSet(const json::View& value) {
  const Result<std::string> list = value.String();
  if (!list.ok()) return list.error();
  Result<CpuSet> cpus = CpuSet::Parse(*list);
  if (!cpus.ok()) return value.IsNot(R"(a list of CPUs such as "0-3,8")");
  return cpus;
}

// The member, converted by `convert`; the empty value if there is none.
template <typename Value>
Result<Value> Optional(const json::View& object, std::string_view key,
                       Result<Value> (*convert)(const json::View&)) {
  const Result<std::optional<json::View>> member = object.Find(key);
  if (!member.ok()) return member.error();
  return *member ? convert(**member) : Value{};
}

Result<NumaNode> ToNumaNode(const json::View& value) {
  const Result<json::View> id_member = value.Require("id");
  if (!id_member.ok()) return id_member.error();
  const Result<int> id = ToInt(*id_member, 0, kMaxInt);
  if (!id.ok()) return id.error();
  const Result<uint64_t> memory_bytes = Optional<uint64_t>(
      value, "memory", [](const json::View& member) { return member.Unsigned(); });
  if (!memory_bytes.ok()) return memory_bytes.error();
  Result<std::map<uint64_t, uint64_t>> hugepages = Optional(value, "hugepages", ToHugepages);
  if (!hugepages.ok()) return hugepages.error();
  Result<std::vector<int>> distances = Optional(value, "distances", ToDistances);
  if (!distances.ok()) return distances.error();
  return NumaNode{.id = *id,
                  .memory_bytes = *memory_bytes,
                  .hugepages = std::move(hugepages).value(),
                  .distances = std::move(distances).value()};
}

// The elements of the list under `key`, each converted by `convert`.
template <typename Value>
Result<std::vector<Value>> ToValues(const json::View& node, std::string_view key,
                                    Result<Value> (*convert)(const json::View&)) {
  const Result<json::View> list = node.Require(key);
  if (!list.ok()) return list.error();
  const Result<std::vector<json::View>> elements = list->Elements();
  if (!elements.ok()) return elements.error();
  std::vector<Value> values;
  for (const json::View& element : *elements) {
    Result<Value> value = convert(element);
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
  std::map<std::string, uint64_t> by_key;  // sorted as text, as in Go
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
  if (!machine.isolated().empty()) {
    out += ",\"isolated\":\"" + machine.isolated().ToString() + "\"";
  }
  out += "}";
  return out;
}

Result<Machine> MachineFromNode(const json::View& node) {
  Result<std::vector<Cpu>> cpus = ToValues<Cpu>(node, "cpus", ToCpu);
  if (!cpus.ok()) return cpus.error();
  Result<std::vector<NumaNode>> numa = ToValues<NumaNode>(node, "numa", ToNumaNode);
  if (!numa.ok()) return numa.error();
  const Result<CpuSet> isolated = Optional<CpuSet>(node, "isolated", ToCpuSet);
  if (!isolated.ok()) return isolated.error();
  Result<Machine> machine =
      Machine::Make(std::move(cpus).value(), std::move(numa).value(), *isolated);
  if (!machine.ok()) return node.Wrong(machine.error().message);
  return machine;
}

Result<Machine> MachineFromNodeJson(std::string_view json) {
  const Result<nlohmann::json> node = json::Parse(json);
  if (!node.ok()) return node.error();
  return MachineFromNode(json::View(*node, ""));
}

}  // namespace alignd
