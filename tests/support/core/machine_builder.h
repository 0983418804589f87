// Machines for tests, from one line of text: "socket:2 numa:1 core:2 thread:2".
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/machine/machine.h"

namespace alignd {

// A mistake in the test: prints it and ends the program.
[[noreturn]] inline void BadMachineText(std::string_view text, std::string_view why) {
  std::fprintf(stderr, "MakeMachine(\"%.*s\"): %.*s\n", static_cast<int>(text.size()), text.data(),
               static_cast<int>(why.size()), why.data());
  std::abort();
}

inline Machine MachineOrDie(Result<Machine> machine, std::string_view text) {
  if (!machine.ok()) BadMachineText(text, machine.error().message);
  return std::move(machine).value();
}

// The parsed text of MakeMachine.
struct MachineText {
  std::vector<std::pair<std::string, int>> levels;  // outermost first, each counted per parent
  bool interleaved = false;
  std::map<std::string, int> numbers;  // memory-gib, pages-2mib, cpuless

  static MachineText Parse(std::string_view text) {
    MachineText parsed;
    std::istringstream words{std::string(text)};
    for (std::string word; words >> word;) {
      const size_t split = word.find_first_of(":=");
      if (split == std::string::npos) BadMachineText(text, "a word without ':' or '='");
      const std::string name = word.substr(0, split);
      const std::string value = word.substr(split + 1);
      if (word[split] == ':') {
        parsed.levels.emplace_back(name, std::atoi(value.c_str()));
      } else if (name == "smt") {
        parsed.interleaved = value == "interleaved";
      } else {
        parsed.numbers[name] = std::atoi(value.c_str());
      }
    }
    return parsed;
  }

  int NumberOr(const std::string& name, int otherwise) const {
    const auto number = numbers.find(name);
    return number == numbers.end() ? otherwise : number->second;
  }
};

// The nodes 0 to count-1: distance 10 to itself, 20 to all others, no huge pages.
inline std::vector<NumaNode> PlainNumaNodes(int count, uint64_t memory_bytes) {
  std::vector<NumaNode> nodes;
  for (int id = 0; id < count; ++id) {
    std::vector<int> distances(static_cast<size_t>(count), 20);
    distances[static_cast<size_t>(id)] = 10;
    nodes.push_back(
        {.id = id, .memory_bytes = memory_bytes, .hugepages = {}, .distances = distances});
  }
  return nodes;
}

// A regular machine. Levels outermost first, each with its number per parent: socket, numa, uncore,
// core, thread in any nesting ("numa:1 socket:2 ..." puts two sockets in one NUMA node). A level
// that is omitted occurs once; without uncore the socket's number serves, as in the kubelet.
// Ids count up from 0. Options:
//   smt=interleaved   CPU numbers of all first threads, then of all second ones (otherwise
//                     the threads of a core are neighbours)
//   memory-gib=N      memory of each NUMA node (64)
//   pages-2mib=N      huge pages of 2 MiB of each NUMA node (0)
//   cpuless=N         N more NUMA nodes at the end, without CPUs (0)
inline Machine MakeMachine(std::string_view text) {
  const MachineText parsed = MachineText::Parse(text);
  std::map<std::string, int> total;  // of a level, over the whole machine
  int count = 1;
  for (const auto& [level, per_parent] : parsed.levels) {
    if (per_parent < 1) BadMachineText(text, "a level has no members");
    total[level] = count *= per_parent;
  }
  // The members of a level are equal runs of the leaves.
  const auto member_of = [&](const char* level, int leaf) {
    const auto found = total.find(level);
    return found == total.end() ? 0 : leaf / (count / found->second);
  };
  const int threads = total.contains("core") ? count / total.at("core") : 1;
  const int cores = count / threads;
  std::vector<Cpu> cpus;
  for (int leaf = 0; leaf < count; ++leaf) {
    const int core = leaf / threads;
    const int socket = member_of("socket", leaf);
    cpus.push_back({.cpu = parsed.interleaved ? core + leaf % threads * cores : leaf,
                    .core = core,
                    .socket = socket,
                    .numa = member_of("numa", leaf),
                    .uncore = total.contains("uncore") ? member_of("uncore", leaf) : socket});
  }
  const int nodes = (total.contains("numa") ? total.at("numa") : 1) + parsed.NumberOr("cpuless", 0);
  const auto memory_bytes = static_cast<uint64_t>(parsed.NumberOr("memory-gib", 64)) << 30;
  std::vector<NumaNode> numa = PlainNumaNodes(nodes, memory_bytes);
  if (const int pages = parsed.NumberOr("pages-2mib", 0); pages > 0) {
    for (NumaNode& node : numa) node.hugepages[uint64_t{2} << 20] = static_cast<uint64_t>(pages);
  }
  return MachineOrDie(Machine::Make(std::move(cpus), std::move(numa)), text);
}

// The same machine with these CPUs offline: cores with fewer threads, sockets of unequal size,
// NUMA nodes without CPUs.
inline Machine WithoutCpus(const Machine& machine, const CpuSet& offline) {
  std::vector<Cpu> rows = machine.cpu_rows();
  std::erase_if(rows, [&](const Cpu& row) { return offline.Contains(row.cpu); });
  return MachineOrDie(Machine::Make(std::move(rows), machine.numa(), machine.isolated()),
                      "WithoutCpus");
}

// The same machine, of which the kernel isolates these CPUs.
inline Machine WithIsolated(const Machine& machine, const CpuSet& isolated) {
  return MachineOrDie(Machine::Make(machine.cpu_rows(), machine.numa(), isolated), "WithIsolated");
}

// The same machine with other NUMA node ids, `ids` by position: ids with gaps, or beyond 63.
inline Machine WithNumaIds(const Machine& machine, const std::vector<int>& ids) {
  std::vector<Cpu> rows = machine.cpu_rows();
  for (Cpu& row : rows) row.numa = ids.at(static_cast<size_t>(machine.NumaOf(row.cpu)));
  std::vector<NumaNode> nodes = machine.numa();
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].id = ids.at(i);
  return MachineOrDie(Machine::Make(std::move(rows), std::move(nodes), machine.isolated()),
                      "WithNumaIds");
}

// The same machine with these SLIT rows, by position.
inline Machine WithDistances(const Machine& machine, const std::vector<std::vector<int>>& rows) {
  std::vector<NumaNode> nodes = machine.numa();
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i].distances = rows.at(i);
  return MachineOrDie(Machine::Make(machine.cpu_rows(), std::move(nodes), machine.isolated()),
                      "WithDistances");
}

// The CPUs of a list that is known to be well-formed.
inline CpuSet Cpus(std::string_view list) {
  const Result<CpuSet> cpus = CpuSet::Parse(list);
  if (!cpus.ok()) BadMachineText(list, cpus.error().message);
  return *cpus;
}

}  // namespace alignd
