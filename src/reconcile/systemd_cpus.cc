#include "reconcile/systemd_cpus.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

namespace alignd::reconcile {

void SystemdCpus::Found(const Subject& container, const std::string& path, const CpuSet& cpus) {
  if (recorded_.contains(container.container_id)) return;
  std::optional<std::string> unit = cgroups_.SystemdUnit(path);
  if (unit) pending_[container.container_id] = {container, *std::move(unit), cpus};
}

void SystemdCpus::Correct() {
  const std::map<std::string, Pending> wanted = std::exchange(pending_, {});
  if (wanted.empty()) return;
  std::vector<std::string> units;
  for (const auto& [id, pending] : wanted) units.push_back(pending.unit);
  const auto found = cgroups_.systemd().ReadAllowedCpus(units);
  std::vector<cgroup::SystemdUnits::UnitCpus> changes;
  std::vector<std::string> changed;  // ids
  size_t i = 0;
  for (const auto& [id, pending] : wanted) {
    const Result<std::optional<CpuSet>>& has = found[i++];
    if (!Note(has)) continue;
    recorded_.insert(id);
    // An update that has begun meanwhile writes other CPUs.
    if (!*has || **has == pending.cpus || registry_.AppliedTo(id) != pending.cpus) continue;
    spdlog::log(std::exchange(has_corrected_, true) ? spdlog::level::debug : spdlog::level::info,
                "{} has CPUs {}, but systemd would give it {} at a daemon-reload: corrected, "
                "now and in further cases (some runtimes give it wrong CPUs: runc 1.1.5 from CPU 8 "
                "on)",
                NameOf(pending.container), pending.cpus.ToString(),
                (*has)->empty() ? "all" : (*has)->ToString());
    changes.push_back({pending.unit, pending.cpus});
    changed.push_back(id);
  }
  if (changes.empty()) return;
  const std::vector<Result<Done>> set = cgroups_.systemd().SetAllowedCpus(changes);
  for (i = 0; i < set.size(); ++i) {
    if (!Note(set[i])) recorded_.erase(changed[i]);
  }
}

template <typename Value>
bool SystemdCpus::Note(const Result<Value>& result) {
  const bool is_news = !result.ok() && !fails_;
  fails_ = !result.ok();
  if (is_news) {
    spdlog::warn("a daemon-reload may move containers, until alignd moves them back: {}",
                 result.error().Text());
  }
  return result.ok();
}

}  // namespace alignd::reconcile
