// A StartCheck for people and for programs.
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "alignd/base/counted.h"
#include "alignd/memorymanager/static_policy.h"
#include "daemon/start_check.h"
#include "daemon/start_line.h"

namespace alignd::daemon {
namespace {

using CheckJson = nlohmann::ordered_json;

// What is assigned of one NUMA node.
struct NodeShare {
  int id = 0;
  CpuSet cpus;
  CpuSet reserved;
  uint64_t memory_bytes = 0;
  std::map<std::string, uint64_t> allocatable;  // by memory type; empty: memory is not assigned
};

std::vector<NodeShare> SharesOf(const admission::Node& node) {
  std::vector<NodeShare> shares;
  memorymanager::MemoryState memory;
  if (node.memory) memory = memorymanager::InitialState(node.machine, *node.memory);
  for (size_t i = 0; i < node.machine.numa().size(); ++i) {
    const NumaNode& numa = node.machine.numa()[i];
    NodeShare& share = shares.emplace_back();
    share.id = numa.id;
    share.cpus = node.machine.CpusInNuma(static_cast<int>(i));
    if (node.cpu) share.reserved = node.cpu->reserved & share.cpus;
    share.memory_bytes = numa.memory_bytes;
    if (!node.memory) continue;
    for (const auto& [type, table] : memory.machine.at(numa.id).tables) {
      share.allocatable[type] = table.allocatable;
    }
  }
  return shares;
}

std::string MebibytesText(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string ListOrNone(const CpuSet& cpus) { return cpus.empty() ? "none" : cpus.ToString(); }

void PrintNode(const admission::Node& node, std::ostream& out) {
  const KubeletConfig& config = node.config;
  out << "CPU manager:      "
      << DescribePolicy(ToString(config.cpu_manager_policy), config.cpu_manager_policy_options)
      << '\n'
      << "memory manager:   " << ToString(config.memory_manager_policy) << '\n'
      << "topology manager: "
      << DescribePolicy(ToString(config.topology_manager_policy),
                        config.topology_manager_policy_options)
      << ", scope " << ToString(config.topology_manager_scope) << ", as kubelet "
      << ToString(config.compatibility) << '\n';
  for (const NodeShare& share : SharesOf(node)) {
    out << "NUMA node " << share.id << ": CPUs " << ListOrNone(share.cpus) << ", reserved "
        << (node.cpu ? ListOrNone(share.reserved) : "none (CPUs are not assigned)") << "; memory "
        << MebibytesText(share.memory_bytes);
    if (share.allocatable.empty()) out << " (not assigned)";
    const char* between = ", allocatable ";
    for (const auto& [type, bytes] : share.allocatable) {
      out << between << type << ' ' << MebibytesText(bytes);
      between = ", ";
    }
    out << '\n';
  }
}

void PrintSettings(const StartCheck& check, bool wide, std::ostream& out) {
  out << "configuration:    "
      << (check.config.empty() ? "none (the kubelet's defaults)" : check.config.string()) << '\n';
  for (const control::v1::Setting& setting : check.settings) {
    if (!wide && setting.source() == "default") continue;
    out << "  " << setting.name() << " = " << (setting.value().empty() ? "-" : setting.value())
        << " (" << setting.source() << ")\n";
  }
}

void PrintSaved(const StartCheck& check, std::ostream& out) {
  out << "saved state:      ";
  switch (check.saved) {
    case SavedStateCheck::kNotChecked:
      out << "not checked\n";
      break;
    case SavedStateCheck::kUnusable:
      out << check.state_dir.string() << ": cannot be carried over\n";
      break;
    case SavedStateCheck::kUsable:
      out << check.state_dir.string() << ": a start carries over " << DescribeRestored(*check.state)
          << '\n';
      break;
  }
  if (!check.state_owner.empty()) {
    out << "                  alignd (process " << check.state_owner
        << ") runs with this directory; another one starts after its end only\n";
  }
}

void PrintProblems(const char* kind, const std::vector<StartProblem>& problems, std::ostream& out) {
  for (const StartProblem& problem : problems) {
    const Error error = problem.AsError();
    out << kind << ": " << error.message << '\n';
    if (!error.remedy.empty()) out << "  what to do: " << error.remedy << '\n';
  }
}

CheckJson ProblemsJson(const std::vector<StartProblem>& problems) {
  CheckJson list = CheckJson::array();
  for (const StartProblem& problem : problems) {
    list.push_back({{"file", problem.file.string()},
                    {"field", problem.field},
                    {"value", problem.value},
                    {"message", problem.error.message},
                    {"remedy", problem.error.remedy}});
  }
  return list;
}

CheckJson NodeJson(const admission::Node& node) {
  const KubeletConfig& config = node.config;
  CheckJson shares = CheckJson::array();
  for (const NodeShare& share : SharesOf(node)) {
    CheckJson json = {{"id", share.id},
                      {"cpus", share.cpus.ToString()},
                      {"reserved_cpus", share.reserved.ToString()},
                      {"memory_bytes", share.memory_bytes},
                      {"allocatable", CheckJson::object()}};
    for (const auto& [type, bytes] : share.allocatable) json["allocatable"][type] = bytes;
    shares.push_back(std::move(json));
  }
  return {{"cpu_manager", ToString(config.cpu_manager_policy)},
          {"cpu_manager_options", config.cpu_manager_policy_options},
          {"memory_manager", ToString(config.memory_manager_policy)},
          {"topology_manager", ToString(config.topology_manager_policy)},
          {"topology_manager_options", config.topology_manager_policy_options},
          {"topology_scope", ToString(config.topology_manager_scope)},
          {"compatibility", ToString(config.compatibility)},
          {"numa_nodes", std::move(shares)}};
}

}  // namespace

void PrintStartCheck(const StartCheck& check, bool wide, std::ostream& out) {
  PrintSettings(check, wide, out);
  if (check.node) PrintNode(*check.node, out);
  for (const StartPath& socket : check.sockets) {
    out << "socket:           " << socket.path << " (" << socket.flag << ")\n";
  }
  PrintSaved(check, out);
  PrintProblems("warning", check.warnings, out);
  PrintProblems("problem", check.problems, out);
  if (!check.problems.empty()) {
    out << "alignd would not start: " << Counted(check.problems.size(), "problem") << '\n';
  } else if (!check.warnings.empty()) {
    out << "alignd would start, with " << Counted(check.warnings.size(), "warning") << '\n';
  } else {
    out << "alignd would start\n";
  }
}

std::string StartCheckJson(const StartCheck& check) {
  CheckJson settings = CheckJson::array();
  for (const control::v1::Setting& setting : check.settings) {
    settings.push_back({{"name", setting.name()},
                        {"value", setting.value()},
                        {"source", setting.source()},
                        {"kind", setting.kind()}});
  }
  CheckJson sockets = CheckJson::array();
  for (const StartPath& socket : check.sockets) {
    sockets.push_back({{"flag", socket.flag}, {"endpoint", socket.path}});
  }
  CheckJson saved = {{"state_dir", check.state_dir.string()}};
  saved["usable"] = check.saved == SavedStateCheck::kNotChecked
                        ? CheckJson(nullptr)
                        : CheckJson(check.saved == SavedStateCheck::kUsable);
  saved["content"] = check.state ? DescribeRestored(*check.state) : "";
  saved["owner_pid"] = check.state_owner;
  const CheckJson json = {{"config", check.config.string()},
                          {"would_start", check.problems.empty()},
                          {"node", check.node ? NodeJson(*check.node) : CheckJson(nullptr)},
                          {"sockets", std::move(sockets)},
                          {"saved_state", std::move(saved)},
                          {"warnings", ProblemsJson(check.warnings)},
                          {"problems", ProblemsJson(check.problems)},
                          {"settings", std::move(settings)}};
  return json.dump(-1, ' ', false, CheckJson::error_handler_t::replace);
}

}  // namespace alignd::daemon
