#include "alignd/checkpoint/memory_checkpoint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/go_json.h"

namespace alignd::checkpoint {
namespace {

using memorymanager::Block;
using memorymanager::MemoryState;
using memorymanager::MemoryTable;
using memorymanager::NumaMemory;

Error CorruptMemory(const std::string& message) {
  return {ErrorCode::kCorrupt, message, std::string(RemedyOf(CheckpointKind::kMemory))};
}

MemoryTableDocument ToDocument(const MemoryTable& table) {
  return {table.total, table.system_reserved, table.allocatable, table.reserved, table.free};
}

NumaMemoryDocument ToDocument(const NumaMemory& node) {
  NumaMemoryDocument document;
  document.number_of_assignments = node.number_of_assignments;
  document.memory_map.emplace();
  for (const auto& [type, table] : node.tables) (*document.memory_map)[type] = ToDocument(table);
  document.cells.emplace(node.cells.begin(), node.cells.end());
  return document;
}

BlockDocument ToDocument(const Block& block) {
  BlockDocument document;
  document.numa_affinity.emplace(block.numa_affinity.begin(), block.numa_affinity.end());
  document.type = block.type;
  document.size = block.size;
  return document;
}

Result<int> ToInt(int64_t number) {
  if (number < 0 || number > std::numeric_limits<int>::max()) {
    return Error{ErrorCode::kCorrupt,
                 std::to_string(number) + " is neither a NUMA node id nor a count"};
  }
  return static_cast<int>(number);
}

// Ascending node ids; null is empty.
Result<std::vector<int>> ToIds(const GoSlice<int64_t>& list) {
  std::vector<int> ids;
  if (!list) return ids;
  for (const int64_t number : *list) {
    const Result<int> id = ToInt(number);
    if (!id.ok()) return id.error();
    ids.push_back(*id);
  }
  std::ranges::sort(ids);
  return ids;
}

Result<NumaMemory> FromDocument(const GoPointer<NumaMemoryDocument>& document) {
  if (!document) return Error{ErrorCode::kCorrupt, "the node is null"};
  NumaMemory node;
  const Result<int> assignments = ToInt(document->number_of_assignments);
  if (!assignments.ok()) return assignments.error().In("numberOfAssignments");
  node.number_of_assignments = *assignments;
  Result<std::vector<int>> cells = ToIds(document->cells);
  if (!cells.ok()) return cells.error().In("cells");
  node.cells = *std::move(cells);
  if (!document->memory_map) return node;
  for (const auto& [type, table] : *document->memory_map) {
    if (!table) return Error{ErrorCode::kCorrupt, "memoryMap." + GoQuoted(type) + " is null"};
    node.tables[type] = {table->total, table->system_reserved, table->allocatable, table->reserved,
                         table->free};
  }
  return node;
}

// Sorted by type.
Result<std::vector<Block>> FromDocument(const std::vector<BlockDocument>& documents) {
  std::vector<Block> blocks;
  for (const BlockDocument& document : documents) {
    Result<std::vector<int>> ids = ToIds(document.numa_affinity);
    if (!ids.ok()) return ids.error().In("numaAffinity");
    blocks.push_back({*std::move(ids), document.type, document.size});
  }
  std::ranges::stable_sort(blocks, {}, &Block::type);
  return blocks;
}

}  // namespace

std::string FormatMemoryCheckpoint(std::string_view policy_name, const MemoryState& state) {
  MemoryDocument document;
  document.policy_name = policy_name;
  for (const auto& [id, node] : state.machine) (*document.machine_state)[id] = ToDocument(node);
  for (const auto& [pod, containers] : state.assignments) {
    auto& entry = (*document.entries)[pod].emplace();
    for (const auto& [container, blocks] : containers) {
      auto& list = entry[container].emplace();
      for (const Block& block : blocks) list.push_back(ToDocument(block));
    }
  }
  return ToText(std::move(document));
}

Result<MemoryCheckpoint> ParseMemoryCheckpoint(std::string_view text) {
  const Result<Verified<MemoryDocument>> read = ReadMemoryDocument(text);
  if (!read.ok()) return read.error();
  const MemoryDocument& document = read->document;
  MemoryCheckpoint checkpoint{.policy_name = document.policy_name, .state = {}};
  if (document.machine_state) {
    for (const auto& [number, node_document] : *document.machine_state) {
      const std::string where = "machineState." + GoQuoted(std::to_string(number));
      const Result<int> id = ToInt(number);
      if (!id.ok()) return CorruptMemory(id.error().In(where).message);
      Result<NumaMemory> node = FromDocument(node_document);
      if (!node.ok()) return CorruptMemory(node.error().In(where).message);
      checkpoint.state.machine[*id] = *std::move(node);
    }
  }
  if (!document.entries) return checkpoint;
  for (const auto& [pod, containers] : *document.entries) {
    if (!containers) continue;
    for (const auto& [container, list] : *containers) {
      // A container without memory has an empty list. To the kubelet, null is the same.
      if (!list) {
        checkpoint.state.assignments[pod][container] = {};
        continue;
      }
      Result<std::vector<Block>> blocks = FromDocument(*list);
      if (!blocks.ok()) {
        const std::string where = "entries." + GoQuoted(pod) + "." + GoQuoted(container);
        return CorruptMemory(blocks.error().In(where).message);
      }
      checkpoint.state.assignments[pod][container] = *std::move(blocks);
    }
  }
  return checkpoint;
}

Result<Done> RequirePolicy(const MemoryCheckpoint& checkpoint, std::string_view configured) {
  if (checkpoint.policy_name == configured) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "[memorymanager] configured policy " + GoQuoted(configured) +
                   " differs from state checkpoint policy " + GoQuoted(checkpoint.policy_name),
               "set the policy as before, or " + std::string(RemedyOf(CheckpointKind::kMemory))};
}

}  // namespace alignd::checkpoint
