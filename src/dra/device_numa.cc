#include "dra/device_numa.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "host/file.h"

namespace alignd::dra {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDev = "/dev/";
constexpr std::string_view kNvidia = "nvidia";
constexpr std::string_view kVfio = "vfio/";
constexpr std::string_view kNoIommu = "noiommu-";  // without an IOMMU, the kernel makes such groups

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// A name that stays within its directory.
bool IsName(std::string_view text) {
  return !text.empty() && !text.starts_with('.') && text.find('/') == std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// The value of the line "KEY: VALUE" or "KEY=VALUE"; empty if there is none.
std::string_view ValueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.size() > key.size() && line.starts_with(key) &&
        (line[key.size()] == ':' || line[key.size()] == '=')) {
      return Trimmed(line.substr(key.size() + 1));
    }
  }
  return {};
}

// The names in the directory; none if it does not exist.
Result<std::vector<std::string>> NamesIn(const fs::path& directory) {
  Result<std::vector<std::string>> names = host::ListDirectory(directory);
  if (!names.ok() && names.error().code == ErrorCode::kNotFound) return std::vector<std::string>();
  return names;
}

Result<Done> AddTo(NumaIds& ids, Result<NumaIds> more) {
  if (!more.ok()) return more.error();
  ids.merge(*more);
  return Done{};
}

}  // namespace

Result<NumaIds> DeviceNuma::OfDeviceNode(const std::string& whole) {
  const size_t dev = whole.rfind(kDev);
  if (dev == std::string::npos) return NumaIds();
  const std::string name = whole.substr(dev + kDev.size());
  const Result<std::optional<NumaIds>> special = OfSpecialName(name);
  if (!special.ok()) return special.error();
  if (*special) return **special;
  if (const Result<Done> read = ReadNames(); !read.ok()) return read.error();
  NumaIds ids;
  const auto found = directories_.find(name);
  if (found == directories_.end()) return ids;
  for (const fs::path& directory : found->second) {
    if (Result<Done> added = AddTo(ids, OfDirectory(directory)); !added.ok()) return added.error();
  }
  return ids;
}

Result<std::optional<NumaIds>> DeviceNuma::OfDeviceNumber(const DeviceNumber& number) const {
  const fs::path entry = root_ / "sys/dev" / (number.is_block ? "block" : "char") /
                         (std::to_string(number.major) + ":" + std::to_string(number.minor));
  std::error_code missing;
  const fs::path directory = fs::canonical(entry, missing);
  if (missing) return std::optional<NumaIds>();
  if (const Result<std::string> uevent = host::ReadFile(directory / "uevent"); uevent.ok()) {
    Result<std::optional<NumaIds>> special = OfSpecialName(ValueOf(*uevent, "DEVNAME"));
    if (!special.ok() || *special) return special;
  }
  Result<NumaIds> ids = OfDirectory(directory);
  if (!ids.ok()) return ids.error();
  return std::optional(*std::move(ids));
}

Result<std::optional<NumaIds>> DeviceNuma::OfSpecialName(std::string_view name) const {
  Result<NumaIds> ids = NumaIds();
  if (name.starts_with(kNvidia) && IsNumber(name.substr(kNvidia.size()))) {
    // The driver of NVIDIA before 555 makes no entry in /sys/dev for its devices.
    ids = OfNvidiaMinor(std::string(name.substr(kNvidia.size())));
  } else if (name.starts_with(kVfio)) {
    std::string_view group = name.substr(kVfio.size());
    if (group.starts_with(kNoIommu)) group.remove_prefix(kNoIommu.size());
    if (!IsNumber(group)) return std::optional<NumaIds>();
    ids = OfIommuGroup(std::string(group));
  } else {
    return std::optional<NumaIds>();
  }
  if (!ids.ok()) return ids.error();
  return std::optional(*std::move(ids));
}

Result<Done> DeviceNuma::ReadNames() {
  if (std::exchange(has_names_, true)) return Done{};
  for (const char* const type : {"char", "block"}) {
    const fs::path all = root_ / "sys/dev" / type;
    const Result<std::vector<std::string>> numbers = NamesIn(all);
    if (!numbers.ok()) return numbers.error();
    for (const std::string& number : *numbers) {
      const Result<std::string> uevent = host::ReadFile(all / number / "uevent");
      if (!uevent.ok()) continue;  // it has just gone
      const std::string name(ValueOf(*uevent, "DEVNAME"));
      std::error_code gone;
      fs::path directory = fs::canonical(all / number, gone);
      if (!name.empty() && !gone) directories_[name].insert(std::move(directory));
    }
  }
  return Done{};
}

Result<NumaIds> DeviceNuma::OfDirectory(fs::path directory) const {
  std::error_code missing;
  const std::string devices = fs::canonical(root_ / "sys/devices", missing).string() + "/";
  if (missing) return NumaIds();
  for (; directory.string().starts_with(devices); directory = directory.parent_path()) {
    const fs::path file = directory / "numa_node";
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) continue;
    if (!text.ok()) return text.error();
    const std::string_view number = Trimmed(*text);
    int64_t id = 0;
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), id);
    if (code != std::errc() || end != number.data() + number.size() || id < -1) {
      return Error{ErrorCode::kCorrupt,
                   file.string() + ": \"" + std::string(number) + "\" is no NUMA node",
                   "check that --root has this machine's sys"};
    }
    if (id == -1) return NumaIds();  // the firmware does not say
    return NumaIds{id};
  }
  return NumaIds();
}

Result<NumaIds> DeviceNuma::OfPciDevice(const std::string& address) const {
  if (!IsName(address)) return NumaIds();
  std::error_code gone;
  const fs::path directory = fs::canonical(root_ / "sys/bus/pci/devices" / address, gone);
  if (gone) return NumaIds();
  return OfDirectory(directory);
}

Result<NumaIds> DeviceNuma::OfInterface(const std::string& name) const {
  if (!IsName(name)) return NumaIds();
  std::error_code gone;
  const fs::path directory = fs::canonical(root_ / "sys/class/net" / name, gone);
  if (gone) return NumaIds();
  return OfDirectory(directory);
}

Result<NumaIds> DeviceNuma::OfPcieRoot(const std::string& root) const {
  if (!IsName(root)) return NumaIds();
  const fs::path directory = root_ / "sys/devices" / root;
  const Result<std::vector<std::string>> names = NamesIn(directory);
  if (!names.ok()) return names.error();
  NumaIds ids;
  for (const std::string& name : *names) {
    std::error_code ignored;  // it is no device then
    const bool is_device = fs::exists(directory / name / "numa_node", ignored);
    if (!is_device) continue;
    const fs::path device = fs::canonical(directory / name, ignored);
    if (Result<Done> added = AddTo(ids, OfDirectory(device)); !added.ok()) return added.error();
  }
  return ids;
}

Result<NumaIds> DeviceNuma::OfNvidiaMinor(const std::string& minor) const {
  const fs::path gpus = root_ / "proc/driver/nvidia/gpus";
  const Result<std::vector<std::string>> addresses = NamesIn(gpus);
  if (!addresses.ok()) return addresses.error();
  for (const std::string& address : *addresses) {
    const Result<std::string> text = host::ReadFile(gpus / address / "information");
    if (text.ok() && ValueOf(*text, "Device Minor") == minor) return OfPciDevice(address);
  }
  return NumaIds();
}

Result<NumaIds> DeviceNuma::OfIommuGroup(const std::string& group) const {
  const fs::path devices = root_ / "sys/kernel/iommu_groups" / group / "devices";
  const Result<std::vector<std::string>> names = NamesIn(devices);
  if (!names.ok()) return names.error();
  NumaIds ids;
  for (const std::string& name : *names) {
    std::error_code gone;
    const fs::path device = fs::canonical(devices / name, gone);
    if (gone) continue;
    if (Result<Done> added = AddTo(ids, OfDirectory(device)); !added.ok()) return added.error();
  }
  return ids;
}

}  // namespace alignd::dra
