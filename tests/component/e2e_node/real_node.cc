#include "real_node.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "edge/alignd_command.h"
#include "host/sysfs_machine.h"
#include "simulator/grpc_socket.h"

namespace alignd::node_suites {
namespace {

namespace fs = std::filesystem;
namespace v1 = runtime::v1;
using testing::ReadText;

constexpr char kCgroups[] = "/sys/fs/cgroup";

fs::path PathOf(const std::string& cgroup) { return kCgroups + cgroup; }
fs::path PathOf(const ContainerPlace& place) { return PathOf(place.pod_cgroup) / place.id; }

std::string LineOf(const fs::path& file) {
  const std::string text = ReadText(file);
  return text.substr(0, text.find('\n'));
}

void Write(const fs::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  if (!out) throw std::runtime_error(file.string() + " does not take " + text);
}

std::vector<pid_t> ProcessesOf(const ContainerPlace& place) {
  std::istringstream text(ReadText(PathOf(place) / "cgroup.procs"));
  std::vector<pid_t> pids;
  for (pid_t pid = 0; text >> pid;) pids.push_back(pid);
  std::ranges::sort(pids);
  return pids;
}

// The list behind a key of /proc/PID/status; empty if the process has ended.
std::string StatusOf(pid_t pid, const std::string& key) {
  std::istringstream text(ReadText("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  }
  return "";
}

// Whether the process is the container's shell, no longer the runtime's, and handles the signal.
bool Handles(pid_t pid, int signal) {
  constexpr int kHexadecimal = 16;
  if (LineOf("/proc/" + std::to_string(pid) + "/comm") != "sh") return false;
  const std::string caught = StatusOf(pid, "SigCgt");
  return !caught.empty() && (std::stoull(caught, nullptr, kHexadecimal) >> (signal - 1) & 1) != 0;
}

fs::path PagesOf(int node, uint64_t size) {
  constexpr uint64_t kKi = 1024;
  return "/sys/devices/system/node/node" + std::to_string(node) + "/hugepages/hugepages-" +
         std::to_string(size / kKi) + "kB/nr_hugepages";
}

// Sets the pages of each size that the kernel knows: 0 if the tables have none.
std::string SetHugePages(const Machine& machine, const Machine& found) {
  for (size_t i = 0; i < machine.numa().size(); ++i) {
    for (const auto& [size, pages] : found.numa()[i].hugepages) {
      const auto wanted = machine.numa()[i].hugepages.find(size);
      const std::string count =
          std::to_string(wanted == machine.numa()[i].hugepages.end() ? 0 : wanted->second);
      const fs::path file = PagesOf(machine.numa()[i].id, size);
      Write(file, count);
      if (LineOf(file) != count) return file.string() + " is " + LineOf(file) + ", not " + count;
    }
  }
  return "";
}

// The CPUs of each group, whatever its id.
std::set<std::string> Groups(const std::vector<CpuGroup>& groups) {
  std::set<std::string> cpus;
  for (const CpuGroup& group : groups) cpus.insert(group.cpus.ToString());
  return cpus;
}

std::string Text(const std::set<std::string>& groups) {
  std::string text;
  for (const std::string& group : groups) text += " " + group;
  return text;
}

}  // namespace

std::string DiffersFrom(const Machine& wanted, const Machine& found) {
  const auto differ = [](const char* what, const std::vector<CpuGroup>& want,
                         const std::vector<CpuGroup>& have) {
    return Groups(want) == Groups(have)
               ? ""
               : std::string(what) + " are" + Text(Groups(have)) + ", not" + Text(Groups(want));
  };
  for (const std::string& fault :
       {differ("the sockets", wanted.sockets(), found.sockets()),
        differ("the NUMA nodes", wanted.numa_groups(), found.numa_groups()),
        differ("the caches", wanted.uncores(), found.uncores()),
        differ("the cores", wanted.cores(), found.cores())}) {
    if (!fault.empty()) return fault;
  }
  for (size_t i = 0; i < wanted.numa().size(); ++i) {
    const std::string node = "NUMA node " + std::to_string(i);
    const NumaNode& want = wanted.numa()[i];
    const NumaNode& have = found.numa()[i];
    if (have.distances != want.distances) return node + " has other distances";
    if (have.memory_bytes > want.memory_bytes / 10 * 11 ||
        have.memory_bytes < want.memory_bytes / 10 * 9) {
      return node + " has " + std::to_string(have.memory_bytes) + " bytes of memory";
    }
  }
  return "";
}

RealNode::RealNode(const RealNodeSettings& settings, fs::path directory)
    : settings_(settings),
      log_(std::move(directory) / "alignd.log"),
      runtime_(std::make_unique<simulator::Kubelet>(*simulator::Dial(settings.runtime_endpoint),
                                                    simulator::KubeletSettings(), CallDeadline())) {
}

RealNode::~RealNode() {
  alignd_.reset();
  if (::testing::Test::HasFailure()) std::cout << "--- alignd\n" << ReadText(log_) << "---\n";
  EXPECT_EQ(RemovePods(), "");
}

std::string RealNode::RemovePods() {
  const auto pods = runtime_->List();
  if (!pods.ok()) return pods.error().Text();
  for (const simulator::ListedPod& pod : *pods) {
    const auto removed = runtime_->Remove(pod, std::chrono::seconds(0));
    if (!removed.ok()) return removed.error().Text();
  }
  for (const char* const qos : {"/kubepods/burstable", "/kubepods/besteffort", "/kubepods"}) {
    std::error_code absent;
    std::vector<std::string> cgroups;
    for (const auto& entry : fs::directory_iterator(PathOf(qos), absent)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("pod")) cgroups.push_back(std::string(qos) + "/" + name);
    }
    for (const std::string& cgroup : cgroups) RemovePodCgroup(cgroup);
  }
  return "";
}

std::string RealNode::Start(const Machine& machine) {
  const auto found = host::ReadMachine("/");
  if (!found.ok()) return found.error().Text();
  if (const std::string fault = DiffersFrom(machine, *found); !fault.empty()) return fault;
  all_memory_nodes_ = LineOf(fs::path(kCgroups) / "cpuset.mems.effective");
  for (const char* const parent : {"", "/kubepods"}) {
    fs::create_directories(PathOf(parent));
    Write(PathOf(parent) / "cgroup.subtree_control", "+cpu +cpuset +memory +hugetlb +pids");
  }
  if (const std::string fault = RemovePods(); !fault.empty()) return fault;
  return SetHugePages(machine, *found);
}

void RealNode::Complete(daemon::Options& options) const {
  options.runtime_endpoint = settings_.runtime_endpoint;
  options.cgroup_root = kCgroups;
  options.root = "/";
  if (options.runtime_timeout == daemon::Options().runtime_timeout) {
    options.runtime_timeout = CallDeadline();
  }
}

std::string RealNode::StartDaemon(const daemon::Options& options) {
  alignd_ =
      std::make_unique<testing::Process>(testing::AligndCommand(settings_.alignd, options), log_);
  const auto is_decided = [this] {
    return alignd_->HasEnded() || alignd_->Log().find("ready:") != std::string::npos;
  };
  const bool decided = testing::WaitUntil(is_decided, CallDeadline());
  return decided && !alignd_->HasEnded() ? "" : "alignd does not start: " + alignd_->Log();
}

void RealNode::StopDaemon() {
  if (!alignd_) return;
  alignd_->Kill(SIGTERM);
  alignd_.reset();
}

void RealNode::MakePodCgroup(const std::string& cgroup, const std::string& quota) {
  const fs::path path = PathOf(cgroup);
  fs::create_directories(path);
  if (path.parent_path().filename() != "kubepods") {
    Write(path.parent_path() / "cgroup.subtree_control", "+cpu +cpuset +memory +hugetlb +pids");
  }
  Write(path / "cpu.max", quota);
}

// The cgroups of containers and of the sandbox end with their processes.
void RealNode::RemovePodCgroup(const std::string& cgroup) {
  const fs::path path = PathOf(cgroup);
  const auto is_gone = [&path] {
    std::error_code absent;
    std::vector<fs::path> below;
    for (const auto& entry : fs::directory_iterator(path, absent)) {
      if (entry.is_directory(absent)) below.push_back(entry.path());
    }
    for (const fs::path& child : below) rmdir(child.c_str());
    return rmdir(path.c_str()) == 0 || errno == ENOENT;
  };
  if (!testing::WaitUntil(is_gone, Patience())) {
    throw std::runtime_error(path.string() + " has processes");
  }
}

std::string RealNode::QuotaOf(const std::string& cgroup) const {
  return LineOf(PathOf(cgroup) / "cpu.max");
}

std::optional<ContainerFacts> RealNode::Find(const ContainerPlace& place) const {
  const auto status = runtime_->Status(place.id);
  if (!status.ok() && status.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!status.ok()) throw std::runtime_error(status.error().Text());
  ContainerFacts& facts = last_[place.id];
  facts.runs = status->state() == v1::CONTAINER_RUNNING;
  if (!facts.runs) return facts;
  facts = Read(place);
  facts.owns_its_cpus = status->resources().linux().cpu_quota() < 0;
  return facts;
}

ContainerFacts RealNode::Read(const ContainerPlace& place) const {
  ContainerFacts facts;
  facts.runs = true;
  const fs::path cgroup = PathOf(place);
  const std::string cpus = LineOf(cgroup / "cpuset.cpus.effective");
  const std::string memory_nodes = LineOf(cgroup / "cpuset.mems.effective");
  const Result<CpuSet> parsed = CpuSet::Parse(cpus);
  if (!parsed.ok() || parsed->empty()) {
    throw std::runtime_error(cgroup.string() + " has the CPUs \"" + cpus + "\"");
  }
  const std::vector<pid_t> pids = ProcessesOf(place);
  if (pids.empty()) throw std::runtime_error("no process in " + cgroup.string());
  for (const pid_t pid : pids) {
    const std::string allowed = StatusOf(pid, "Cpus_allowed_list");
    const std::string nodes = StatusOf(pid, "Mems_allowed_list");
    if (allowed.empty()) continue;  // it has just ended
    if (allowed != cpus || nodes != memory_nodes) {
      throw std::runtime_error("process " + std::to_string(pid) + " may use CPUs " + allowed +
                               " and nodes " + nodes + ", its cgroup " + cpus + " and " +
                               memory_nodes);
    }
  }
  facts.cpus = *parsed;
  facts.memory_nodes = memory_nodes == all_memory_nodes_ ? "" : memory_nodes;
  facts.quota = LineOf(cgroup / "cpu.max");
  for (const char* const size : {"2MB", "1GB"}) {
    const std::string limit = LineOf(cgroup / ("hugetlb." + std::string(size) + ".max"));
    if (!limit.empty() && limit != "max") facts.hugepages[size] = std::stoull(limit);
  }
  return facts;
}

// The container's shell exits with 0 at SIGTERM, and with 1 at SIGUSR1 (node_fixture.cc). As the
// first process of its namespace, it ignores a signal that it does not handle yet.
std::string RealNode::EndContainer(const ContainerPlace& place, int exit_code) {
  const auto facts = Find(place);
  if (!facts || !facts->runs) return "the container does not run";
  const int signal = exit_code == 0 ? SIGTERM : SIGUSR1;
  const pid_t shell = ProcessesOf(place).at(0);
  if (!testing::WaitUntil([&] { return Handles(shell, signal); }, CallDeadline())) {
    return "process " + std::to_string(shell) + " does not handle signals";
  }
  kill(shell, signal);
  Result<v1::ContainerStatus> status = runtime_->Status(place.id);
  const auto has_ended = [&] {
    status = runtime_->Status(place.id);
    return status.ok() && status->state() == v1::CONTAINER_EXITED;
  };
  if (!testing::WaitUntil(has_ended, CallDeadline())) return "the container does not end";
  return status->exit_code() == exit_code
             ? ""
             : "the container ended with " + std::to_string(status->exit_code());
}

void RealNode::Reboot() { throw std::runtime_error("this machine does not reboot in a case"); }

simulator::EmbeddedRuntime& RealNode::Simulated() {
  throw std::runtime_error("only with the simulated runtime");
}

}  // namespace alignd::node_suites
