#include "reconcile/process_scan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/pod_level.h"
#include "cgroup/cgroup_path.h"
#include "host/file.h"

namespace alignd::reconcile {
namespace {

// Of the processes that are reported.
constexpr size_t kMaxOutside = Conditions::kMaxKept;

std::optional<int> PidOf(const std::string& name) {
  int pid = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (code != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

// The CPUs that a process may use, from /proc/PID/status.
CpuSet AllowedCpusIn(const std::string& status) {
  constexpr std::string_view kKey = "\nCpus_allowed_list:";
  const size_t key = status.find(kKey);
  if (key == std::string::npos) return {};
  size_t begin = status.find_first_not_of(" \t", key + kKey.size());
  begin = std::min(begin, status.size());
  const Result<CpuSet> cpus = CpuSet::Parse(status.substr(begin, status.find('\n', begin) - begin));
  return cpus.ok() ? *cpus : CpuSet();
}

}  // namespace

ProcessScan::ProcessScan(TaskQueue& io, const admission::Node& node,
                         const allocation::AllocationManager& allocation,
                         const cgroup::CgroupTree& cgroups, Conditions& conditions,
                         std::function<std::vector<ContainerCgroup>()> containers, Options options)
    : node_(node),
      allocation_(allocation),
      cgroups_(cgroups),
      conditions_(conditions),
      containers_(std::move(containers)),
      options_(std::move(options)),
      task_(io, [this] { return Run(); }) {}

void ProcessScan::Start() {
  if (node_.cpu) task_.RunSoon();
}

ProcessScan::Clock::time_point ProcessScan::Run() {
  switch (phase_) {
    case Phase::kPause:
      if (Begin()) break;
      owned_.clear();
      conditions_.FoundOutside({});
      return Clock::now() + options_.period;
    case Phase::kReading:
      ReadSome();
      break;
    case Phase::kChecking:
      CheckSome();
      if (phase_ != Phase::kPause) break;
      return Clock::now() + (End() ? options_.confirm : options_.period);
  }
  return Clock::now();
}

bool ProcessScan::Begin() {
  if (allocation_.snapshot()->state.cpu.assignments.empty()) return false;
  const Result<std::vector<std::string>> names = host::ListDirectory(options_.proc);
  if (!names.ok()) {
    spdlog::debug("processes are not checked: {}", names.error().Text());
    return false;
  }
  containers_now_.clear();
  by_path_.clear();
  for (ContainerCgroup& container : containers_()) {
    containers_now_.push_back(std::make_shared<const ContainerCgroup>(std::move(container)));
    by_path_[containers_now_.back()->path] = containers_now_.back();
  }
  pids_.clear();
  processes_.clear();
  owners_.clear();
  found_.clear();
  outside_.clear();
  for (const std::string& name : *names) {
    const std::optional<int> pid = PidOf(name);
    if (pid && pids_.size() < options_.max_processes) pids_.push_back(*pid);
  }
  phase_ = Phase::kReading;
  return true;
}

void ProcessScan::ReadSome() {
  for (size_t i = 0; i < options_.at_once && !pids_.empty(); ++i) {
    const int pid = pids_.back();
    pids_.pop_back();
    Process process;
    if (ReadProcess(pid, process)) processes_[pid] = std::move(process);
  }
  if (pids_.empty()) FindOwners();
}

void ProcessScan::FindOwners() {
  // What an earlier scan saw goes first: a process may have been moved into another container.
  for (const auto& [pid, owned] : owned_) {
    const auto process = processes_.find(pid);
    if (process == processes_.end() || process->second.started != owned.started) continue;
    owners_[pid] = owned.owner;
  }
  // Not from cgroup.procs: a container can make any number of cgroups below its own.
  for (const auto& [pid, process] : processes_) {
    if (Owner container = ContainerAt(process.cgroup)) {
      owners_.try_emplace(pid, std::move(container));
    }
  }
  for (const auto& [pid, process] : processes_) {
    if (OwnerOf(pid)) pids_.push_back(pid);
  }
  phase_ = Phase::kChecking;
}

void ProcessScan::CheckSome() {
  for (size_t i = 0; i < options_.at_once && !pids_.empty(); ++i) {
    const int pid = pids_.back();
    pids_.pop_back();
    const Owner& owner = owners_.at(pid);
    OutsideProcess outside;
    const bool is_outside = IsOutside(pid, *owner, outside);
    found_[pid] = {processes_.at(pid).started, owner, is_outside};
    if (is_outside) outside_.push_back(std::move(outside));
  }
  if (pids_.empty()) phase_ = Phase::kPause;
}

bool ProcessScan::End() {
  std::erase_if(outside_, [this](const OutsideProcess& process) {
    const auto before = owned_.find(process.pid);
    return before == owned_.end() || !before->second.outside ||
           before->second.started != found_.at(process.pid).started;
  });
  const size_t confirmed = outside_.size();
  const auto now =
      std::ranges::count_if(found_, [](const auto& entry) { return entry.second.outside; });
  std::ranges::sort(outside_, {}, &OutsideProcess::pid);
  if (outside_.size() > kMaxOutside) outside_.resize(kMaxOutside);
  conditions_.FoundOutside(outside_);
  owned_ = std::move(found_);
  return static_cast<size_t>(now) > confirmed;
}

// Source: proc(5), /proc/pid/stat: "PID (NAME) STATE PPID ...", the number of threads is the 20th
// field, the start time the 22nd.
// The name may have any characters.
bool ProcessScan::ReadProcess(int pid, Process& process) const {
  const std::filesystem::path directory = options_.proc / std::to_string(pid);
  const Result<std::string> stat = host::ReadFile(directory / "stat");
  if (!stat.ok()) return false;
  const size_t open = stat->find('(');
  const size_t close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  process.name = stat->substr(open + 1, close - open - 1);
  std::istringstream rest(stat->substr(close + 1));
  std::string state;
  std::string skipped;
  int threads = 0;
  rest >> state >> process.parent;
  for (int field = 5; field < 20; ++field) rest >> skipped;
  rest >> threads >> skipped >> process.started;
  // The first thread may have ended before the others.
  if (!rest || (state == "Z" && threads <= 1)) return false;
  const Result<std::string> cgroups = host::ReadFile(directory / "cgroup");
  if (!cgroups.ok()) return false;
  process.cgroup = cgroup::CpusetPathOfProcess(*cgroups, cgroups_.is_version2()).value_or("");
  return true;
}

ProcessScan::Owner ProcessScan::ContainerAt(std::string_view path) const {
  while (!path.empty()) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return found->second;
    const size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) break;
    path = path.substr(0, slash);
  }
  return nullptr;
}

ProcessScan::Owner ProcessScan::OwnerOf(int pid) {
  // The way up to the first process whose owner is known; without recursion, for it can be long.
  std::vector<int> way;
  Owner owner;
  for (int at = pid;;) {
    const auto known = owners_.find(at);
    if (known != owners_.end()) {
      owner = known->second;
      break;
    }
    const auto process = processes_.find(at);
    if (process == processes_.end()) break;
    way.push_back(at);
    owners_[at] = nullptr;  // ends a circle, which pids that are used again can make
    at = process->second.parent;
  }
  for (const int at : way) owners_[at] = owner;
  return owner;
}

bool ProcessScan::IsOutside(int pid, const ContainerCgroup& owner, OutsideProcess& found) const {
  const std::string& path = processes_.at(pid).cgroup;
  if (path.empty() || path == owner.path || path.starts_with(owner.path + "/")) return false;
  const Result<std::string> status = host::ReadFile(options_.proc / std::to_string(pid) / "status");
  if (!status.ok()) return false;
  const CpuSet allowed = AllowedCpusIn(*status);
  const auto snapshot = allocation_.snapshot();
  std::set<std::string> holders;
  for (const Owner& container : containers_now_) {
    const ContainerKey& key = container->container.key;
    if (key == owner.container.key) continue;
    const bool same_pod = key.pod_uid == owner.container.key.pod_uid;
    // Containers of a pod share its CPUs.
    if (same_pod && admission::IsolationOf(snapshot->state, key) == admission::Isolation::kPod) {
      continue;
    }
    const CpuSet* const exclusive = snapshot->state.cpu.Find(key);
    if (exclusive == nullptr) continue;
    const CpuSet common = *exclusive & allowed;
    if (common.empty()) continue;
    found.cpus |= common;
    holders.insert(NameOf(container->container));
  }
  if (found.cpus.empty()) return false;
  found.pid = pid;
  found.name = processes_.at(pid).name;
  found.container = owner.container;
  found.cgroup = path;
  for (const std::string& holder : holders) {
    found.holders += (found.holders.empty() ? "" : ", ") + holder;
  }
  return true;
}

}  // namespace alignd::reconcile
