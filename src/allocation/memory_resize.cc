#include "allocation/memory_resize.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/config/feature_gates.h"
#include "allocation/requested_resize.h"

namespace alignd::allocation {
namespace {

constexpr std::string_view kMemory = "memory";

std::optional<uint64_t> MemoryIn(const std::vector<memorymanager::Block>& blocks) {
  const auto is_memory = [](const memorymanager::Block& block) { return block.type == kMemory; };
  const auto block = std::ranges::find_if(blocks, is_memory);
  return block == blocks.end() ? std::nullopt : std::optional(block->size);
}

std::string BytesText(uint64_t bytes) {
  constexpr uint64_t kMi = 1024 * 1024;
  const bool is_whole = bytes > 0 && bytes % kMi == 0;
  return is_whole ? std::to_string(bytes / kMi) + "Mi" : std::to_string(bytes) + " bytes";
}

// "is assigned 1024Mi of memory on NUMA node 0"
std::string DescribeAssigned(const std::vector<memorymanager::Block>& blocks) {
  for (const memorymanager::Block& block : blocks) {
    if (block.type != kMemory) continue;
    std::string text = "is assigned " + BytesText(block.size) + " of memory on NUMA node" +
                       (block.numa_affinity.size() == 1 ? " " : "s ");
    for (size_t i = 0; i < block.numa_affinity.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::to_string(block.numa_affinity[i]);
    }
    return text;
  }
  return "is assigned no memory";
}

std::string Fault(const std::vector<memorymanager::Block>& blocks, std::string_view what,
                  const std::string& asked) {
  return DescribeAssigned(blocks) + std::string(what) +
         ", and with memoryManagerPolicy Static its amount cannot change while its pod lives: "
         "asked for " +
         asked;
}

// Whether the assigned amount or the other one contains memory of ResourceClaims, which is in the
// limit in CRI. A container keeps the amount of its first decision.
bool ClaimsMayExplain(const admission::Node& node, const MemoryInCri& in_cri, uint64_t assigned,
                      uint64_t asked) {
  if (!DraNodeAllocatableResourcesOn(node.config)) return false;
  if (in_cri.is_estimate) return asked > assigned;
  // At the first decision, no other source than CRI answered.
  return asked < assigned && in_cri.limit.value_or(assigned) == assigned;
}

constexpr char kRemedy[] = "delete the pod and create it with the memory that it needs";

}  // namespace

std::optional<uint64_t> AssignedMemory(const admission::NodeState& state, const ContainerKey& key) {
  const std::vector<memorymanager::Block>* const blocks = state.memory.Find(key);
  return blocks == nullptr ? std::nullopt : MemoryIn(*blocks);
}

std::optional<uint64_t> AssignedMemory(const admission::NodeState& state,
                                       const std::string& pod_uid) {
  const auto whole = state.memory.pods.find(pod_uid);
  return whole == state.memory.pods.end() ? std::nullopt : MemoryIn(whole->second);
}

Refusal RefusedMemoryResize(const admission::NodeState& state, const ContainerKey& key,
                            const std::string& pod, std::optional<uint64_t> asked) {
  const std::vector<memorymanager::Block>* const blocks = state.memory.Find(key);
  return RefusedResize(pod, key.container,
                       Fault(blocks == nullptr ? std::vector<memorymanager::Block>() : *blocks, "",
                             asked ? BytesText(*asked) : std::string("memory without a limit")),
                       kRemedy);
}

Refusal RefusedMemoryResize(const admission::NodeState& state, const std::string& pod_uid,
                            const std::string& pod, uint64_t asked) {
  std::string fault = Fault(state.memory.BookedFor(pod_uid), " as a whole", BytesText(asked));
  std::string message = "pod " + pod + " " + fault + ". Nothing was changed. D" + (kRemedy + 1);
  return {kResizeRefused, std::move(message), std::move(fault), kRemedy};
}

std::optional<Refusal> RefuseMemoryResize(const admission::Node& node,
                                          const admission::NodeState& state, const Pod& pod,
                                          const std::string& wanted, const MemoryInCri& in_cri) {
  // A pod from before its handler was listed keeps what it has, so that its containers can restart.
  if (!node.memory || !pod.shared_pool_handler.empty()) return std::nullopt;
  // Its containers are assigned parts of what the pod has as a whole.
  if (state.memory.pods.contains(pod.uid)) return std::nullopt;
  const bool one =
      std::ranges::find(pod.containers, wanted, &Container::name) != pod.containers.end();
  for (const Container& container : pod.containers) {
    if (one && container.name != wanted) continue;
    if (container.kind == ContainerKind::kInit) continue;
    const ContainerKey key{pod.uid, container.name};
    const std::optional<uint64_t> assigned = AssignedMemory(state, key);
    // Nothing is left to an init container whose memory others have taken over. Its role is known
    // from a source that is complete, or from a mark.
    if (!assigned || *assigned == 0 || !admission::RequestsMemory(node, pod, container)) continue;
    const Quantity* const asked = Find(container.resources.requests, kMemory);
    if (asked == nullptr || *asked == Quantity(static_cast<int64_t>(*assigned))) continue;
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(asked->Value(), 0));
    if (ClaimsMayExplain(node, in_cri, *assigned, bytes)) continue;
    return RefusedMemoryResize(state, key, NameOrUid(pod), bytes);
  }
  return std::nullopt;
}

}  // namespace alignd::allocation
