#include "alignd/checkpoint/memory_checkpoint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

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

GoSlice<BlockDocument> ToDocument(const std::vector<Block>& blocks) {
  std::vector<BlockDocument> documents;
  for (const Block& block : blocks) documents.push_back(ToDocument(block));
  return documents;
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

// Sorted by type; null is empty.
Result<std::vector<Block>> FromDocument(const GoSlice<BlockDocument>& documents) {
  std::vector<Block> blocks;
  if (!documents) return blocks;
  for (const BlockDocument& document : *documents) {
    Result<std::vector<int>> ids = ToIds(document.numa_affinity);
    if (!ids.ok()) return ids.error().In("numaAffinity");
    blocks.push_back({*std::move(ids), document.type, document.size});
  }
  std::ranges::stable_sort(blocks, {}, &Block::type);
  return blocks;
}

// Without the remedy, which the caller adds.
Result<MemoryState> FromDocument(const MemoryDocument& document) {
  MemoryState state;
  if (document.machine_state) {
    for (const auto& [number, node_document] : *document.machine_state) {
      const std::string where = "machineState." + GoQuoted(std::to_string(number));
      const Result<int> id = ToInt(number);
      if (!id.ok()) return id.error().In(where);
      Result<NumaMemory> node = FromDocument(node_document);
      if (!node.ok()) return node.error().In(where);
      state.machine[*id] = *std::move(node);
    }
  }
  if (document.entries) {
    for (const auto& [pod, containers] : *document.entries) {
      if (!containers) continue;
      for (const auto& [container, list] : *containers) {
        // A container without memory has an empty list. To the kubelet, null is the same.
        Result<std::vector<Block>> blocks = FromDocument(list);
        if (!blocks.ok()) {
          return blocks.error().In("entries." + GoQuoted(pod) + "." + GoQuoted(container));
        }
        state.assignments[pod][container] = *std::move(blocks);
      }
    }
  }
  if (document.pod_entries) {
    for (const auto& [pod, entry] : *document.pod_entries) {
      Result<std::vector<Block>> blocks = FromDocument(entry.memory_blocks);
      if (!blocks.ok()) return blocks.error().In("podEntries." + GoQuoted(pod));
      if (!blocks->empty()) state.pods[pod] = *std::move(blocks);
    }
  }
  return state;
}

}  // namespace

std::string FormatMemoryCheckpoint(std::string_view policy_name, const MemoryState& state,
                                   StateForm form) {
  MemoryDocument document;
  document.policy_name = policy_name;
  for (const auto& [id, node] : state.machine) (*document.machine_state)[id] = ToDocument(node);
  for (const auto& [pod, containers] : state.assignments) {
    auto& entry = (*document.entries)[pod].emplace();
    for (const auto& [container, blocks] : containers) entry[container] = ToDocument(blocks);
  }
  for (const auto& [pod, blocks] : state.pods) {
    (*document.pod_entries)[pod].memory_blocks = ToDocument(blocks);
  }
  return ToText(document, form);
}

Result<MemoryCheckpoint> ParseMemoryCheckpoint(std::string_view text) {
  const Result<Verified<MemoryDocument>> read = ReadMemoryDocument(text);
  if (!read.ok()) return read.error();
  Result<MemoryState> state = FromDocument(read->document);
  if (!state.ok()) return CorruptMemory(state.error().message);
  return MemoryCheckpoint{.policy_name = read->document.policy_name, .state = *std::move(state)};
}

Result<Done> RequirePolicy(const MemoryCheckpoint& checkpoint, std::string_view configured) {
  if (checkpoint.policy_name == configured) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "[memorymanager] configured policy " + GoQuoted(configured) +
                   " differs from state checkpoint policy " + GoQuoted(checkpoint.policy_name),
               "set the policy as before, or " + std::string(RemedyOf(CheckpointKind::kMemory))};
}

}  // namespace alignd::checkpoint
