#include <algorithm>
#include <utility>

#include "alignd/memorymanager/fit_to_machine.h"
#include "alignd/memorymanager/static_policy.h"
#include "core/memorymanager/memory_groups.h"

namespace alignd::memorymanager {
namespace {

Error Corrupt(const std::string& text) { return {ErrorCode::kCorrupt, "[memorymanager] " + text}; }

constexpr char kMemory[] = "memory";

std::vector<int> Sorted(std::vector<int> ids) {
  std::ranges::sort(ids);
  return ids;
}

bool SomeNodeHas(const std::map<int, NumaMemory>& machine, const Block& block) {
  return std::ranges::any_of(block.numa_affinity, [&](int id) {
    const auto node = machine.find(id);
    return node != machine.end() && node->second.tables.contains(block.type);
  });
}

// The empty machine with all blocks booked.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, updateExpectedMachineState.
Result<std::map<int, NumaMemory>> Rebuild(std::map<int, NumaMemory> machine,
                                          const MemoryState& state) {
  const auto book = [&machine](const std::string& subject, const std::vector<Block>& blocks,
                               bool is_booked) -> Result<Done> {
    for (const Block& block : blocks) {
      for (const int id : block.numa_affinity) {
        if (machine.contains(id)) continue;
        return Corrupt(subject + "the memory assignment uses the NUMA that does not exist");
      }
      if (!SomeNodeHas(machine, block)) {
        return Corrupt(subject + "the memory assignment uses memory resource that does not exist");
      }
      if (is_booked && Book(block.numa_affinity, block.type, block.size, machine) > 0) {
        return Corrupt(subject + "is assigned more memory of type \"" + block.type +
                       "\" than its NUMA nodes have");
      }
    }
    return Done{};
  };
  for (const auto& [pod, blocks] : state.pods) {
    if (const auto booked = book("(pod: " + pod + ") ", blocks, true); !booked.ok()) {
      return booked.error();
    }
  }
  for (const auto& [pod, containers] : state.assignments) {
    const bool are_parts = state.pods.contains(pod);
    for (const auto& [container, blocks] : containers) {
      const std::string subject = "(pod: " + pod + ", container: " + container + ") ";
      if (const auto booked = book(subject, blocks, !are_parts); !booked.ok())
        return booked.error();
    }
  }
  return machine;
}

// The sum of one column of a type over a group; 0 for missing nodes.
uint64_t GroupSum(uint64_t MemoryTable::*column, const std::map<int, NumaMemory>& machine,
                  const std::vector<int>& group, const std::string& type) {
  uint64_t sum = 0;
  for (const int id : group) {
    const auto node = machine.find(id);
    if (node == machine.end()) continue;
    const auto table = node->second.tables.find(type);
    if (table != node->second.tables.end()) sum += table->second.*column;
  }
  return sum;
}

// Whether two machines are equal; free and reserved memory are compared by group.
// Source: policy_static.go, areMachineStatesEqual, areMemoryStatesEqual.
bool SameBooks(const std::map<int, NumaMemory>& a, const std::map<int, NumaMemory>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [id, mine] : a) {
    const auto found = b.find(id);
    if (found == b.end()) return false;
    const NumaMemory& other = found->second;
    if (mine.number_of_assignments != other.number_of_assignments) return false;
    if (Sorted(mine.cells) != Sorted(other.cells)) return false;
    if (mine.tables.size() != other.tables.size()) return false;
    for (const auto& [type, table] : mine.tables) {
      const auto counterpart = other.tables.find(type);
      if (counterpart == other.tables.end()) return false;
      const MemoryTable& others = counterpart->second;
      if (table.total != others.total || table.system_reserved != others.system_reserved ||
          table.allocatable != others.allocatable) {
        return false;
      }
      for (const auto column : {&MemoryTable::free, &MemoryTable::reserved}) {
        if (GroupSum(column, a, mine.cells, type) != GroupSum(column, b, mine.cells, type)) {
          return false;
        }
      }
    }
  }
  return true;
}

std::string NodeName(int id) { return "NUMA node " + std::to_string(id); }

// Every member of a group names the same group; an unused node is alone.
void CheckGroups(const MemoryState& state, std::vector<std::string>& broken) {
  for (const auto& [id, node] : state.machine) {
    if (!std::ranges::is_sorted(node.cells) || !std::ranges::binary_search(node.cells, id)) {
      broken.push_back("the group of " + NodeName(id) + " is not sorted or lacks the node itself");
    }
    if (node.number_of_assignments == 0 && node.cells.size() != 1) {
      broken.push_back(NodeName(id) + " is in a group, although it is unused");
    }
    for (const int member : node.cells) {
      const auto found = state.machine.find(member);
      if (found == state.machine.end() || found->second.cells != node.cells) {
        broken.push_back(NodeName(id) + " and " + NodeName(member) +
                         " disagree about the group they are in");
      }
    }
  }
}

// Whether each block is on the nodes of the pod's block of its type, and not larger.
bool ArePartsOf(const std::vector<Block>& whole, const std::vector<Block>& parts) {
  return std::ranges::all_of(parts, [&](const Block& part) {
    return std::ranges::any_of(whole, [&](const Block& block) {
      return block.type == part.type && block.numa_affinity == part.numa_affinity &&
             block.size >= part.size;
    });
  });
}

// No memory is created or lost, on a node or in a group.
void CheckSums(const MemoryState& state, std::vector<std::string>& broken) {
  std::map<int, int> assignments;
  std::map<std::pair<std::vector<int>, std::string>, uint64_t> assigned;
  const auto add = [&](const std::string& subject, const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      for (const int id : block.numa_affinity) ++assignments[id];
      assigned[{block.numa_affinity, block.type}] += block.size;
      const auto first =
          state.machine.find(block.numa_affinity.empty() ? -1 : block.numa_affinity.front());
      if (first == state.machine.end() || first->second.cells != block.numa_affinity) {
        broken.push_back(subject + " has memory on nodes that are not one group");
      }
    }
  };
  for (const auto& [pod, blocks] : state.pods) add("pod " + pod, blocks);
  for (const auto& [pod, containers] : state.assignments) {
    if (containers.empty()) broken.push_back("pod " + pod + " has an entry without containers");
    const auto whole = state.pods.find(pod);
    for (const auto& [container, blocks] : containers) {
      const std::string subject = "container " + container + " of pod " + pod;
      if (whole == state.pods.end()) {
        add(subject, blocks);
      } else if (!ArePartsOf(whole->second, blocks)) {
        broken.push_back(subject + " has memory that is not the pod's");
      }
    }
  }
  for (const auto& [id, node] : state.machine) {
    if (node.number_of_assignments != assignments[id]) {
      broken.push_back(NodeName(id) + " has " + std::to_string(node.number_of_assignments) +
                       " recorded assignments, but its containers have " +
                       std::to_string(assignments[id]));
    }
    for (const auto& [type, table] : node.tables) {
      if (table.free + table.reserved != table.allocatable || table.free > table.allocatable) {
        broken.push_back("free and reserved " + type + " of " + NodeName(id) +
                         " do not add up to the allocatable memory");
      }
      if (node.cells.empty() || node.cells.front() != id) continue;
      const uint64_t reserved = GroupSum(&MemoryTable::reserved, state.machine, node.cells, type);
      const auto found = assigned.find({node.cells, type});
      const uint64_t in_blocks = found == assigned.end() ? 0 : found->second;
      if (reserved != in_blocks) {
        broken.push_back("in the group of " + NodeName(id) + " " + std::to_string(reserved) +
                         " bytes of " + type + " are reserved, but containers are assigned " +
                         std::to_string(in_blocks));
      }
    }
  }
}

}  // namespace

Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const MemoryState& state) {
  if (state.machine.empty()) {
    if (state.assignments.empty() && state.pods.empty()) return Done{};
    return Corrupt("machine state can not be empty when it has memory assignments");
  }
  const Result<std::map<int, NumaMemory>> expected =
      Rebuild(InitialState(machine, policy).machine, state);
  if (!expected.ok()) return expected.error();
  if (!SameBooks(state.machine, *expected)) {
    return Corrupt("the expected machine state is different from the real one");
  }
  const std::vector<std::string> broken = BrokenInvariants(machine, policy, state);
  if (!broken.empty()) return Corrupt(broken.front());
  return Done{};
}

std::optional<MemoryState> FitToMachine(const Machine& machine, const StaticPolicy& policy,
                                        const MemoryState& state) {
  Result<std::map<int, NumaMemory>> expected =
      Rebuild(InitialState(machine, policy).machine, state);
  if (!expected.ok() || state.machine.empty()) return std::nullopt;
  // Sets the sizes of the nodes as if they had always been so. A node of a group may have less free
  // memory than is missing. The subtraction then wraps around, and the sum of the group is right.
  std::map<int, NumaMemory> saved = state.machine;
  for (auto& [id, node] : saved) {
    const auto now = expected->find(id);
    const auto table = node.tables.find(kMemory);
    if (now == expected->end() || table == node.tables.end()) return std::nullopt;
    const auto current = now->second.tables.find(kMemory);
    if (current == now->second.tables.end()) return std::nullopt;
    const uint64_t more = current->second.total - table->second.total;
    table->second.total += more;
    table->second.allocatable += more;
    table->second.free += more;
  }
  if (!SameBooks(saved, *expected)) return std::nullopt;
  MemoryState fitted = state;
  fitted.machine = *std::move(expected);
  if (!BrokenInvariants(machine, policy, fitted).empty()) return std::nullopt;
  return fitted;
}

bool IsOfOtherReservations(const Machine& machine, const StaticPolicy& policy,
                           const MemoryState& state) {
  StaticPolicy saved;
  bool differs = false;
  const std::map<int, NumaMemory> now = InitialState(machine, policy).machine;
  for (const auto& [id, node] : state.machine) {
    const auto of_node = now.find(id);
    if (of_node == now.end()) return false;
    for (const auto& [type, table] : node.tables) {
      const auto current = of_node->second.tables.find(type);
      // More than there is cannot have been reserved, here.
      if (current == of_node->second.tables.end() ||
          table.system_reserved > current->second.total) {
        return false;
      }
      saved.system_reserved[id][type] = table.system_reserved;
      differs = differs || table.system_reserved != current->second.system_reserved;
    }
  }
  return differs && FitToMachine(machine, saved, state).has_value();
}

MemoryState Rebooked(const Machine& machine, const StaticPolicy& policy, const MemoryState& state,
                     std::map<ContainerKey, std::string>& refused) {
  MemoryState rebooked = InitialState(machine, policy);
  for (const auto& [pod, containers] : state.assignments) {
    for (const auto& [container, blocks] : containers) {
      std::map<int, NumaMemory> booked = rebooked.machine;
      std::string why;
      for (const Block& block : blocks) {
        const bool known =
            std::ranges::all_of(block.numa_affinity, [&](int id) { return booked.contains(id); });
        if (known && SomeNodeHas(booked, block) &&
            Book(block.numa_affinity, block.type, block.size, booked) == 0) {
          continue;
        }
        why = "its " + std::to_string(block.size) + " bytes of " + block.type +
              " do not fit on their NUMA nodes beside the new reservations; memory does not move";
      }
      if (why.empty()) {
        rebooked.machine = std::move(booked);
        rebooked.assignments[pod][container] = blocks;
      } else {
        refused[{pod, container}] = std::move(why);
      }
    }
  }
  return rebooked;
}

std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const MemoryState& state) {
  std::vector<std::string> broken;
  const MemoryState initial = InitialState(machine, policy);
  for (const auto& [id, node] : initial.machine) {
    const auto found = state.machine.find(id);
    if (found == state.machine.end()) {
      broken.push_back(NodeName(id) + " is missing");
      continue;
    }
    if (found->second.tables.size() != node.tables.size()) {
      broken.push_back(NodeName(id) + " has other memory types than the machine");
    }
    for (const auto& [type, table] : node.tables) {
      const auto now = found->second.tables.find(type);
      if (now == found->second.tables.end() || now->second.total != table.total ||
          now->second.system_reserved != table.system_reserved ||
          now->second.allocatable != table.allocatable) {
        broken.push_back("the " + type + " of " + NodeName(id) + " is not what the machine has");
      }
    }
  }
  CheckGroups(state, broken);
  CheckSums(state, broken);
  return broken;
}

}  // namespace alignd::memorymanager
