#include "picture/svg.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
#include "host/utc_time.h"
#include "picture/box.h"
#include "picture/node_boxes.h"
#include "picture/words.h"

namespace alignd::picture {
namespace {

constexpr int kMinWidth = 640;
constexpr int kMargin = 16;
constexpr int kOwnerWidth = 312;

std::string Time(int64_t unix_ms) {
  return host::UtcTime(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

std::string NameOf(const Picture& picture) {
  const bool is_named = picture.owners && !picture.owners->node.empty();
  return is_named ? picture.owners->node : "Topology";
}

// "2 sockets, 4 NUMA nodes, 20 cores, 40 CPUs, 128 GiB of memory".
std::string Summary(const Machine& machine) {
  uint64_t bytes = 0;
  for (const NumaNode& node : machine.numa()) bytes += node.memory_bytes;
  std::string text = Counted(machine.sockets().size(), "socket") + ", " +
                     Counted(machine.numa().size(), "NUMA node") + ", " +
                     Counted(machine.cores().size(), "core") + ", " +
                     Counted(machine.cpus().Count(), "CPU");
  return bytes == 0 ? text : text + ", " + ReadableBytes(bytes) + " of memory";
}

// The words of a bold text in lines that are not wider than `width`, unless one word is.
std::vector<std::string> Wrapped(const std::string& text, int width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || TextWidth(lines.back() + " " + word, 12, true) > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

Box Heading(const Picture& picture, int width) {
  Box box{.width = width, .height = 44};
  box.lines.push_back(FittedLine(NameOf(picture), 0, 19, width, 18, true));
  box.lines.push_back(FittedLine(Summary(picture.machine), 0, 38, width, 12, false, kPale));
  if (picture.owners) {
    const std::string text = "As alignd " + picture.owners->version + " reported at " +
                             Time(picture.owners->time_unix_ms);
    box.lines.push_back(FittedLine(text, 0, 55, width, 11, false, kPale));
    box.height += 17;
  }
  for (const std::string& text : Wrapped(picture.note, width)) {
    box.lines.push_back(FittedLine(text, 0, box.height + 12, width, 12, true, kWarning));
    box.height += 17;
  }
  return box;
}

Box LegendEntry(const CpuLook& look, const std::string& words) {
  constexpr int kSwatch = 30;
  Box swatch{.y = 2,
             .width = kSwatch,
             .height = 18,
             .paint = look.paint,
             .stroke = kStrongLine,
             .radius = 3};
  if (!look.key.empty()) {
    swatch.lines.push_back({.x = kSwatch / 2,
                            .y = 13,
                            .size = 10,
                            .fill = look.paint.text,
                            .text = look.key,
                            .centred = true});
  }
  Box entry{.width = kSwatch + 14 + TextWidth(words, 11), .height = 22};
  entry.lines.push_back({.x = kSwatch + 6, .y = 15, .size = 11, .text = words});
  entry.boxes.push_back(std::move(swatch));
  return entry;
}

// Only what is in the picture.
Box Legend(const Picture& picture, int width) {
  std::map<CpuUse, CpuLook> looks;
  bool has_unknown_owner = false;
  for (const int cpu : picture.machine.cpus()) {
    const CpuUse use = UseOf(picture, cpu);
    const CpuLook look = LookOf(picture, cpu);
    const bool is_ended = use == CpuUse::kExclusive && look.key == "?";
    has_unknown_owner |= is_ended;
    if (!is_ended) looks.try_emplace(use, look);
  }
  std::vector<Box> entries;
  for (const auto& [use, look] : looks) {
    switch (use) {
      case CpuUse::kUnknown:
        entries.push_back(LegendEntry(look, picture.owners ? "CPU, not managed by alignd" : "CPU"));
        break;
      case CpuUse::kExclusive:
        entries.push_back(LegendEntry(look, "exclusive to a container: see below"));
        break;
      case CpuUse::kReserved:
        entries.push_back(LegendEntry(look, "reserved: never exclusive"));
        break;
      case CpuUse::kFree:
        entries.push_back(LegendEntry(look, "free (shared pool)"));
        break;
      case CpuUse::kShared:
        entries.push_back(LegendEntry(look, "shared pool"));
        break;
    }
  }
  if (has_unknown_owner) {
    entries.push_back(LegendEntry({kSharedPaint, "?"}, "exclusive to a container that has ended"));
  }
  if (!picture.parts.pci.empty()) {
    entries.push_back(LegendEntry({kDevicePaint, ""}, "PCI device"));
  }
  return InRows(std::move(entries), width, 8);
}

std::string ResourcesOf(const Owner& owner) {
  std::string text;
  if (!owner.cpus.empty()) text = CpuWords(owner.cpus);
  for (const auto& [resource, count] : owner.devices) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + resource;
  }
  return text;
}

Box OwnerBox(const Owner& owner) {
  constexpr int kSwatch = 34;
  constexpr int kText = kOwnerWidth - kSwatch - 8;
  const Paint paint = kOwnerColours[owner.colour];
  Box swatch{.y = 2, .width = kSwatch, .height = 40, .paint = paint, .stroke = kStrongLine};
  swatch.lines.push_back({.x = kSwatch / 2,
                          .y = 24,
                          .size = 12,
                          .bold = true,
                          .fill = paint.text,
                          .text = owner.key,
                          .centred = true});
  Box box{.width = kOwnerWidth,
          .height = 46,
          .title = owner.key + ": " + OwnerWords(owner) + "; " + ResourcesOf(owner)};
  box.lines.push_back(FittedLine(owner.pod, kSwatch + 8, 13, kText, 12, true));
  box.lines.push_back(FittedLine(owner.container, kSwatch + 8, 27, kText, 11));
  box.lines.push_back(FittedLine(ResourcesOf(owner), kSwatch + 8, 40, kText, 11, false, kPale));
  box.boxes.push_back(std::move(swatch));
  return box;
}

Box Caption(const std::string& text, Box content) {
  Box box;
  box.lines.push_back({.y = 14, .size = 13, .bold = true, .text = text});
  for (Box& inner : content.boxes) inner.y += 22;
  box.boxes = std::move(content.boxes);
  box.width = std::max(content.width, TextWidth(text, 13, true));
  box.height = content.height + 22;
  return box;
}

Box OwnersBox(const Owners& owners, int width) {
  std::vector<Box> boxes;
  for (const Owner& owner : owners.containers) {
    if (boxes.size() == kMaxOwnersListed) break;
    boxes.push_back(OwnerBox(owner));
  }
  std::string caption = "Containers with exclusive CPUs or devices";
  if (boxes.size() < owners.containers.size()) {
    caption += ": the first " + std::to_string(boxes.size()) + " of " +
               std::to_string(owners.containers.size());
  }
  return Caption(caption, InRows(std::move(boxes), width, 10));
}

}  // namespace

std::string RenderSvg(const Picture& picture) {
  Box machine = MachineBox(picture);
  const int width = std::max(machine.width, kMinWidth);
  std::vector<Box> parts;
  parts.push_back(Heading(picture, width));
  parts.push_back(Legend(picture, width));
  parts.push_back(std::move(machine));
  if (std::vector<Box> others = DeviceBoxes(picture, std::nullopt, width); !others.empty()) {
    parts.push_back(
        Caption("Devices without a NUMA node, or with several", InColumn(std::move(others), 8)));
  }
  if (picture.owners && !picture.owners->containers.empty()) {
    parts.push_back(OwnersBox(*picture.owners, width));
  }
  Box page{.paint = {kWhite, kInk}, .stroke = kWhite, .radius = 0};
  Enclose(page, InColumn(std::move(parts), 12), kMargin);
  return WriteSvg(page, NameOf(picture) + ": " + Summary(picture.machine));
}

}  // namespace alignd::picture
