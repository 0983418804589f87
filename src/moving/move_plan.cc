#include "moving/move_plan.h"

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "alignd/admission/assignment.h"
#include "daemon/managed_node.h"
#include "host/file.h"
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

}  // namespace

Result<AligndSide> AligndSide::Make(const daemon::Options& options) {
  Result<admission::Node> node = daemon::MakeNode(options);
  if (!node.ok()) return node.error();
  std::string text = "{}";
  if (!options.config.empty()) {
    Result<std::string> read = host::ReadFile(options.config);
    if (!read.ok()) return read.error();
    text = *std::move(read);
  }
  return AligndSide{options, *std::move(node), std::move(text)};
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
