#include "host/sysfs_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "host/file.h"
#include "host/sysfs_value.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;

// An absent file and one that cannot be used are the same here.
std::string TextOrEmpty(const fs::path& path) {
  const Result<std::optional<std::string>> text = ReadText(path);
  return text.ok() && *text ? **text : std::string();
}

std::vector<std::string> NamesOrNone(const fs::path& directory) {
  Result<std::vector<std::string>> names = ListDirectory(directory);
  return names.ok() ? *std::move(names) : std::vector<std::string>();
}

// `00000000,000000ff`: words of 32 bits, the highest first.
CpuSet CpusOfMask(std::string_view mask) {
  CpuSet cpus;
  int first = 0;
  while (!mask.empty() && first <= CpuSet::kMaxCpu - 31) {
    const size_t comma = mask.rfind(',');
    const std::string_view word = comma == std::string_view::npos ? mask : mask.substr(comma + 1);
    uint32_t bits = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    if (code != std::errc{} || end != word.data() + word.size()) return {};
    for (int bit = 0; bit < 32; ++bit) {
      if ((bits >> bit & 1U) != 0) cpus.Add(first + bit);
    }
    first += 32;
    mask = comma == std::string_view::npos ? std::string_view() : mask.substr(0, comma);
  }
  return cpus;
}

uint64_t BytesOfSize(std::string_view size) {
  if (!size.ends_with('K')) return 0;
  const std::optional<uint64_t> kilobytes = ParseUint64(size.substr(0, size.size() - 1));
  return kilobytes && *kilobytes < (uint64_t{1} << 50) ? *kilobytes * 1024 : 0;
}

std::optional<SharedCache> CacheAt(const fs::path& directory, const CpuSet& online) {
  const Result<std::optional<int>> level = ReadInt(directory / "level");
  SharedCache cache{.level = level.ok() && *level ? **level : 0,
                    .type = TextOrEmpty(directory / "type"),
                    .bytes = BytesOfSize(TextOrEmpty(directory / "size")),
                    .cpus = CpusOfMask(TextOrEmpty(directory / "shared_cpu_map")) & online};
  const bool is_known =
      cache.level > 0 && !cache.cpus.empty() &&
      (cache.type == "Data" || cache.type == "Instruction" || cache.type == "Unified");
  return is_known ? std::optional(std::move(cache)) : std::nullopt;
}

std::vector<SharedCache> CachesOf(const fs::path& root, const Machine& machine) {
  std::vector<SharedCache> caches;
  // indexN of CPUs that share a cache is the same cache: each is read once.
  std::map<std::string, CpuSet> read;
  for (const int cpu : machine.cpus()) {
    const fs::path directory =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "cache";
    for (const std::string& name : NamesOrNone(directory)) {
      if (!name.starts_with("index") || read[name].Contains(cpu)) continue;
      std::optional<SharedCache> cache = CacheAt(directory / name, machine.cpus());
      if (!cache || !cache->cpus.Contains(cpu)) continue;
      read[name] |= cache->cpus;
      caches.push_back(*std::move(cache));
    }
  }
  std::ranges::sort(caches, {}, [](const SharedCache& cache) {
    return std::tuple(-cache.level, cache.cpus.First(), cache.type);
  });
  return caches;
}

// `0x030200`: class, subclass, programming interface.
std::optional<PciKind> KindOfClass(std::string_view code) {
  if (code.starts_with("0x03")) return PciKind::kDisplay;
  if (code.starts_with("0x02")) return PciKind::kNetwork;
  if (code.starts_with("0x0108")) return PciKind::kNvme;
  if (code.starts_with("0x12") || code.starts_with("0x0b40")) return PciKind::kAccelerator;
  return std::nullopt;
}

// "0x10de" as "10de".
std::string HexDigits(std::string text) { return text.starts_with("0x") ? text.substr(2) : ""; }

PciDevice DeviceAt(const fs::path& directory, std::string address, PciKind kind) {
  PciDevice device{.kind = kind, .address = std::move(address)};
  const std::string vendor = HexDigits(TextOrEmpty(directory / "vendor"));
  const std::string model = HexDigits(TextOrEmpty(directory / "device"));
  if (!vendor.empty() && !model.empty()) device.id = vendor + ":" + model;
  std::error_code ignored;  // no link: no driver
  device.driver = fs::read_symlink(directory / "driver", ignored).filename().string();
  const Result<std::optional<int>> node = ReadInt(directory / "numa_node");
  if (node.ok() && *node && **node >= 0) device.numa = **node;
  const Result<std::optional<int>> functions = ReadInt(directory / "sriov_numvfs");
  if (functions.ok() && *functions) device.virtual_functions = std::max(**functions, 0);
  static constexpr std::array<std::string_view, 5> kFolders = {"net", "infiniband", "nvme", "drm",
                                                               "accel"};
  // Those of virtio are one directory deeper, in virtioN.
  for (const std::string& inner : NamesOrNone(directory)) {
    if (!inner.starts_with("virtio")) continue;
    for (std::string& name : NamesOrNone(directory / inner / "net")) {
      device.names.push_back(std::move(name));
    }
  }
  for (const std::string_view folder : kFolders) {
    for (std::string& name : NamesOrNone(directory / folder)) {
      // A display has card0 and renderD128, which are the same device.
      if (!name.starts_with("render")) device.names.push_back(std::move(name));
    }
  }
  return device;
}

void AddPciDevices(const fs::path& root, MachineParts& parts) {
  const fs::path directory = root / "sys/bus/pci/devices";
  for (const std::string& address : NamesOrNone(directory)) {
    const fs::path path = directory / address;
    const std::optional<PciKind> kind = KindOfClass(TextOrEmpty(path / "class"));
    std::error_code ignored;  // of a link: it is there
    if (!kind || fs::is_symlink(fs::symlink_status(path / "physfn", ignored))) continue;
    if (parts.pci.size() == kMaxPciDevices) {
      ++parts.pci_left_out;
    } else {
      parts.pci.push_back(DeviceAt(path, address, *kind));
    }
  }
}

}  // namespace

MachineParts ReadParts(const std::filesystem::path& root, const Machine& machine) {
  MachineParts parts{.caches = CachesOf(root, machine)};
  AddPciDevices(root, parts);
  return parts;
}

}  // namespace alignd::host
