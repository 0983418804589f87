#include "daemon/known_cpus.h"

#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/machine/node_json.h"
#include "allocation/boot_record.h"
#include "host/file.h"
#include "host/sysfs_machine.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

Result<std::string> KnownCpusText(const Machine& machine, const fs::path& root) {
  const Result<std::string> boot = allocation::RunningBoot(root);
  if (!boot.ok()) return boot.error();
  return boot->substr(0, boot->find('\n')) + "\n" + MachineToNodeJson(machine) + "\n";
}

// The machine of the file; nullopt: there is none of this boot.
Result<std::optional<Machine>> ReadKnownMachine(const fs::path& root, const fs::path& file) {
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return std::optional<Machine>();
  if (!text.ok()) return text.error();
  const Result<std::string> boot = allocation::RunningBoot(root);
  if (!boot.ok()) return boot.error();
  const size_t line = text->find('\n');
  if (text->substr(0, line) != boot->substr(0, boot->find('\n'))) return std::optional<Machine>();
  Result<Machine> machine =
      MachineFromNodeJson(line == std::string::npos ? "" : text->substr(line + 1));
  if (!machine.ok()) return host::ContentError(machine.error(), file);
  return std::optional(*std::move(machine));
}

// Whether the CPUs that both have are in the same cores, sockets and NUMA nodes.
bool IsSameMachine(const Machine& online, const Machine& known) {
  std::map<int, int> core_of_online;
  std::map<int, int> core_of_known;
  for (const int cpu : online.cpus() & known.cpus()) {
    const Cpu& now = online.Row(cpu);
    const Cpu& then = known.Row(cpu);
    if (now.socket != then.socket || now.numa != then.numa) return false;
    if (core_of_online.try_emplace(now.core, then.core).first->second != then.core) return false;
    if (core_of_known.try_emplace(then.core, now.core).first->second != now.core) return false;
  }
  return true;
}

}  // namespace

Machine WithKnownCpus(Machine online, const fs::path& root, const fs::path& state_dir) {
  const fs::path file = state_dir / kKnownCpusFile;
  const Result<std::optional<Machine>> known = ReadKnownMachine(root, file);
  if (!known.ok()) {
    spdlog::warn("{}: CPUs that are offline now are not known to alignd", known.error().Text());
    return online;
  }
  if (!*known || online.cpus().Contains((*known)->cpus())) return online;
  if (!IsSameMachine(online, **known)) return online;
  // The core of a CPU may be named after one that is offline.
  std::map<int, int> core_names;
  for (const int cpu : online.cpus() & (*known)->cpus()) {
    core_names[online.Row(cpu).core] = (*known)->Row(cpu).core;
  }
  std::vector<Cpu> rows;
  for (Cpu row : online.cpu_rows()) {
    if (const auto name = core_names.find(row.core); name != core_names.end()) {
      row.core = name->second;
    }
    rows.push_back(row);
  }
  for (const Cpu& row : (*known)->cpu_rows()) {
    if (online.cpus().Contains(row.cpu) || !online.NumaPosition(row.numa)) continue;
    std::error_code code;
    const std::string name = "cpu" + std::to_string(row.cpu);
    if (fs::is_directory(root / "sys/devices/system/cpu" / name, code)) rows.push_back(row);
  }
  const Result<Machine> machine =
      Machine::Make(std::move(rows), online.numa(), online.isolated() | (*known)->isolated());
  return machine.ok() ? *machine : online;
}

Result<Done> SaveKnownCpus(const Machine& machine, const fs::path& root, const fs::path& state_dir,
                           host::FileCalls& calls) {
  const fs::path file = state_dir / kKnownCpusFile;
  if (Result<Done> clean = host::RemoveTemporary(file, calls); !clean.ok()) return clean;
  const Result<std::string> text = KnownCpusText(machine, root);
  if (!text.ok()) return text.error();
  const Result<std::string> now = host::ReadFile(file);
  if (now.ok() && *now == *text) return Done{};
  return host::ReplaceFile(file, *text, calls);
}

Result<CpuSet> OfflineCpusOf(const Machine& machine, const fs::path& root) {
  const Result<std::optional<CpuSet>> online = host::ReadOnlineCpus(root);
  if (!online.ok()) return online.error();
  return *online ? machine.cpus() - **online : CpuSet();
}

}  // namespace alignd::daemon
