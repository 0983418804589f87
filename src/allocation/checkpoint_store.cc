#include "allocation/checkpoint_store.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/cpumanager/pod_partition.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/memorymanager/fit_to_machine.h"
#include "alignd/memorymanager/static_policy.h"
#include "allocation/load_errors.h"
#include "allocation/state_limits.h"
#include "allocation/whole_pods.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

namespace fs = std::filesystem;
using admission::Node;
using admission::NodeState;

Result<Done> RequireSound(const std::vector<std::string>& broken, const fs::path& path,
                          const std::string& remedy) {
  if (broken.empty()) return Done{};
  return NotValid({ErrorCode::kCorrupt, broken.front(), remedy}, path, remedy);
}

}  // namespace

CheckpointStore::CheckpointStore(StatePaths paths, host::FileCalls& calls)
    : paths_(std::move(paths)),
      calls_(calls),
      cpu_{paths_.CpuFile(), std::nullopt},
      memory_{paths_.MemoryFile(), std::nullopt},
      devices_{paths_.DeviceFile(), std::nullopt},
      originals_(paths_.OriginalsFile(), calls_),
      shares_(paths_.SharesFile(), calls_) {}

Result<NodeState> CheckpointStore::Load(const Node& node, OnBadState on_bad) {
  std::vector<FileProblem> problems;
  std::optional<NodeState> state = Load(node, problems, on_bad);
  if (!state) return std::move(problems.front().error);
  return *std::move(state);
}

std::optional<NodeState> CheckpointStore::Load(const Node& node, std::vector<FileProblem>& problems,
                                               OnBadState on_bad) {
  const MutexLock lock(mutex_);
  findings_ = {};
  const size_t before = problems.size();
  const auto is_done = [&problems](const Result<Done>& done, const fs::path& file) {
    if (!done.ok()) problems.push_back({file, done.error()});
    return done.ok();
  };
  if (!is_done(PrepareDirectories(), paths_.state_dir)) return std::nullopt;
  const NodeState initial = NodeState::Initial(node);
  NodeState state = initial;
  // A part of a file that cannot be used may have been read.
  bool has_cpus = true;
  const Result<bool> cpu = LoadCpu(node, on_bad, state.cpu);
  if (!cpu.ok()) {
    state.cpu = initial.cpu;
    has_cpus = is_done(OrSetAside(cpu.error(), cpu_.path, on_bad), cpu_.path);
    cpu_.text.reset();
  }
  // The original CPUs are compared with those of the CPU file.
  if (has_cpus) {
    if (const Result<Done> originals = originals_.Load(state.cpu); !originals.ok()) {
      is_done(OrSetAside(originals, originals_.path(), on_bad), originals_.path());
      originals_.Forget();
    }
  }
  // Without the CPU file, what running containers have comes from their marks, and with it this.
  cpumanager::CpuState unused = state.cpu;
  const bool is_read = cpu.ok() && *cpu;
  if (const Result<Done> shares = shares_.Load(node, cpu_read_, is_read ? state.cpu : unused);
      !shares.ok()) {
    is_done(OrSetAside(shares, shares_.path(), on_bad), shares_.path());
    shares_.Forget();
  } else if (is_read && shares_.is_outdated()) {
    findings_.outdated.push_back(shares_.path());
  }
  if (const Result<Done> memory = LoadMemory(node, state.memory); !memory.ok()) {
    state.memory = initial.memory;
    is_done(OrSetAside(memory, memory_.path, on_bad), memory_.path);
    memory_.text.reset();
  }
  if (const Result<Done> devices = LoadDevices(state.devices); !devices.ok()) {
    state.devices = {};
    is_done(OrSetAside(devices, devices_.path, on_bad), devices_.path);
    devices_.text.reset();
  }
  if (problems.size() > before) return std::nullopt;
  if (!is_done(WriteMissing(node, state, is_read), paths_.state_dir)) return std::nullopt;
  return state;
}

StateFindings CheckpointStore::findings() const {
  const MutexLock lock(mutex_);
  return findings_;
}

Result<Done> CheckpointStore::OrSetAside(const Result<Done>& loaded, const fs::path& file,
                                         OnBadState on_bad) {
  if (on_bad == OnBadState::kRefuse || loaded.error().code != ErrorCode::kCorrupt) return loaded;
  Result<BadFile> kept = SetAside(file, loaded.error(), calls_);
  if (!kept.ok()) return kept.error();
  findings_.bad.push_back(*std::move(kept));
  return Done{};
}

Result<Done> CheckpointStore::Save(const Node& node, const NodeState& state) {
  const MutexLock lock(mutex_);
  const auto texts = Texts(node, state);
  for (const auto& [file, text] : texts) {
    if (Result<Done> sound = RequireReadBack(*file, text, state); !sound.ok()) return sound;
  }
  const checkpoint::Originals& originals = state.cpu.originals;
  if (Result<Done> sound = originals_.RequireReadBack(originals); !sound.ok()) return sound;
  const CpuTexts cpu{cpu_.text, texts.front().second};
  if (Result<Done> sound = shares_.RequireReadBack(node, state.cpu.shares, cpu); !sound.ok()) {
    return sound;
  }
  if (Result<Done> added = originals_.SaveNew(originals); !added.ok()) return added;
  if (Result<Done> saved = shares_.Save(node, state.cpu.shares, cpu); !saved.ok()) return saved;
  for (const auto& [file, text] : texts) {
    if (Result<Done> written = Write(*file, text); !written.ok()) return written;
  }
  return originals_.Save(originals);
}

Result<Done> CheckpointStore::WriteAgain() {
  const MutexLock lock(mutex_);
  for (File* file : {&cpu_, &devices_}) {  // one of each directory
    if (!file->text) continue;
    const std::string text = *std::exchange(file->text, std::nullopt);
    if (Result<Done> written = Write(*file, text); !written.ok()) return written;
  }
  return Done{};
}

Result<Done> CheckpointStore::RequireReadBack(const File& file, const std::string& text,
                                              const NodeState& state) const {
  if (file.text == text) return Done{};
  if (text.size() > host::kMaxFileBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "write " + file.path.string() + ": " + std::to_string(text.size()) +
                     " bytes, more than the " + std::to_string(host::kMaxFileBytes) +
                     " that alignd reads after a restart",
                 "configure the device plugins to offer fewer devices, shorter ids or shorter "
                 "answers, or run fewer containers with devices"};
  }
  bool is_same = false;
  Result<Done> parsed = Done{};
  const auto take = [&parsed](const auto& read) {
    if (!read.ok()) parsed = read.error();
    return read.ok();
  };
  if (&file == &cpu_) {
    const auto read = checkpoint::ParseCpuCheckpoint(text);
    is_same = take(read) && read->state.assignments == state.cpu.assignments &&
              read->state.pods == state.cpu.pods;
  } else if (&file == &memory_) {
    const auto read = checkpoint::ParseMemoryCheckpoint(text);
    is_same = take(read) && read->state.assignments == state.memory.assignments &&
              read->state.pods == state.memory.pods;
  } else {
    const auto read = checkpoint::ParseDeviceCheckpoint(text);
    is_same = take(read) && read->allocations == state.devices.allocations;
  }
  if (is_same) return Done{};
  return NotReadBack(parsed).In("write " + file.path.string());
}

std::vector<CheckpointStore::ForeignFile> CheckpointStore::FindForeignFiles() {
  const MutexLock lock(mutex_);
  std::vector<ForeignFile> foreign;
  for (File* file : {&cpu_, &memory_}) {
    if (!file->text) continue;  // the last save failed
    Result<std::string> text = host::ReadFile(file->path);
    if (text.ok() && *text == *file->text) continue;
    file->text.reset();
    if (text.ok()) foreign.push_back({file->path, *std::move(text)});
  }
  return foreign;
}

bool CheckpointStore::IsUncertain() const {
  const MutexLock lock(mutex_);
  return !cpu_.text || !memory_.text || !devices_.text || originals_.IsUncertain() ||
         shares_.IsUncertain();
}

Result<Done> CheckpointStore::WriteMissing(const Node& node, const NodeState& state,
                                           bool has_cpus) {
  const auto texts = Texts(node, state);
  if (has_cpus && !cpu_.text && shares_.IsThere() && !shares_.is_outdated()) {
    const CpuTexts cpu{cpu_read_, texts.front().second};
    if (Result<Done> kept = shares_.Save(node, state.cpu.shares, cpu); !kept.ok()) return kept;
  }
  for (const auto& [file, text] : texts) {
    if (file->text) continue;
    if (Result<Done> written = Write(*file, text); !written.ok()) return written;
  }
  return shares_.RemoveUnused(node);
}

std::vector<std::pair<CheckpointStore::File*, std::string>> CheckpointStore::Texts(
    const Node& node, const NodeState& state) {
  const std::string_view cpu_policy = ToString(node.config.cpu_manager_policy);
  const std::string_view memory_policy = ToString(node.config.memory_manager_policy);
  const checkpoint::StateForm form = checkpoint::FormOf(node.config);
  return {{&cpu_, checkpoint::FormatCpuCheckpoint(cpu_policy, state.cpu, form)},
          {&memory_, checkpoint::FormatMemoryCheckpoint(memory_policy, state.memory, form)},
          {&devices_, checkpoint::FormatDeviceCheckpoint(state.devices)}};
}

Result<Done> CheckpointStore::PrepareDirectories() {
  for (const fs::path& directory : {paths_.state_dir, paths_.device_plugin_dir}) {
    if (Result<Done> made = host::MakeDirectory(directory, calls_); !made.ok()) return made;
  }
  for (const File* file : {&cpu_, &memory_, &devices_}) {
    if (Result<Done> clean = host::RemoveTemporary(file->path, calls_); !clean.ok()) return clean;
  }
  return Done{};
}

Result<std::optional<std::string>> CheckpointStore::Read(File& file) {
  file.text.reset();
  Result<std::string> text = host::ReadFile(file.path);
  if (text.ok()) {
    file.text = *std::move(text);
  } else if (text.error().code == ErrorCode::kInvalidArgument) {  // it is too long
    Error error = text.error().In("load " + file.path.string());
    error.code = ErrorCode::kCorrupt;  // alignd itself writes no file of this length
    error.remedy = RebuildRemedy(file.path);
    return error;
  } else if (text.error().code != ErrorCode::kNotFound) {
    return text.error();
  }
  return file.text;
}

Result<Done> CheckpointStore::Write(File& file, const std::string& text) {
  if (file.text == text) return Done{};
  // After a failure the content of the file is unknown, so that the next save writes in any case.
  file.text.reset();
  if (Result<Done> done = host::ReplaceFile(file.path, text, calls_); !done.ok()) return done;
  file.text = text;
  return Done{};
}

Result<bool> CheckpointStore::LoadCpu(const Node& node, OnBadState on_bad,
                                      cpumanager::CpuState& state) {
  const Result<std::optional<std::string>> text = Read(cpu_);
  cpu_read_ = cpu_.text.value_or("");
  if (!text.ok()) return text.error();
  if (!*text) {
    if (node.cpu) findings_.missing.push_back(cpu_.path);
    return false;
  }
  std::string remedy = RebuildRemedy(cpu_.path);
  Result<checkpoint::CpuCheckpoint> parsed = checkpoint::ParseCpuCheckpoint(**text);
  if (!parsed.ok()) return NotRestored(parsed.error(), cpu_.path, remedy);
  remedy.insert(0, ForgetPods(node, cpu_.path, "CPUs", parsed->state));
  const std::string_view policy = ToString(node.config.cpu_manager_policy);
  const bool is_empty = parsed->state == cpumanager::CpuState{};
  // A package starts alignd before the administrator chooses a policy. The file counts as absent.
  if (is_empty && node.cpu && parsed->policy_name == ToString(CpuManagerPolicy::kNone)) {
    cpu_.text.reset();
    return false;
  }
  if (Result<Done> same = checkpoint::RequirePolicy(*parsed, policy); !same.ok()) {
    const bool is_known = parsed->policy_name == ToString(CpuManagerPolicy::kNone) ||
                          parsed->policy_name == ToString(CpuManagerPolicy::kStatic);
    return OfOtherPolicy(same.error(), parsed->policy_name, is_known, "cpuManagerPolicy", cpu_.path,
                         "running containers lose their exclusive CPUs");
  }
  if (node.cpu && is_empty) return true;
  state = std::move(parsed->state);
  if (!node.cpu) return true;
  cpumanager::DropStalePods(state);
  ReleaseUnused(cpu_.path, "has CPUs as a whole and no container: they are free again", state);
  if (on_bad == OnBadState::kRebuild) {
    const CpuSet added = cpumanager::AddNewCpus(node.machine, *node.cpu, state);
    if (!added.empty()) {
      spdlog::warn("{}: CPUs {} have come online since this was saved: they are in the shared pool",
                   cpu_.path.string(), added.ToString());
      cpu_.text.reset();
    }
  }
  const Result<Done> valid = cpumanager::ValidateLoaded(node.machine, *node.cpu, state);
  if (!valid.ok() && valid.error().code == ErrorCode::kInvalidArgument) {
    return OfOtherReservations(valid.error(),
                               "reservedSystemCPUs (or kubeReserved and systemReserved) and "
                               "strict-cpu-reservation",
                               cpu_.path);
  }
  if (!valid.ok()) return NotValid(valid.error(), cpu_.path, remedy);
  const Result<Done> sound =
      RequireSound(cpumanager::BrokenInvariants(node.machine, *node.cpu, state), cpu_.path, remedy);
  if (!sound.ok()) return sound.error();
  return true;
}

Result<Done> CheckpointStore::LoadMemory(const Node& node, memorymanager::MemoryState& state) {
  const Result<std::optional<std::string>> text = Read(memory_);
  if (!text.ok()) return text.error();
  if (!*text) {
    if (node.memory) findings_.missing.push_back(memory_.path);
    return Done{};
  }
  std::string remedy = RebuildRemedy(memory_.path);
  Result<checkpoint::MemoryCheckpoint> parsed = checkpoint::ParseMemoryCheckpoint(**text);
  if (!parsed.ok()) return NotRestored(parsed.error(), memory_.path, remedy);
  remedy.insert(0, ForgetPods(node, memory_.path, "memory", parsed->state));
  const std::string_view policy = ToString(node.config.memory_manager_policy);
  const bool is_empty = parsed->state == memorymanager::MemoryState{};
  if (is_empty && node.memory && parsed->policy_name == ToString(MemoryManagerPolicy::kNone)) {
    memory_.text.reset();
    return Done{};
  }
  if (Result<Done> same = checkpoint::RequirePolicy(*parsed, policy); !same.ok()) {
    const bool is_known = parsed->policy_name == ToString(MemoryManagerPolicy::kNone) ||
                          parsed->policy_name == ToString(MemoryManagerPolicy::kStatic);
    return OfOtherPolicy(same.error(), parsed->policy_name, is_known, "memoryManagerPolicy",
                         memory_.path, "the memory of running containers counts as free");
  }
  if (node.memory && is_empty) return Done{};
  state = std::move(parsed->state);
  if (!node.memory) return Done{};
  const Result<Done> valid = memorymanager::ValidateLoaded(node.machine, *node.memory, state);
  if (!valid.ok()) {
    auto fitted = memorymanager::FitToMachine(node.machine, *node.memory, state);
    if (!fitted && memorymanager::IsOfOtherReservations(node.machine, *node.memory, state)) {
      return OfOtherReservations(valid.error(), "reservedMemory", memory_.path);
    }
    if (!fitted) return NotValid(valid.error(), memory_.path, remedy);
    spdlog::warn(
        "{}: the memory of the NUMA nodes has changed since this was saved, as after a boot; the "
        "assignments fit and stay",
        memory_.path.string());
    state = *std::move(fitted);
  }
  ReleaseUnused(memory_.path, "has memory as a whole and no container: it is free again", state);
  return RequireSound(memorymanager::BrokenInvariants(node.machine, *node.memory, state),
                      memory_.path, remedy);
}

Result<Done> CheckpointStore::LoadDevices(devicemanager::DeviceState& state) {
  const Result<std::optional<std::string>> text = Read(devices_);
  if (!text.ok()) return text.error();
  if (!*text) {
    findings_.missing.push_back(devices_.path);
    return Done{};
  }
  const std::string remedy = RebuildRemedy(devices_.path);
  Result<checkpoint::DeviceCheckpoint> parsed = checkpoint::ParseDeviceCheckpoint(**text);
  if (!parsed.ok()) return NotRestored(parsed.error(), devices_.path, remedy);
  state = parsed->ToState();
  return RequireSound(devicemanager::BrokenInvariants(state), devices_.path, remedy);
}

}  // namespace alignd::allocation
