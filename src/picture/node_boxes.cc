#include "picture/node_boxes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "alignd/base/counted.h"
#include "picture/words.h"

namespace alignd::picture {
namespace {

constexpr int kMaxThreadsInRow = 4;
constexpr int kMinDeviceWidth = 398;  // two PCI devices side by side

// The caches that the same CPUs share.
struct CacheGroup {
  CpuSet cpus{};
  std::string name{};      // "L3 32M"; several as "L2 1M, L1d 32K"
  bool is_shared = false;  // by several cores
};

std::vector<CacheGroup> CacheGroups(const Picture& picture) {
  std::map<CpuSet, std::vector<std::string>> names{};
  for (const host::SharedCache& cache : picture.parts.caches) {
    std::vector<std::string>& known = names[cache.cpus];
    const std::string name = CacheName(cache);
    if (std::ranges::find(known, name) == known.end()) known.push_back(name);
  }
  std::vector<CacheGroup> groups{};
  for (const auto& [cpus, list] : names) {
    CacheGroup group{.cpus = cpus, .name = ""};
    for (const std::string& name : list) group.name += (group.name.empty() ? "" : ", ") + name;
    const int core = picture.machine.Row(cpus.First()).core;
    for (const int cpu : cpus) group.is_shared |= picture.machine.Row(cpu).core != core;
    groups.push_back(std::move(group));
  }
  std::ranges::stable_sort(groups, {}, [](const CacheGroup& group) {
    return std::pair(-group.cpus.Count(), group.cpus.First());
  });
  return groups;
}

std::string NodesOf(const Machine& machine, const CpuSet& cpus) {
  const std::vector<int> ids = machine.NumaIds(machine.NumaOf(cpus));
  return NodeWords({ids.begin(), ids.end()});
}

// Draws the CPUs of a machine. Made for one picture.
class Drawing {
 public:
  explicit Drawing(const Picture& picture)
      : picture_(picture), machine_(picture.machine), groups_(CacheGroups(picture)) {
    int highest = 0;
    for (const int cpu : machine_.cpus()) highest = cpu;
    cpu_width_ = std::max(36, TextWidth(std::to_string(highest), 12, true) + 8);
    for (const CacheGroup& group : groups_) {
      if (!group.is_shared) private_[machine_.Row(group.cpus.First()).core].insert(group.name);
    }
  }

  Box Whole() const {
    // A socket is drawn around its NUMA nodes, unless a node lies in several.
    const bool by_socket = std::ranges::all_of(machine_.sockets_in_numa(),
                                               [](const auto& list) { return list.size() <= 1; });
    std::vector<Box> boxes;
    std::set<int> drawn;
    for (const CpuGroup& socket : machine_.sockets()) {
      if (!by_socket) break;
      std::vector<Box> nodes;
      for (const int position : machine_.NumaOf(socket.cpus)) {
        nodes.push_back(NodeBox(position, /*names_sockets=*/false));
        drawn.insert(position);
      }
      boxes.push_back(SocketBox(socket, InGrid(std::move(nodes), {.gap = 10})));
    }
    for (int position = 0; position < machine_.numa_count(); ++position) {
      if (!drawn.contains(position)) boxes.push_back(NodeBox(position, /*names_sockets=*/true));
    }
    return InGrid(std::move(boxes), {.gap = 14, .shape = 1.6});
  }

 private:
  static Box SocketBox(const CpuGroup& socket, Box inner) {
    Box box{.title = "Socket " + std::to_string(socket.id) + ": " + CpuWords(socket.cpus),
            .paint = kSocketPaint,
            .stroke = kStrongLine,
            .radius = 8};
    box.lines.push_back({.x = 10,
                         .y = 19,
                         .size = 13,
                         .bold = true,
                         .text = "Socket " + std::to_string(socket.id)});
    Enclose(box, std::move(inner), 10);
    return box;
  }

  Box NodeBox(int position, bool names_sockets) const {
    const NumaNode& node = machine_.numa()[static_cast<size_t>(position)];
    const CpuSet& cpus = machine_.CpusInNuma(position);
    Box box{.id = "numa-" + std::to_string(node.id),
            .title = NodeTitle(position),
            .paint = kNumaPaint,
            .stroke = kStrongLine,
            .radius = 6};
    std::vector<Box> inner;
    if (!cpus.empty()) inner.push_back(CpuArea(cpus, names_sockets));
    const int width = std::max(kMinDeviceWidth, inner.empty() ? 0 : inner[0].width);
    for (Box& devices : DeviceBoxes(picture_, node.id, width)) inner.push_back(std::move(devices));
    Box content = InColumn(std::move(inner), 10);
    box.lines.push_back({.x = 10,
                         .y = 19,
                         .size = 13,
                         .bold = true,
                         .text = "NUMA node " + std::to_string(node.id)});
    int y = 35;
    for (const std::string& text : {MemoryWords(node), CountWords(cpus)}) {
      if (text.empty()) continue;
      box.lines.push_back(FittedLine(text, 10, y, std::max(content.width, 400), 11, false, kPale));
      y += 15;
    }
    Enclose(box, std::move(content), 10);
    if (box.boxes.empty()) box.height += 8;
    return box;
  }

  std::string MemoryWords(const NumaNode& node) const {
    std::string text;
    if (node.memory_bytes > 0) text = ReadableBytes(node.memory_bytes) + " memory";
    if (picture_.owners) {
      const auto memory = picture_.owners->memory.find(node.id);
      if (memory != picture_.owners->memory.end()) {
        text += ", " + ReadableBytes(memory->second.free()) + " free of " +
                ReadableBytes(memory->second.total());
      }
    }
    for (const auto& [size, pages] : node.hugepages) {
      if (pages == 0) continue;
      text += (text.empty() ? "" : ", ") + std::to_string(pages) + " × " + ReadableBytes(size) +
              " pages";
    }
    return text;
  }

  // "20 CPUs: 8 exclusive, 1 reserved, 11 free".
  std::string CountWords(const CpuSet& cpus) const {
    if (cpus.empty()) return "no CPUs";
    std::string text = Counted(cpus.Count(), "CPU");
    std::map<CpuUse, int> uses;
    for (const int cpu : cpus) ++uses[UseOf(picture_, cpu)];
    if (uses.contains(CpuUse::kUnknown)) return text;
    text += ":";
    for (const auto& [use, name] :
         {std::pair(CpuUse::kExclusive, " exclusive"), std::pair(CpuUse::kReserved, " reserved"),
          std::pair(CpuUse::kFree, " free"), std::pair(CpuUse::kShared, " shared")}) {
      if (uses[use] == 0) continue;
      text += (text.ends_with(':') ? " " : ", ") + std::to_string(uses[use]) + name;
    }
    return text;
  }

  std::string NodeTitle(int position) const {
    const NumaNode& node = machine_.numa()[static_cast<size_t>(position)];
    const CpuSet& cpus = machine_.CpusInNuma(position);
    std::string text =
        "NUMA node " + std::to_string(node.id) + ": " + (cpus.empty() ? "no CPUs" : CpuWords(cpus));
    if (const std::string memory = MemoryWords(node); !memory.empty()) text += "; " + memory;
    if (node.distances.empty()) return text;
    text += "; distance to";
    for (int other = 0; other < machine_.numa_count(); ++other) {
      text += (other == 0 ? " node " : ", ") + std::to_string(machine_.NumaId(other)) + ": " +
              std::to_string(machine_.Distance(position, other));
    }
    return text;
  }

  Box CpuArea(const CpuSet& cpus, bool names_sockets) const {
    std::vector<Box> boxes;
    for (const CpuGroup& socket : machine_.sockets()) {
      const CpuSet in_socket = socket.cpus & cpus;
      if (in_socket.empty()) continue;
      Box caches = InGrid(CacheBoxes(in_socket, cpus, 0), {.gap = 8});
      boxes.push_back(names_sockets ? SocketBox(socket, std::move(caches)) : std::move(caches));
    }
    return InGrid(std::move(boxes), {.gap = 10});
  }

  // `node`: all CPUs of the NUMA node. The groups from `next` on are smaller.
  std::vector<Box> CacheBoxes(CpuSet cpus, const CpuSet& node, size_t next) const {
    std::vector<Box> boxes;
    for (size_t i = next; i < groups_.size() && !cpus.empty(); ++i) {
      const CpuSet inside = groups_[i].cpus & cpus;
      if (!groups_[i].is_shared || inside.empty()) continue;
      boxes.push_back(CacheBox(groups_[i], InGrid(CacheBoxes(inside, node, i + 1), {}), node));
      cpus -= inside;
    }
    for (Box& cores : CoreBoxes(cpus)) boxes.push_back(std::move(cores));
    return boxes;
  }

  Box CacheBox(const CacheGroup& group, Box inner, const CpuSet& node) const {
    std::string name = group.name;
    const CpuSet beyond = group.cpus - node;
    if (!beyond.empty()) name += ", also of " + NodesOf(machine_, beyond);
    Box box{.title = name + ": shared by " + CpuWords(group.cpus), .paint = kCachePaint};
    box.lines.push_back(FittedLine(name, 7, 13, std::max(inner.width, 120), 10, true, kInk));
    Enclose(box, std::move(inner), 7);
    return box;
  }

  // The cores of `cpus`, those with equal caches together.
  std::vector<Box> CoreBoxes(const CpuSet& cpus) const {
    std::vector<std::pair<std::string, std::vector<Box>>> kinds;
    for (const CpuGroup& core : machine_.cores()) {
      if (!core.cpus.Intersects(cpus)) continue;
      const std::string caches = PrivateCaches(core.id);
      auto kind =
          std::ranges::find(kinds, caches, &std::pair<std::string, std::vector<Box>>::first);
      if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {caches, {}});
      kind->second.push_back(CoreBox(core, core.cpus & cpus, caches));
    }
    std::vector<Box> boxes;
    for (auto& [caches, cores] : kinds) {
      const bool one = cores.size() == 1;
      Box grid = InGrid(std::move(cores), {.gap = 5});
      if (!caches.empty()) {
        grid.lines.push_back(FittedLine(one ? caches : "each core: " + caches, 0, 9,
                                        std::max(grid.width, 230), 10, false, kPale));
        grid.width = std::max(grid.width, TextWidth(grid.lines[0].text, grid.lines[0].size, false));
        for (Box& core : grid.boxes) core.y += 15;
        grid.height += 15;
      }
      boxes.push_back(std::move(grid));
    }
    return boxes;
  }

  std::string PrivateCaches(int core) const {
    const auto known = private_.find(core);
    std::string text;
    if (known == private_.end()) return text;
    for (const std::string& name : known->second) text += (text.empty() ? "" : ", ") + name;
    return text;
  }

  Box CoreBox(const CpuGroup& core, const CpuSet& cpus, const std::string& caches) const {
    std::vector<Box> threads;
    for (const int cpu : cpus) threads.push_back(CpuBox(cpu));
    Box box{.title = "Core of " + CpuWords(core.cpus) + (caches.empty() ? "" : ": " + caches),
            .paint = kCorePaint};
    const int count = std::min(cpus.Count(), kMaxThreadsInRow);
    Enclose(box, InRows(std::move(threads), count * cpu_width_ + (count - 1) * 2, 2), 3);
    return box;
  }

  Box CpuBox(int cpu) const {
    const CpuLook look = LookOf(picture_, cpu);
    const Cpu& row = machine_.Row(cpu);
    const std::string use = UseWords(picture_, cpu);
    const std::string number = std::to_string(cpu);
    Box box{.width = cpu_width_,
            .height = picture_.owners ? 31 : 22,
            .id = "cpu-" + number,
            .title = "CPU " + number + (use.empty() ? "" : ": " + use) + "; socket " +
                     std::to_string(row.socket) + ", NUMA node " + std::to_string(row.numa),
            .paint = look.paint,
            .stroke = kStrongLine,
            .radius = 3};
    box.lines.push_back({.x = cpu_width_ / 2,
                         .y = 15,
                         .size = 12,
                         .bold = true,
                         .fill = look.paint.text,
                         .text = number,
                         .centred = true});
    if (!look.key.empty()) {
      box.lines.push_back({.x = cpu_width_ / 2,
                           .y = 27,
                           .size = 10,
                           .fill = look.paint.text,
                           .text = look.key,
                           .centred = true});
    }
    return box;
  }

  const Picture& picture_;
  const Machine& machine_;
  const std::vector<CacheGroup> groups_;                            // the largest first
  std::map<int, std::set<std::string, std::greater<>>> private_{};  // of a core: L2 before L1
  int cpu_width_ = 0;
};

}  // namespace

CpuLook LookOf(const Picture& picture, int cpu) {
  switch (UseOf(picture, cpu)) {
    case CpuUse::kUnknown:
      return {kUnknownPaint, ""};
    case CpuUse::kReserved:
      return {kReservedPaint, "res"};
    case CpuUse::kFree:
      return {kFreePaint, ""};
    case CpuUse::kShared:
      return {kSharedPaint, "sh"};
    case CpuUse::kExclusive:
      break;
  }
  const Owner* const owner = picture.owners->OwnerOf(cpu);
  if (owner == nullptr) return {kSharedPaint, "?"};
  return {kOwnerColours[owner->colour], owner->key};
}

Box MachineBox(const Picture& picture) { return Drawing(picture).Whole(); }

}  // namespace alignd::picture
