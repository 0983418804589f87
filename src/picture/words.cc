#include "picture/words.h"

#include <array>

#include "alignd/base/counted.h"

namespace alignd::picture {

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

std::string CpuWords(const CpuSet& cpus) {
  return (cpus.Count() == 1 ? "CPU " : "CPUs ") + cpus.ToString();
}

std::string CacheName(const host::SharedCache& cache) {
  std::string name = "L" + std::to_string(cache.level);
  if (cache.type == "Data") name += "d";
  if (cache.type == "Instruction") name += "i";
  if (cache.bytes == 0) return name;
  constexpr uint64_t kKi = 1024;
  const bool is_whole = cache.bytes % (kKi * kKi) == 0;
  return name + " " +
         (is_whole ? std::to_string(cache.bytes / kKi / kKi) + "M"
                   : std::to_string(cache.bytes / kKi) + "K");
}

std::string_view KindName(host::PciKind kind) {
  switch (kind) {
    case host::PciKind::kDisplay:
      return "GPU";
    case host::PciKind::kAccelerator:
      return "accelerator";
    case host::PciKind::kNetwork:
      return "NIC";
    case host::PciKind::kNvme:
      return "NVMe";
  }
  return "";
}

std::string PciWords(const host::PciDevice& device) {
  std::string text(KindName(device.kind));
  for (const std::string& name : device.names) text += " " + name;
  text += " at " + device.address;
  if (!device.id.empty()) text += ", " + device.id;
  if (!device.driver.empty()) text += ", driver " + device.driver;
  if (device.virtual_functions > 0) {
    text += ", " + Counted(device.virtual_functions, "virtual function");
  }
  return text + ", " + (device.numa ? NodeWords({*device.numa}) : NodeWords({}));
}

std::string NodeWords(const std::vector<int64_t>& ids) {
  if (ids.empty()) return "no NUMA node";
  std::string text = ids.size() == 1 ? "NUMA node " : "NUMA nodes ";
  for (size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(ids[i]);
  return text;
}

CpuUse UseOf(const Picture& picture, int cpu) {
  if (!picture.owners || !picture.owners->has_cpus) return CpuUse::kUnknown;
  const Owners& owners = *picture.owners;
  if (owners.exclusive.Contains(cpu) || owners.OwnerOf(cpu) != nullptr) return CpuUse::kExclusive;
  if (owners.reserved.Contains(cpu)) return CpuUse::kReserved;
  return owners.free.Contains(cpu) ? CpuUse::kFree : CpuUse::kShared;
}

std::string OwnerWords(const Owner& owner) { return owner.pod + ", container " + owner.container; }

std::string UseWords(const Picture& picture, int cpu) {
  switch (UseOf(picture, cpu)) {
    case CpuUse::kUnknown:
      return picture.owners ? "not managed by alignd" : "";
    case CpuUse::kReserved:
      return "reserved: never exclusive";
    case CpuUse::kFree:
      return "free: shared pool, until a container gets it exclusively";
    case CpuUse::kShared:
      return "shared pool";
    case CpuUse::kExclusive:
      break;
  }
  const Owner* const owner = picture.owners->OwnerOf(cpu);
  return owner == nullptr ? "exclusive to a container that has ended"
                          : "exclusive to " + OwnerWords(*owner);
}

}  // namespace alignd::picture
