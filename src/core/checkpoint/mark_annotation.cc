#include "alignd/checkpoint/mark_annotation.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {
namespace {

using admission::AssignmentMark;
using memorymanager::Block;

constexpr int64_t kVersion = 1;
constexpr char kInit[] = "init";
constexpr char kSidecar[] = "sidecar";
constexpr char kApp[] = "app";
// More than a mark with the longest ids of some thousand devices.
constexpr size_t kMaxMarkBytes = size_t{16} * 1024 * 1024;
// More than any machine has.
constexpr int64_t kMaxSharedMillis = int64_t{1'000'000'000};

struct MarkDocument {
  int64_t version = 0;
  std::string pod_uid;
  std::string container;
  std::string id;
  std::string role;  // empty: not known
  std::string cpus;
  std::string original_cpus;
  GoSlice<BlockDocument> memory = {{}};
  // resource -> NUMA node id, or -1 without topology -> ids
  GoMap<std::string, GoMap<int64_t, GoSlice<std::string>>> devices = {{}};
  std::string pod_cpus;
  GoMap<std::string, std::string> cpu_parts = {{}};  // by container, as the next two
  GoSlice<std::string> own = {{}};
  GoSlice<BlockDocument> pod_memory = {{}};
  GoMap<std::string, GoSlice<BlockDocument>> memory_parts = {{}};
  GoMap<int64_t, int64_t> shared_millis = {{}};  // by the NUMA node id; one entry at most
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"version", "Version", "int"}, self.version);
    visit({"podUID", "PodUID", "string"}, self.pod_uid);
    visit({"container", "Container", "string"}, self.container);
    visit({"id", "ID", "string"}, self.id);
    visit({"role", "Role", "string", true}, self.role);
    visit({"cpus", "CPUs", "string", true}, self.cpus);
    visit({"originalCPUs", "OriginalCPUs", "string", true}, self.original_cpus);
    visit({"memory", "Memory", "[]state.Block", true}, self.memory);
    visit({"devices", "Devices", "map[string]checkpoint.DevicesPerNUMA", true}, self.devices);
    visit({"podCPUs", "PodCPUs", "string", true}, self.pod_cpus);
    visit({"cpuParts", "CPUParts", "map[string]string", true}, self.cpu_parts);
    visit({"own", "Own", "[]string", true}, self.own);
    visit({"podMemory", "PodMemory", "[]state.Block", true}, self.pod_memory);
    visit({"memoryParts", "MemoryParts", "map[string][]state.Block", true}, self.memory_parts);
    visit({"sharedMillis", "SharedMillis", "map[int]int64", true}, self.shared_millis);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

std::string RoleText(const AssignmentMark& mark) {
  const bool has_other = mark.share && mark.share->kind != ContainerKind::kApp;
  const std::optional<ContainerKind> role = has_other ? std::optional(mark.share->kind) : mark.role;
  if (!role) return {};
  switch (*role) {
    case ContainerKind::kInit:
      return kInit;
    case ContainerKind::kSidecar:
      return kSidecar;
    case ContainerKind::kApp:
      return kApp;
  }
  return {};
}

// nullopt also for a role of another version: it is no fault.
std::optional<ContainerKind> RoleOf(std::string_view text) {
  if (text == kInit) return ContainerKind::kInit;
  if (text == kSidecar) return ContainerKind::kSidecar;
  if (text == kApp) return ContainerKind::kApp;
  return std::nullopt;
}

// Over the text without its checksum, so that it depends only on the mark's content.
uint64_t ChecksumOf(MarkDocument document) {
  document.checksum = 0;
  return Fnv1a32(GoJsonWriter::ToText(document));
}

Error CorruptMark(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

std::vector<BlockDocument> ToDocuments(const std::vector<Block>& blocks) {
  std::vector<BlockDocument> documents;
  for (const Block& block : blocks) {
    BlockDocument document{.numa_affinity = {{}}, .type = block.type, .size = block.size};
    document.numa_affinity->assign(block.numa_affinity.begin(), block.numa_affinity.end());
    documents.push_back(std::move(document));
  }
  return documents;
}

bool IsNodeId(int64_t id) { return id >= 0 && id <= std::numeric_limits<int>::max(); }

Result<std::vector<Block>> ToBlocks(const GoSlice<BlockDocument>& documents) {
  std::vector<Block> blocks;
  if (!documents) return blocks;
  for (const BlockDocument& document : *documents) {
    const bool has_nodes =
        document.numa_affinity && !document.numa_affinity->empty() &&
        std::ranges::all_of(*document.numa_affinity, IsNodeId) &&
        std::ranges::is_sorted(*document.numa_affinity, std::ranges::less_equal());
    if (!has_nodes || document.type.empty()) {
      return CorruptMark("a memory block has no type, or no ascending list of NUMA nodes");
    }
    Block block{.numa_affinity = {}, .type = document.type, .size = document.size};
    for (const int64_t id : *document.numa_affinity) {
      block.numa_affinity.push_back(static_cast<int>(id));
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

Result<Done> ReadDevices(const MarkDocument& document, AssignmentMark& mark) {
  if (!document.devices) return Done{};
  for (const auto& [resource, by_node] : *document.devices) {
    size_t count = 0;
    for (const auto& [node, ids] : by_node.value_or(std::map<int64_t, GoSlice<std::string>>())) {
      if (!ids) continue;
      if (std::ranges::find(*ids, "") != ids->end())
        return CorruptMark("the id of a device is empty");
      mark.devices[resource][node] = *ids;
      std::ranges::sort(mark.devices[resource][node]);
      count += ids->size();
    }
    if (resource.empty() || count == 0) return CorruptMark("a resource without name or devices");
  }
  return Done{};
}

Result<Done> ReadCpus(const std::string& list, CpuSet& cpus) {
  Result<CpuSet> parsed = CpuSet::Parse(list);
  if (!parsed.ok()) return CorruptMark(parsed.error().message);
  cpus = *std::move(parsed);
  return Done{};
}

// What a null says: nothing.
template <typename T>
T Value(const std::optional<T>& value) {
  return value.value_or(T());
}

// The parts are those of all containers of the pod, this one included.
Result<Done> ReadWhole(const MarkDocument& document, AssignmentMark& mark) {
  admission::WholePodMark& whole = mark.whole;
  if (const Result<Done> read = ReadCpus(document.pod_cpus, whole.cpus); !read.ok()) return read;
  for (const auto& [container, list] : Value(document.cpu_parts)) {
    CpuSet& part = whole.cpu_parts[container];
    if (const Result<Done> read = ReadCpus(list, part); !read.ok()) return read;
    if (part.empty() || !whole.cpus.Contains(part)) {
      return CorruptMark("the CPUs of container " + container + " are no part of its pod's");
    }
  }
  for (const std::string& container : Value(document.own)) {
    if (!whole.cpu_parts.contains(container)) {
      return CorruptMark("no CPUs of container " + container + " are named as its own");
    }
    whole.own.insert(container);
  }
  Result<std::vector<Block>> memory = ToBlocks(document.pod_memory);
  if (!memory.ok()) return memory.error();
  whole.memory = *std::move(memory);
  for (const auto& [container, blocks] : Value(document.memory_parts)) {
    Result<std::vector<Block>> part = ToBlocks(blocks);
    if (!part.ok()) return part.error();
    whole.memory_parts[container] = *std::move(part);
  }
  const auto cpus = whole.cpu_parts.find(document.container);
  const auto blocks = whole.memory_parts.find(document.container);
  const bool is_same =
      (whole.cpu_parts.empty() ||
       mark.cpus == (cpus == whole.cpu_parts.end() ? CpuSet() : cpus->second)) &&
      (whole.memory_parts.empty() ||
       mark.memory == (blocks == whole.memory_parts.end() ? std::vector<Block>() : blocks->second));
  if (!is_same) return CorruptMark("its own assignment is not its part of the pod's");
  return Done{};
}

Result<Done> ReadShare(const MarkDocument& document, AssignmentMark& mark) {
  if (!document.shared_millis || document.shared_millis->empty()) return Done{};
  const auto& [id, millis] = *document.shared_millis->begin();
  if (document.shared_millis->size() > 1 || !IsNodeId(id) || millis < 0 ||
      millis > kMaxSharedMillis || !mark.cpus.empty()) {
    return CorruptMark("what it shares of a NUMA node is not valid");
  }
  const ContainerKind kind = mark.role.value_or(ContainerKind::kApp);
  mark.share = cpumanager::NodeShare{static_cast<int>(id), millis, kind};
  return Done{};
}

Result<AssignmentMark> ToMark(const MarkDocument& document) {
  AssignmentMark mark;
  mark.role = RoleOf(document.role);
  for (const auto& [list, cpus] : {std::pair(&document.cpus, &mark.cpus),
                                   std::pair(&document.original_cpus, &mark.original)}) {
    if (const Result<Done> read = ReadCpus(*list, *cpus); !read.ok()) return read.error();
  }
  Result<std::vector<Block>> memory = ToBlocks(document.memory);
  if (!memory.ok()) return memory.error();
  mark.memory = *std::move(memory);
  if (const Result<Done> read = ReadWhole(document, mark); !read.ok()) return read.error();
  if (const Result<Done> read = ReadDevices(document, mark); !read.ok()) return read.error();
  if (const Result<Done> read = ReadShare(document, mark); !read.ok()) return read.error();
  if (mark.IsEmpty()) return CorruptMark("it has no assignment");
  return mark;
}

}  // namespace

std::string FormatMark(const ContainerKey& key, std::string_view id, const AssignmentMark& mark) {
  MarkDocument document;
  document.version = kVersion;
  document.pod_uid = key.pod_uid;
  document.container = key.container;
  document.id = id;
  document.role = RoleText(mark);
  if (mark.share) (*document.shared_millis)[mark.share->numa_id] = mark.share->millis;
  document.cpus = mark.cpus.ToString();
  document.original_cpus = mark.original.ToString();
  document.memory = ToDocuments(mark.memory);
  for (const auto& [resource, by_node] : mark.devices) {
    auto& entry = (*document.devices)[resource].emplace();
    for (const auto& [node, ids] : by_node) entry[node] = ids;
  }
  const admission::WholePodMark& whole = mark.whole;
  document.pod_cpus = whole.cpus.ToString();
  for (const auto& [container, cpus] : whole.cpu_parts) {
    (*document.cpu_parts)[container] = cpus.ToString();
  }
  document.own->assign(whole.own.begin(), whole.own.end());
  document.pod_memory = ToDocuments(whole.memory);
  for (const auto& [container, blocks] : whole.memory_parts) {
    (*document.memory_parts)[container] = ToDocuments(blocks);
  }
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Result<AssignmentMark> ParseMark(const ContainerKey& key, std::string_view id,
                                 std::string_view text) {
  if (text.size() > kMaxMarkBytes) return CorruptMark("it is too long");
  MarkDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return read.error();
  }
  // Before the checksum: another version may have other fields.
  if (document.version != kVersion) {
    return Error{ErrorCode::kInvalidArgument, "its version is " + std::to_string(document.version) +
                                                  ", and this alignd reads " +
                                                  std::to_string(kVersion) + " only"};
  }
  if (document.checksum != ChecksumOf(document)) return CorruptMark("its checksum does not match");
  if (ContainerKey{document.pod_uid, document.container} != key) {
    return CorruptMark("it is that of container " + document.container + " of pod " +
                       document.pod_uid);
  }
  if (id.empty() || document.id != id) {
    return CorruptMark(
        "alignd did not write it for this container; the container may have been restored from a "
        "checkpoint");
  }
  return ToMark(document);
}

}  // namespace alignd::checkpoint
