#include "moving/move_plan.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "daemon/log_capture.h"
#include "daemon/managed_node.h"
#include "host/file.h"
#include "host/rehearsed_files.h"
#include "host/utc_time.h"
#include "reconcile/assigned_containers.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;

std::string KeptText(const admission::Node& node, const admission::NodeState& state,
                     const ContainerKey& key) {
  const admission::Assignment assignment = AssignmentOf(node, state, key);
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (!assignment.exclusive.empty()) add("CPUs " + assignment.exclusive.ToString());
  if (assignment.shares_pod_cpus) add("CPUs of its pod " + assignment.cpuset.ToString());
  if (!assignment.memory_nodes.empty()) {
    std::string nodes;
    for (const int id : assignment.memory_nodes) {
      nodes += (nodes.empty() ? "" : ",") + std::to_string(id);
    }
    add("memory of NUMA node " + nodes);
  }
  for (const auto& [resource, allocation] : assignment.devices) {
    std::string ids;
    for (const std::string& id : allocation.Ids()) ids += " " + id;
    add(resource + ids);
  }
  return "pod " + key.pod_uid + " container " + key.container + ": " +
         (text.empty() ? "the shared pool" : text);
}

auto CpusOf(const std::string& text) {
  auto read = checkpoint::ParseCpuCheckpoint(text);
  return read.ok() ? read->state.assignments : decltype(read->state.assignments){};
}

auto MemoryOf(const std::string& text) {
  auto read = checkpoint::ParseMemoryCheckpoint(text);
  return read.ok() ? read->state.assignments : decltype(read->state.assignments){};
}

auto DevicesOf(const std::string& text) {
  auto read = checkpoint::ParseDeviceCheckpoint(text);
  return read.ok() ? read->allocations : decltype(read->allocations){};
}

const std::string& PodOf(const std::string& uid) { return uid; }
const std::string& PodOf(const ContainerKey& key) { return key.pod_uid; }

// The pods of which `found` has something that `known` has otherwise or not at all.
template <typename Map>
std::vector<std::string> NotIn(const Map& known, const Map& found) {
  std::set<std::string> pods;
  for (const auto& [key, parts] : found) {
    const auto same = known.find(key);
    for (const auto& [name, value] : parts) {
      if (same != known.end()) {
        const auto part = same->second.find(name);
        if (part != same->second.end() && part->second == value) continue;
      }
      pods.insert(PodOf(key));
    }
  }
  return {pods.begin(), pods.end()};
}

}  // namespace

Result<AligndSide> AligndSide::Make(const daemon::Options& options) {
  Result<daemon::ConfiguredNode> read = daemon::ReadNode(options);
  if (!read.ok()) return read.error();
  return AligndSide{options, std::move(read->node),
                    options.config.empty() ? "{}" : std::move(read->config_text)};
}

void PrintPlan(const MovePlan& plan, std::ostream& out) {
  out << "containers that keep what they have: " << plan.kept.size() << '\n';
  for (const std::string& line : plan.kept) out << "  " << line << '\n';
  out << "files:\n";
  for (const FileChange& file : plan.files) {
    const char* const what = !file.after ? "removed" : file.before ? "replaced" : "new";
    out << "  " << file.path.string() << ": " << what << '\n';
  }
  if (plan.files.empty()) out << "  none changes\n";
  for (const std::string& note : plan.notes) out << "note: " << note << '\n';
  for (const Error& problem : plan.problems) {
    out << "cannot be kept: " << problem.message << "\n  What to do: " << problem.remedy << '\n';
  }
}

Result<Done> RequireNoProblem(const MovePlan& plan, const std::string& what) {
  if (plan.problems.empty()) return Done{};
  Error error;
  error.code = ErrorCode::kInvalidArgument;
  error.message = what + " is refused, and nothing was changed";
  for (const Error& problem : plan.problems) {
    error.message += (&problem == &plan.problems.front() ? ": " : "; ") + problem.message;
    if (error.remedy.find(problem.remedy) != std::string::npos) continue;
    error.remedy += (error.remedy.empty() ? "" : "; ") + problem.remedy;
  }
  return error;
}

std::vector<allocation::FileProblem> LoadFiles(const admission::Node& node,
                                               const allocation::StatePaths& paths,
                                               MovePlan& plan) {
  const auto sink = std::make_shared<daemon::WarningSink>();
  const daemon::LogCapture capture(sink);
  host::RehearsedFiles calls;
  std::vector<allocation::FileProblem> problems;
  std::optional<admission::NodeState> state =
      allocation::CheckpointStore(paths, calls).Load(node, problems);
  for (std::string& warning : sink->Take()) plan.notes.push_back(std::move(warning));
  if (state) plan.state = *std::move(state);
  return problems;
}

std::vector<std::string> PodsAdded(const fs::path& file, const std::string& before,
                                   const std::string& now) {
  const std::string name = file.filename().string();
  if (name == "cpu_manager_state") return NotIn(CpusOf(before), CpusOf(now));
  if (name == "memory_manager_state") return NotIn(MemoryOf(before), MemoryOf(now));
  if (name == "kubelet_internal_checkpoint") return NotIn(DevicesOf(before), DevicesOf(now));
  return {};
}

Result<Done> AddWouldBeLost(const allocation::StatePaths& replaced, bool devices,
                            const std::string& remedy, MovePlan& plan) {
  const auto add = [&](const fs::path& file, const char* what,
                       const auto& lost_of) -> Result<Done> {
    const Result<std::string> text = host::ReadFile(file);
    if (!text.ok() && text.error().code == ErrorCode::kNotFound) return Done{};
    if (!text.ok()) return text.error();
    std::string pods;
    for (const std::string& pod : lost_of(*text)) pods += (pods.empty() ? "" : ", ") + pod;
    if (pods.empty()) return Done{};
    plan.problems.push_back({ErrorCode::kInvalidArgument,
                             file.string() + " has " + what +
                                 " that the new state has otherwise or not at all, of pods " + pods,
                             remedy});
    return Done{};
  };
  Result<Done> added = add(replaced.CpuFile(), "exclusive CPUs", [&](const std::string& text) {
    return NotIn(plan.state.cpu.assignments, CpusOf(text));
  });
  if (!added.ok()) return added;
  added = add(replaced.MemoryFile(), "memory", [&](const std::string& text) {
    return NotIn(plan.state.memory.assignments, MemoryOf(text));
  });
  if (!added.ok() || !devices) return added;
  return add(replaced.DeviceFile(), "devices", [&](const std::string& text) {
    return NotIn(plan.state.devices.allocations, DevicesOf(text));
  });
}

void AddKept(const admission::Node& node, const admission::NodeState& state, MovePlan& plan) {
  for (const ContainerKey& key : reconcile::AssignedContainers(state)) {
    plan.kept.push_back(KeptText(node, state, key));
  }
}

Result<Done> AddChange(const fs::path& path, std::optional<std::string> after, MovePlan& plan) {
  Result<FileChange> change = ChangeTo(path, std::move(after));
  if (!change.ok()) return change.error();
  if (change->before != change->after) plan.files.push_back(*std::move(change));
  return Done{};
}

fs::path BackupDirectory(const fs::path& state_dir, const char* what) {
  std::string time = host::UtcTime(std::chrono::system_clock::now());
  std::erase_if(time, [](char c) { return c == '-' || c == ':'; });
  const std::string name = std::string("before-") + what + "-" + time;
  fs::path directory = state_dir / name;
  std::error_code code;
  for (int i = 2; fs::exists(fs::symlink_status(directory, code)); ++i) {
    directory = state_dir / (name + "-" + std::to_string(i));
  }
  return directory;
}

Result<Done> CarryOut(const AligndSide& alignd, const MovePlan& plan, const fs::path& backup,
                      host::FileCalls& calls) {
  if (plan.files.empty()) return Done{};
  return SwitchFiles(alignd.options.state_dir, backup, alignd.config_text, plan.files, calls);
}

}  // namespace alignd::moving
