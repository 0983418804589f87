#include "alignd/machine/machine.h"

#include <algorithm>
#include <string>
#include <utility>

namespace alignd {
namespace {

Error Invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// The CPUs, grouped by `id_of`, ascending by id.
template <typename IdOf>
std::vector<CpuGroup> GroupBy(const std::vector<Cpu>& rows, IdOf id_of) {
  std::map<int, CpuSet> by_id;
  for (const Cpu& row : rows) by_id[id_of(row)].Add(row.cpu);
  std::vector<CpuGroup> groups;
  groups.reserve(by_id.size());
  for (auto& [id, cpus] : by_id) groups.push_back({id, std::move(cpus)});
  return groups;
}

Nesting NestedIn(const std::vector<CpuGroup>& outer, const std::vector<CpuGroup>& inner,
                 size_t cpu_numbers) {
  std::vector<size_t> outer_of_cpu(cpu_numbers);
  for (size_t place = 0; place < outer.size(); ++place) {
    for (const int cpu : outer[place].cpus) outer_of_cpu[static_cast<size_t>(cpu)] = place;
  }
  Nesting nesting(outer.size());
  for (size_t place = 0; place < inner.size(); ++place) {
    for (const int cpu : inner[place].cpus) {
      std::vector<size_t>& inside = nesting[outer_of_cpu[static_cast<size_t>(cpu)]];
      if (inside.empty() || inside.back() != place) inside.push_back(place);
    }
  }
  return nesting;
}

// Sets the id of each core to its lowest CPU number. Rows are ascending.
Result<Done> NameCores(std::vector<Cpu>& rows) {
  std::map<int, const Cpu*> first_of_core;
  for (Cpu& row : rows) {
    const Cpu& first = *first_of_core.try_emplace(row.core, &row).first->second;
    if (first.socket != row.socket) {
      return Invalid("CPUs " + std::to_string(first.cpu) + " and " + std::to_string(row.cpu) +
                     " share a core but not a socket");
    }
  }
  std::vector<int> names;
  names.reserve(rows.size());
  for (const Cpu& row : rows) names.push_back(first_of_core.at(row.core)->cpu);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].core = names[i];
  return Done{};
}

}  // namespace

Result<Machine> Machine::Make(std::vector<Cpu> cpus, std::vector<NumaNode> numa,
                              const CpuSet& isolated) {
  if (cpus.empty()) return Invalid("the machine has no CPU");
  if (numa.empty()) return Invalid("the machine has no NUMA node");
  if (numa.size() > NumaMask::kMaxNodes) {
    return Invalid("the machine has " + std::to_string(numa.size()) +
                   " NUMA nodes; at most 64 are supported");
  }
  std::ranges::sort(cpus, {}, &Cpu::cpu);
  std::ranges::sort(numa, {}, &NumaNode::id);
  if (cpus.front().cpu < 0 || cpus.back().cpu > CpuSet::kMaxCpu) {
    return Invalid("CPU numbers must be 0 to " + std::to_string(CpuSet::kMaxCpu));
  }
  if (const auto twice = std::ranges::adjacent_find(cpus, {}, &Cpu::cpu); twice != cpus.end()) {
    return Invalid("CPU " + std::to_string(twice->cpu) + " occurs twice");
  }
  if (const auto twice = std::ranges::adjacent_find(numa, {}, &NumaNode::id); twice != numa.end()) {
    return Invalid("NUMA node " + std::to_string(twice->id) + " occurs twice");
  }
  for (const NumaNode& node : numa) {
    for (const int distance : node.distances) {
      if (distance >= 0 && distance <= kMaxDistance) continue;
      return Invalid("NUMA node " + std::to_string(node.id) + " has a distance of " +
                     std::to_string(distance) + "; distances are 0 to " +
                     std::to_string(kMaxDistance));
    }
  }
  if (const Result<Done> named = NameCores(cpus); !named.ok()) return named.error();

  Machine machine;
  machine.numa_ = std::move(numa);
  machine.numa_cpus_.resize(machine.numa_.size());
  machine.row_of_cpu_.resize(static_cast<size_t>(cpus.back().cpu) + 1);
  for (size_t i = 0; i < cpus.size(); ++i) {
    const Cpu& row = cpus[i];
    const std::optional<int> position = machine.NumaPosition(row.numa);
    if (!position) {
      return Invalid("CPU " + std::to_string(row.cpu) + " lies on NUMA node " +
                     std::to_string(row.numa) + ", which the machine does not have");
    }
    machine.cpus_.Add(row.cpu);
    machine.row_of_cpu_[static_cast<size_t>(row.cpu)] = i;
    machine.numa_position_of_cpu_.push_back(*position);
    machine.numa_cpus_[static_cast<size_t>(*position)].Add(row.cpu);
    machine.numa_with_cpus_.Add(*position);
  }
  machine.isolated_ = isolated & machine.cpus_;
  machine.cores_ = GroupBy(cpus, [](const Cpu& row) { return row.core; });
  machine.uncores_ = GroupBy(cpus, [](const Cpu& row) { return row.uncore; });
  machine.sockets_ = GroupBy(cpus, [](const Cpu& row) { return row.socket; });
  for (const int position : machine.numa_with_cpus_) {
    machine.numa_groups_.push_back({position, machine.CpusInNuma(position)});
  }
  const auto nested = [&machine](const auto& outer, const auto& inner) {
    return NestedIn(outer, inner, machine.row_of_cpu_.size());
  };
  machine.sockets_in_numa_ = nested(machine.numa_groups_, machine.sockets_);
  machine.numa_in_sockets_ = nested(machine.sockets_, machine.numa_groups_);
  machine.uncores_in_numa_ = nested(machine.numa_groups_, machine.uncores_);
  machine.cores_in_numa_ = nested(machine.numa_groups_, machine.cores_);
  machine.cores_in_sockets_ = nested(machine.sockets_, machine.cores_);
  machine.rows_ = std::move(cpus);
  return machine;
}

CpuSet Machine::CpusInNuma(NumaMask mask) const {
  CpuSet cpus;
  for (const int position : mask) {
    if (position < numa_count()) cpus |= CpusInNuma(position);
  }
  return cpus;
}

const Cpu& Machine::Row(int cpu) const { return rows_[RowIndex(cpu)]; }

NumaMask Machine::NumaOf(const CpuSet& cpus) const {
  NumaMask mask;
  for (const int position : numa_with_cpus_) {
    if (CpusInNuma(position).Intersects(cpus)) mask.Add(position);
  }
  return mask;
}

std::optional<int> Machine::NumaPosition(int64_t id) const {
  const auto node = std::ranges::lower_bound(numa_, id, {}, &NumaNode::id);
  if (node == numa_.end() || node->id != id) return std::nullopt;
  return static_cast<int>(node - numa_.begin());
}

std::vector<int> Machine::NumaIds(NumaMask mask) const {
  std::vector<int> ids;
  for (const int position : mask) ids.push_back(NumaId(position));
  return ids;
}

NumaMask Machine::MaskOfIds(const std::vector<int64_t>& ids) const {
  NumaMask mask;
  for (const int64_t id : ids) {
    if (const std::optional<int> position = NumaPosition(id)) mask.Add(*position);
  }
  return mask;
}

int Machine::Distance(int from, int to) const {
  const std::vector<int>& row = numa_[static_cast<size_t>(from)].distances;
  const auto index = static_cast<size_t>(row.size() == numa_.size() ? to : NumaId(to));
  return index < row.size() ? row[index] : kUnknownDistance;
}

}  // namespace alignd
