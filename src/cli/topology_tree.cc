#include "cli/topology_tree.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "alignd/base/counted.h"

namespace alignd::cli {
namespace {

constexpr size_t kLineWidth = 100;

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
  AppendWrapped(out, "      " + Counted(cores.size(), "core") + ":", cores);
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

// "    nvidia.com/gpu gpu-1: assigned to default/a, container app".
std::string DeviceLine(const picture::Owners& owners, const picture::PluginDevice& device) {
  std::string line = "    " + device.resource + " " + device.id + ": ";
  line += device.owner ? "assigned to " + picture::OwnerWords(owners.containers[*device.owner])
                       : std::string("free");
  return line + (device.problem.empty() ? "" : ", " + device.problem) + "\n";
}

// Those of one NUMA node; nullopt: of none or several.
void AppendDevices(std::string& out, const picture::Picture& picture, std::optional<int> numa_id) {
  std::string lines;
  for (const host::PciDevice& device : picture.parts.pci) {
    const bool is_known = device.numa && picture.machine.NumaPosition(*device.numa);
    if (numa_id ? device.numa == numa_id : !is_known) {
      lines += "    " + picture::PciWords(device) + "\n";
    }
  }
  for (size_t i = 0; picture.owners && i < picture.owners->devices.size(); ++i) {
    const picture::PluginDevice& device = picture.owners->devices[i];
    const bool is_one = device.numa.size() == 1 && picture.machine.NumaPosition(device.numa[0]);
    if (numa_id ? is_one && device.numa[0] == *numa_id : !is_one) {
      lines += DeviceLine(*picture.owners, device);
    }
  }
  for (size_t i = 0; picture.owners && i < picture.owners->left_out.size(); ++i) {
    const picture::DevicesLeftOut& left_out = picture.owners->left_out[i];
    if (left_out.numa != numa_id) continue;
    lines += "    " + left_out.resource + ": and " + std::to_string(left_out.devices) + " more, " +
             std::to_string(left_out.free) + " of them free\n";
  }
  if (!numa_id && picture.parts.pci_left_out > 0) {
    lines += "    " + Counted(picture.parts.pci_left_out, "more PCI device") + "\n";
  }
  if (lines.empty()) return;
  out += numa_id ? "  devices:\n" : "\ndevices without a NUMA node, or with several:\n";
  out += lines;
}

void AppendOwners(std::string& out, const picture::Picture& picture) {
  if (!picture.note.empty()) out += "\n" + picture.note + "\n";
  if (!picture.owners || !picture.owners->has_cpus) return;
  const picture::Owners& owners = *picture.owners;
  const auto add = [&out](const std::string& what, const CpuSet& cpus) {
    if (!cpus.empty()) out += "  " + what + ": " + CpuList(cpus) + "\n";
  };
  out += "\nowners:\n";
  add("reserved", owners.reserved);
  add("free", owners.free);
  CpuSet of_ended = owners.exclusive;
  for (const picture::Owner& owner : owners.containers) {
    add(picture::OwnerWords(owner), owner.cpus);
    of_ended -= owner.cpus;
  }
  add("containers that have ended", of_ended);
}

}  // namespace

std::string TopologyTree(const Machine& machine) {
  return TopologyTree(picture::Picture{.machine = machine, .parts = {}, .owners = std::nullopt});
}

std::string TopologyTree(const picture::Picture& picture) {
  const Machine& machine = picture.machine;
  uint64_t memory_bytes = 0;
  for (const NumaNode& node : machine.numa()) memory_bytes += node.memory_bytes;
  std::string out = Counted(machine.numa().size(), "NUMA node") + ", " +
                    Counted(machine.sockets().size(), "socket") + ", " +
                    Counted(machine.uncores().size(), "uncore cache") + ", " +
                    Counted(machine.cores().size(), "core") + ", " +
                    Counted(machine.cpus().Count(), "CPU") + ", " + ReadableBytes(memory_bytes) +
                    " of memory\n";
  for (int position = 0; position < machine.numa_count(); ++position) {
    const CpuSet& cpus = machine.CpusInNuma(position);
    out += "\nNUMA node " + std::to_string(machine.NumaId(position)) + ": " +
           (cpus.empty() ? "no CPUs" : CpuList(cpus)) + "\n";
    AppendMemory(out, machine, position);
    AppendCpus(out, machine, cpus);
    AppendDevices(out, picture, machine.NumaId(position));
  }
  AppendDevices(out, picture, std::nullopt);
  AppendOwners(out, picture);
  return out;
}

}  // namespace alignd::cli
