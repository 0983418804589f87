#include "reconcile/online_cpus.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "host/sysfs_machine.h"

namespace alignd::reconcile {

OnlineCpus::OnlineCpus(TaskQueue& io, const admission::Node& node,
                       allocation::AllocationManager& allocation, const ContainerRegistry& registry,
                       Conditions& conditions, Options options)
    : node_(node),
      allocation_(allocation),
      registry_(registry),
      conditions_(conditions),
      options_(std::move(options)),
      task_(io, [this] { return Run(); }) {}

void OnlineCpus::Start() {
  if (!node_.cpu || !options_.root) return;
  offline_ = allocation_.snapshot()->state.cpu.offline;
  has_offline_ = !offline_.empty();
  task_.RunSoon();
}

void OnlineCpus::Look() {
  if (!node_.cpu || !options_.root) return;
  look_ = true;
  task_.RunSoon();
}

OnlineCpus::Clock::time_point OnlineCpus::Run() {
  if (look_.exchange(false) || Clock::now() >= next_read_) {
    Read();
    next_read_ = Clock::now() + options_.period;
  }
  Report();
  return next_read_;
}

void OnlineCpus::Read() {
  const Result<std::optional<CpuSet>> online = host::ReadOnlineCpus(*options_.root);
  const std::string problem = online.ok() ? "" : online.error().Text();
  if (problem != std::exchange(problem_, problem) && !problem.empty()) {
    spdlog::warn("which CPUs are online is not known, and counts as unchanged: {}", problem);
  }
  if (!online.ok() || !*online) return;
  const CpuSet& all = node_.machine.cpus();
  if (CpuSet unknown = **online - all; unknown != unknown_) {
    unknown_ = std::move(unknown);
    if (!unknown_.empty()) {
      spdlog::warn(
          "CPUs {} have come online since alignd started: no container gets them until alignd is "
          "restarted",
          unknown_.ToString());
    }
  }
  CpuSet offline = all - **online;
  if (offline == offline_) return;
  offline_ = std::move(offline);
  if (!offline_.empty()) has_offline_ = true;
  allocation_.SetOffline(offline_);
}

void OnlineCpus::Report() {
  const auto snapshot = allocation_.snapshot();
  const cpumanager::CpuState& cpu = snapshot->state.cpu;
  std::vector<OfflineCpus> affected;
  if (!cpu.offline.empty()) {
    affected.push_back({.subject = {}, .assigned = {}, .offline = cpu.offline});
    for (const auto& [uid, containers] : cpu.assignments) {
      for (const auto& [name, cpus] : containers) {
        if (!cpus.Intersects(cpu.offline)) continue;
        affected.push_back({.subject = {"", {uid, name}, registry_.PodName(uid)},
                            .assigned = cpus,
                            .offline = cpus & cpu.offline});
      }
    }
  }
  if (affected == reported_) return;
  reported_ = std::move(affected);
  conditions_.FoundOffline(reported_);
  // SetOffline may not have been published yet.
  if (reported_.empty() && offline_.empty()) has_offline_ = false;
}

}  // namespace alignd::reconcile
