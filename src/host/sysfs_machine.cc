#include "host/sysfs_machine.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/file.h"
#include "host/sysfs_value.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;

// A directory of one CPU or one NUMA node, and its number.
struct NumberedDirectory {
  int number = 0;
  fs::path path;
};

struct CoreIdentity {
  int core_id = 0;
  int package = 0;
  std::optional<int> book;    // s390 only
  std::optional<int> drawer;  // s390 only

  friend bool operator==(const CoreIdentity&, const CoreIdentity&) = default;
};

struct Core {
  CoreIdentity identity;
  std::vector<int> threads;
  std::optional<int> uncore;  // absent: none, or one that serves the whole NUMA node
};

struct Cache {
  int id = 0;
  int level = 0;
  int cpu_count = 0;
};

constexpr int kCoreCacheLevel = 2;  // what is above is shared by cores

// The entries `prefix`N of a directory, in byte order of their names (cpu10 before cpu2): the order
// in which the kubelet meets them.
Result<std::vector<NumberedDirectory>> NumberedEntries(const fs::path& directory,
                                                       std::string_view prefix) {
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return names.error();
  std::vector<NumberedDirectory> entries;
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix)) continue;
    const std::optional<int> number = ParseInt(std::string_view(name).substr(prefix.size()));
    if (number && *number >= 0) entries.push_back({*number, directory / name});
  }
  return entries;
}

// Reads one tree. Made for one call of ReadMachine.
class Reader {
 public:
  explicit Reader(const fs::path& root)
      : cpu_directory_(root / "sys/devices/system/cpu"),
        node_directory_(root / "sys/devices/system/node") {}

  Result<Machine> Read() {
    Result<std::optional<CpuSet>> online = ReadCpuList(cpu_directory_ / "online");
    if (!online.ok()) return online.error();
    online_ = std::move(online).value();

    const Result<std::vector<NumberedDirectory>> nodes = NumberedEntries(node_directory_, "node");
    if (!nodes.ok() && nodes.error().code != ErrorCode::kNotFound) return nodes.error();
    const bool has_nodes = nodes.ok() && !nodes->empty();
    const Result<Done> read = has_nodes ? ReadNodes(*nodes) : ReadPackages();
    if (!read.ok()) return read.error();

    if (cpus_.empty()) {
      return Error{ErrorCode::kNotFound,
                   "read " + cpu_directory_.string() +
                       ": no online CPU with topology/core_id and topology/physical_package_id",
                   "check that --root has the sys/ of a machine"};
    }
    std::vector<Cpu> rows;
    rows.reserve(cpus_.size());
    for (const auto& [number, row] : cpus_) rows.push_back(row);
    const Result<CpuSet> isolated = ReadIsolated();
    if (!isolated.ok()) return isolated.error();
    Result<Machine> machine = Machine::Make(std::move(rows), std::move(numa_), *isolated);
    if (!machine.ok()) return machine.error().In("read " + node_directory_.string());
    return machine;
  }

 private:
  // On most machines, the file has an empty line.
  Result<CpuSet> ReadIsolated() const {
    const fs::path file = cpu_directory_ / "isolated";
    const Result<std::optional<std::string>> text = ReadText(file);
    if (!text.ok()) return text.error();
    if (text->value_or("").find_first_not_of(" \n") == std::string::npos) return CpuSet();
    const Result<std::optional<CpuSet>> cpus = ReadCpuList(file);
    if (!cpus.ok()) return cpus.error();
    return cpus->value_or(CpuSet());
  }

  Result<Done> ReadNodes(const std::vector<NumberedDirectory>& nodes) {
    for (const NumberedDirectory& directory : nodes) {
      const Result<std::vector<NumberedDirectory>> cpus = NumberedEntries(directory.path, "cpu");
      if (!cpus.ok()) return cpus.error();
      if (const Result<Done> added = AddCpus(directory.number, *cpus); !added.ok()) return added;
      Result<NumaNode> node = ReadNode(directory);
      if (!node.ok()) return node.error();
      numa_.push_back(std::move(node).value());
    }
    return Done{};
  }

  // Without node directories: every package is a NUMA node.
  Result<Done> ReadPackages() {
    const Result<std::vector<NumberedDirectory>> cpus = NumberedEntries(cpu_directory_, "cpu");
    if (!cpus.ok()) return cpus.error();
    std::map<int, std::vector<NumberedDirectory>> cpus_of_package;
    for (const NumberedDirectory& cpu : *cpus) {
      const Result<std::optional<int>> package = ReadInt(cpu.path / "topology/physical_package_id");
      if (!package.ok()) return package.error();
      if (package->has_value()) cpus_of_package[std::max(**package, 0)].push_back(cpu);
    }
    for (const auto& [package, cpus_of_it] : cpus_of_package) {
      if (const Result<Done> added = AddCpus(package, cpus_of_it); !added.ok()) return added;
      numa_.push_back({.id = package, .memory_bytes = 0, .hugepages = {}, .distances = {}});
    }
    return Done{};
  }

  // Adds the online CPUs among `directories` as those of NUMA node `numa`.
  Result<Done> AddCpus(int numa, const std::vector<NumberedDirectory>& directories) {
    Result<std::vector<Core>> cores = ReadCores(directories);
    if (!cores.ok()) return cores.error();
    FindUncoreCaches(*cores);
    for (const Core& core : *cores) {
      const int name = std::ranges::min(core.threads);
      const int socket = core.identity.package;
      for (const int cpu : core.threads) {
        cpus_[cpu] = {.cpu = cpu,
                      .core = name,
                      .socket = socket,
                      .numa = numa,
                      .uncore = core.uncore.value_or(socket)};
      }
    }
    return Done{};
  }

  Result<std::vector<Core>> ReadCores(const std::vector<NumberedDirectory>& directories) const {
    std::vector<Core> cores;
    for (const NumberedDirectory& cpu : directories) {
      if (online_ && !online_->Contains(cpu.number)) continue;
      const Result<std::optional<CoreIdentity>> identity = ReadIdentity(cpu.path / "topology");
      if (!identity.ok()) return identity.error();
      if (!identity->has_value()) continue;
      auto core = std::ranges::find(cores, **identity, &Core::identity);
      if (core == cores.end()) {
        core = cores.insert(cores.end(), {.identity = **identity, .threads = {}, .uncore = {}});
      }
      core->threads.push_back(cpu.number);
    }
    return cores;
  }

  // nullopt: the kernel has no such file.
  static Result<std::optional<CoreIdentity>> ReadIdentity(const fs::path& topology) {
    const Result<std::optional<int>> core_id = ReadInt(topology / "core_id");
    if (!core_id.ok()) return core_id.error();
    const Result<std::optional<int>> package = ReadInt(topology / "physical_package_id");
    if (!package.ok()) return package.error();
    const Result<std::optional<int>> book = ReadInt(topology / "book_id");
    if (!book.ok()) return book.error();
    const Result<std::optional<int>> drawer = ReadInt(topology / "drawer_id");
    if (!drawer.ok()) return drawer.error();
    if (!core_id->has_value() || !package->has_value()) return std::optional<CoreIdentity>();
    return std::optional(
        CoreIdentity{.core_id = **core_id, .package = **package, .book = *book, .drawer = *drawer});
  }

  // Looks at one thread of each core of a NUMA node.
  void FindUncoreCaches(std::vector<Core>& cores) const {
    for (Core& core : cores) {
      const std::optional<std::vector<Cache>> caches = ReadCaches(core.threads.front());
      if (!caches) return;  // as cAdvisor: the node's other cores have no uncore cache
      // cAdvisor's count, which differs from the node's on hybrid machines.
      const size_t threads_of_node = cores.size() * core.threads.size();
      const auto uncore = std::ranges::find_if(*caches, [&](const Cache& cache) {
        return cache.level > kCoreCacheLevel &&
               static_cast<size_t>(cache.cpu_count) != threads_of_node;
      });
      if (uncore != caches->end()) core.uncore = uncore->id;
    }
  }

  // nullopt: a file is absent or invalid. That is no error: many kernels and most virtual machines
  // have few cache files, and cAdvisor ignores the reason.
  std::optional<std::vector<Cache>> ReadCaches(int cpu) const {
    const fs::path directory = cpu_directory_ / ("cpu" + std::to_string(cpu)) / "cache";
    const Result<std::vector<std::string>> names = ListDirectory(directory);
    if (!names.ok()) return std::nullopt;
    std::vector<Cache> caches;
    for (const std::string& name : *names) {
      if (!name.starts_with("index")) continue;
      const std::optional<Cache> cache = ReadCache(directory / name);
      if (!cache) return std::nullopt;
      caches.push_back(*cache);
    }
    return caches;
  }

  static std::optional<Cache> ReadCache(const fs::path& directory) {
    const Result<std::optional<int>> id = ReadInt(directory / "id");
    const Result<std::optional<int>> level = ReadInt(directory / "level");
    const Result<std::optional<int>> cpu_count = ReadMaskCount(directory / "shared_cpu_map");
    const Result<std::optional<std::string>> size = ReadText(directory / "size");
    const Result<std::optional<std::string>> type = ReadText(directory / "type");
    if (!id.ok() || !level.ok() || !cpu_count.ok() || !size.ok() || !type.ok()) return {};
    if (!*id || !*level || !*cpu_count || !*size || !*type) return {};
    // As in cAdvisor, a size that is not in kB ("32768K") makes the cache unreadable.
    const std::string_view kilobytes = std::string_view(**size).substr(0, (*size)->find('K'));
    if (kilobytes.size() == (*size)->size() || !ParseUint64(kilobytes)) return {};
    return Cache{.id = **id, .level = **level, .cpu_count = **cpu_count};
  }

  static Result<NumaNode> ReadNode(const NumberedDirectory& directory) {
    NumaNode node{.id = directory.number, .memory_bytes = 0, .hugepages = {}, .distances = {}};
    const Result<uint64_t> memory_bytes = ReadMemTotal(directory.path / "meminfo");
    if (!memory_bytes.ok()) return memory_bytes.error();
    node.memory_bytes = *memory_bytes;
    Result<std::map<uint64_t, uint64_t>> hugepages = ReadHugepages(directory.path / "hugepages");
    if (!hugepages.ok()) return hugepages.error();
    node.hugepages = std::move(hugepages).value();
    Result<std::optional<std::vector<int>>> distances = ReadInts(directory.path / "distance");
    if (!distances.ok()) return distances.error();
    if (distances->has_value()) node.distances = std::move(**distances);
    return node;
  }

  // Bytes; 0 if there is no such file. The line is `Node 0 MemTotal:       2052540 kB`.
  static Result<uint64_t> ReadMemTotal(const fs::path& path) {
    constexpr std::string_view kKey = "MemTotal:";
    const Result<std::optional<std::string>> text = ReadText(path);
    if (!text.ok()) return text.error();
    if (!text->has_value()) return uint64_t{0};
    const size_t key = (*text)->find(kKey);
    if (key == std::string::npos) return CorruptFile(path, **text, "no MemTotal in it");
    const std::string_view rest = std::string_view(**text).substr(key);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    std::string_view number = line.substr(kKey.size());
    number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
    const size_t unit = number.find(" kB");
    const std::optional<uint64_t> kilobytes = ParseUint64(number.substr(0, unit));
    if (unit == std::string_view::npos || !kilobytes || *kilobytes > kMaxKilobytes) {
      return CorruptFile(path, line, "not a size in kB");
    }
    return *kilobytes * 1024;
  }

  // Page size in bytes to number of pages, from directories like `hugepages-2048kB`.
  static Result<std::map<uint64_t, uint64_t>> ReadHugepages(const fs::path& directory) {
    constexpr std::string_view kPrefix = "hugepages-";
    constexpr std::string_view kSuffix = "kB";
    std::map<uint64_t, uint64_t> pages_by_size;
    const Result<std::vector<std::string>> names = ListDirectory(directory);
    if (!names.ok()) {
      if (names.error().code == ErrorCode::kNotFound) return pages_by_size;
      return names.error();
    }
    for (const std::string& name : *names) {
      std::optional<uint64_t> kilobytes;
      if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) {
        kilobytes = ParseUint64(std::string_view(name).substr(
            kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
      }
      if (!kilobytes || *kilobytes == 0 || *kilobytes > kMaxKilobytes) {
        return CorruptFile(directory, name, "not a size of huge pages");
      }
      const fs::path file = directory / name / "nr_hugepages";
      const Result<std::optional<uint64_t>> pages = ReadUint64(file);
      if (!pages.ok()) return pages.error();
      if (!pages->has_value())
        return Error{ErrorCode::kNotFound, "read " + file.string() + ": absent",
                     "check that sysfs is mounted completely"};
      pages_by_size[*kilobytes * 1024] = **pages;
    }
    return pages_by_size;
  }

  static constexpr uint64_t kMaxKilobytes = std::numeric_limits<uint64_t>::max() / 1024;

  const fs::path cpu_directory_;
  const fs::path node_directory_;
  std::optional<CpuSet> online_;  // nullopt: this kernel cannot take CPUs offline
  std::map<int, Cpu> cpus_;       // by number; a CPU on two NUMA nodes belongs to the later one
  std::vector<NumaNode> numa_;
};

}  // namespace

Result<Machine> ReadMachine(const fs::path& root) { return Reader(root).Read(); }

Result<std::optional<CpuSet>> ReadOnlineCpus(const fs::path& root) {
  return ReadCpuList(root / "sys/devices/system/cpu/online");
}

}  // namespace alignd::host
