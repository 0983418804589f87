#include "cli/topology_tree.h"

#include <array>
#include <string_view>
#include <vector>

namespace alignd::cli {
namespace {

constexpr size_t kLineWidth = 100;

std::string Plural(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

// `CPU 3`, `CPUs 0-3`.
std::string CpuList(const CpuSet& cpus) {
  return (cpus.Count() == 1 ? "CPU " : "CPUs ") + cpus.ToString();
}

// Adds `words` after `head`, wrapped in one column.
void AppendWrapped(std::string& out, const std::string& head,
                   const std::vector<std::string>& words) {
  std::string line = head;
  for (const std::string& word : words) {
    if (line.size() > head.size() && line.size() + 2 + word.size() > kLineWidth) {
      out += line + "\n";
      line = std::string(head.size(), ' ');
    }
    line += "  " + word;
  }
  out += line + "\n";
}

// The CPUs of a group in `cpus`, and the NUMA nodes of the others.
std::string PartOf(const Machine& machine, const CpuGroup& group, const CpuSet& cpus) {
  std::string text = std::to_string(group.id) + ": " + CpuList(group.cpus & cpus);
  const CpuSet rest = group.cpus - cpus;
  if (rest.empty()) return text;
  CpuSet nodes;  // only for its list form
  for (const int id : machine.NumaIds(machine.NumaOf(rest))) nodes.Add(id);
  return text + " (" + std::to_string(rest.Count()) + " more on NUMA " +
         (nodes.Count() == 1 ? "node " : "nodes ") + nodes.ToString() + ")";
}

void AppendCores(std::string& out, const Machine& machine, const CpuSet& cpus) {
  std::vector<std::string> cores;
  for (const CpuGroup& core : machine.cores()) {
    if (core.cpus.Intersects(cpus)) cores.push_back((core.cpus & cpus).ToString());
  }
  AppendWrapped(out, "      " + Plural(cores.size(), "core") + ":", cores);
}

void AppendCpus(std::string& out, const Machine& machine, const CpuSet& node) {
  for (const CpuGroup& socket : machine.sockets()) {
    const CpuSet in_socket = socket.cpus & node;
    if (in_socket.empty()) continue;
    out += "  socket " + PartOf(machine, socket, node) + "\n";
    for (const CpuGroup& uncore : machine.uncores()) {
      const CpuSet in_uncore = uncore.cpus & in_socket;
      if (in_uncore.empty()) continue;
      out += "    uncore cache " + PartOf(machine, uncore, in_socket) + "\n";
      AppendCores(out, machine, in_uncore);
    }
  }
}

void AppendMemory(std::string& out, const Machine& machine, int position) {
  const NumaNode& node = machine.numa()[static_cast<size_t>(position)];
  out += "  memory: " + ReadableBytes(node.memory_bytes) + "\n";
  if (!node.hugepages.empty()) {
    std::vector<std::string> sizes;
    for (const auto& [size, pages] : node.hugepages) {
      sizes.push_back(std::to_string(pages) + " x " + ReadableBytes(size));
    }
    AppendWrapped(out, "  hugepages:", sizes);
  }
  std::vector<std::string> distances;
  for (int other = 0; other < machine.numa_count(); ++other) {
    distances.push_back(std::to_string(machine.NumaId(other)) + "=" +
                        std::to_string(machine.Distance(position, other)));
  }
  if (node.distances.empty()) distances = {"unknown"};
  AppendWrapped(out, "  distances:", distances);
}

}  // namespace

std::string ReadableBytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits = {"B",   "KiB", "MiB", "GiB",
                                                             "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t tenths_rest = 0;  // remainder of the last division, of 1024
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    tenths_rest = bytes % 1024;
    bytes /= 1024;
    ++unit;
  }
  uint64_t tenths = (tenths_rest * 10 + 512) / 1024;
  if (tenths == 10) {
    tenths = 0;
    ++bytes;
  }
  std::string text = std::to_string(bytes);
  if (tenths != 0) text += "." + std::to_string(tenths);
  return text + " " + std::string(kUnits[unit]);
}

std::string TopologyTree(const Machine& machine) {
  uint64_t memory_bytes = 0;
  for (const NumaNode& node : machine.numa()) memory_bytes += node.memory_bytes;
  std::string out = Plural(machine.numa().size(), "NUMA node") + ", " +
                    Plural(machine.sockets().size(), "socket") + ", " +
                    Plural(machine.uncores().size(), "uncore cache") + ", " +
                    Plural(machine.cores().size(), "core") + ", " +
                    Plural(static_cast<size_t>(machine.cpus().Count()), "CPU") + ", " +
                    ReadableBytes(memory_bytes) + " of memory\n";
  for (int position = 0; position < machine.numa_count(); ++position) {
    const CpuSet& cpus = machine.CpusInNuma(position);
    out += "\nNUMA node " + std::to_string(machine.NumaId(position)) + ": " +
           (cpus.empty() ? "no CPUs" : CpuList(cpus)) + "\n";
    AppendMemory(out, machine, position);
    AppendCpus(out, machine, cpus);
  }
  return out;
}

}  // namespace alignd::cli
