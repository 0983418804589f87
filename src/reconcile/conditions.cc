#include "reconcile/conditions.h"

#include <algorithm>

#include "reconcile/condition_log.h"

namespace alignd::reconcile {
namespace {

using std::chrono::system_clock;

constexpr std::chrono::hours kLogAgain{1};

}  // namespace

std::string NameOf(const Subject& subject) {
  const std::string pod = subject.pod.empty() ? subject.key.pod_uid : subject.pod;
  if (!subject.key.container.empty()) {
    return "container " + subject.key.container + " of pod " + pod;
  }
  return pod.empty() ? "" : "pod " + pod;
}

void Conditions::Raise(const std::string& key, Entry entry) {
  const Condition::Time now = system_clock::now();
  Condition& fresh = entry.condition;
  if (fresh.first == Time{}) fresh.first = now;
  if (fresh.last == Time{}) fresh.last = now;
  if (entry.logged_as.empty()) entry.logged_as = fresh.message;
  bool log = true;
  {
    const MutexLock lock(mutex_);
    const auto [known, is_new] = entries_.try_emplace({fresh.type, key});
    if (!is_new) {
      const Entry& before = known->second;
      fresh.first = before.condition.first;
      fresh.times = before.condition.times;
      log = fresh.type == ConditionType::kCpusetRepaired || before.logged_as != entry.logged_as ||
            now - before.logged >= kLogAgain;
      entry.logged = before.logged;
    }
    ++fresh.times;
    if (log) entry.logged = now;
    known->second = entry;
    DropSurplus(fresh.type);
  }
  if (log) LogActive(fresh);
}

void Conditions::Clear(ConditionType type, const std::string& key) {
  Entries::node_type entry;
  {
    const MutexLock lock(mutex_);
    entry = entries_.extract({type, key});
  }
  if (entry) LogResolved(entry.mapped().condition);
}

void Conditions::ClearOthers(ConditionType type, const std::set<std::string>& keys) {
  std::vector<std::string> cleared;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (key.first == type && !keys.contains(key.second)) cleared.push_back(key.second);
    }
  }
  for (const std::string& key : cleared) Clear(type, key);
}

void Conditions::DropSurplus(ConditionType type) {
  if (type != ConditionType::kCpusetRepaired && type != ConditionType::kConflictingCpuManager) {
    return;
  }
  size_t count = 0;
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->first.first != type) continue;
    ++count;
    if (oldest == entries_.end() || entry->second.condition.last < oldest->second.condition.last) {
      oldest = entry;
    }
  }
  if (count > kMaxKept) entries_.erase(oldest);
}

void Conditions::Repaired(const Repair& repair) {
  ++repairs_;
  Raise(repair.container.container_id,
        {.condition = {
             .type = ConditionType::kCpusetRepaired,
             .subject = repair.container,
             .first = repair.time,
             .last = repair.time,
             .message = "another program changed it to " + repair.was + "; restored to " +
                        repair.should + " within " + std::to_string(repair.noticed.count()) +
                        " ms of noticing the change, at most " +
                        std::to_string(repair.lasted.count()) + " ms after the change",
             .remedy = "if it repeats, find the program that writes the cpuset (kubelet: set "
                       "cpuManagerPolicy: none; tuned, irqbalance and systemd: no CPU sets for "
                       "containers)"}});
}

void Conditions::BypassIsOn(Time since) {
  Raise("", {.condition = {.type = ConditionType::kBypass,
                           .first = since,
                           .message = "all calls are relayed as they come: new containers get no "
                                      "exclusive CPUs, memory nodes or devices",
                           .remedy = "run `alignctl bypass off`, then delete the pods that are "
                                     "reported as UnmanagedContainer"}});
}

void Conditions::KubeletMissing(size_t containers, const std::string& example) {
  const std::string others =
      containers == 1 ? "" : " and " + std::to_string(containers - 1) + " more";
  Raise("", {.condition = {.type = ConditionType::kKubeletNotAttached,
                           .message = "the kubelet does not use alignd: containers of pods are "
                                      "created (" +
                                      example + others +
                                      "), but no kubelet calls through alignd's socket",
                           .remedy = "run `alignctl kubelet status`, then `alignctl kubelet "
                                     "attach`, and restart the kubelet"},
             // Other containers are no news.
             .logged_as = "no kubelet"});
}

void Conditions::ConfigurationNotApplied(const Error& error) {
  const bool says_more = !error.remedy.empty() && !error.remedy.starts_with("correct the file");
  const std::string first = says_more ? error.remedy + "; " : "";
  Raise("",
        {.condition = {.type = ConditionType::kConfigurationNotApplied,
                       .message = "the configuration file could not be applied: " + error.message +
                                  "; the former configuration applies, and the next start "
                                  "uses the file",
                       .remedy = first + "correct the file and reload alignd, or write the former "
                                         "configuration back"}});
}

void Conditions::CrioNotSeen(const std::string& socket) {
  Raise("", {.condition = {.type = ConditionType::kStatsProviderChanged,
                           .message = "the runtime is CRI-O, but alignd's socket is " + socket +
                                      ": the kubelet reads the statistics of containers from CRI "
                                      "instead of cgroups",
                           .remedy = "let --listen end with run/crio/crio.sock, and attach the "
                                     "kubelet anew"}});
}

void Conditions::UnknownFeatureGates(const Error& warning) {
  Raise("", {.condition = {.type = ConditionType::kUnknownFeatureGate,
                           .message = warning.message,
                           .remedy = warning.remedy}});
}

void Conditions::SawConflictingManager(const std::string& key, const std::string& sign,
                                       const std::string& remedy, std::chrono::milliseconds lasts) {
  Raise(key, {.condition = {.type = ConditionType::kConflictingCpuManager,
                            .message = sign,
                            .remedy = remedy},
              .expires = system_clock::now() + lasts});
}

void Conditions::ConflictingManagerGone(const std::string& key) {
  Clear(ConditionType::kConflictingCpuManager, key);
}

void Conditions::PublisherCalled(const std::optional<Error>& failure, Time now) {
  {
    const MutexLock lock(mutex_);
    publisher_called_ = now;
  }
  if (!failure) return Clear(ConditionType::kTopologyNotPublished, "");
  Raise("",
        {.condition = {.type = ConditionType::kTopologyNotPublished,
                       .message = "the topology object in the cluster is not the present one: " +
                                  failure->message,
                       .remedy = failure->remedy}});
}

void Conditions::DropExpired(Time now) {
  std::vector<Key> expired;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (entry.expires && *entry.expires <= now) expired.push_back(key);
    }
  }
  for (const auto& [type, key] : expired) Clear(type, key);
}

void Conditions::LookForPublisher(Time now) {
  {
    const MutexLock lock(mutex_);
    if (!publisher_called_ || now - *publisher_called_ < kPublisherSilent) return;
  }
  Raise("", {.condition = {
                 .type = ConditionType::kTopologyNotPublished,
                 .message = "alignd-events, which publishes the topology object, does not call any "
                            "more: the object in the cluster is not updated",
                 .remedy = "see why it has ended (systemctl status alignd-events, or the container "
                           "events of the DaemonSet); if it is not to run, delete the "
                           "NodeResourceTopology of this node and restart alignd"}});
}

void Conditions::FoundUnmanaged(const std::vector<Subject>& containers) {
  std::set<std::string> keys;
  for (const Subject& container : containers) {
    keys.insert(container.container_id);
    Raise(container.container_id,
          {.condition = {
               .type = ConditionType::kUnmanagedContainer,
               .subject = container,
               .message = "created at the runtime directly or while the bypass was on, without a "
                          "decision of alignd: it runs in the shared pool and is assigned no "
                          "memory nodes or devices",
               .remedy = "let the program that creates containers use alignd's socket (kubelet: "
                         "`alignctl kubelet attach`), and turn the bypass off; then delete the "
                         "pod"}});
  }
  ClearOthers(ConditionType::kUnmanagedContainer, keys);
}

void Conditions::FoundOffline(const std::vector<OfflineCpus>& affected) {
  std::set<std::string> keys;
  for (const OfflineCpus& one : affected) {
    const ContainerKey& container = one.subject.key;
    const std::string key = container.pod_uid + "/" + container.container;
    keys.insert(key);
    const CpuSet online = one.assigned - one.offline;
    const std::string cpus = one.offline.ToString();
    const bool is_node = one.assigned.empty();
    const std::string message =
        is_node ? "CPUs " + cpus + " are offline: no container runs on them or is assigned them"
        : online.empty() ? "all of its CPUs, " + cpus + ", are offline: it runs in the shared pool"
                         : "CPUs " + cpus + " of its CPUs " + one.assigned.ToString() +
                               " are offline: it runs on CPUs " + online.ToString();
    const std::string set_online = "set them online (write 1 to /sys/devices/system/cpu/cpu" +
                                   std::to_string(one.offline.First()) + "/online" +
                                   (one.offline.Count() > 1 ? ", and so on)" : ")");
    Raise(key, {.condition = {.type = ConditionType::kCpuOffline,
                              .subject = one.subject,
                              .message = message,
                              .remedy = is_node ? set_online + ", if the node is to use them"
                                                : set_online +
                                                      ", or delete the pod: a new one is assigned "
                                                      "other CPUs"}});
  }
  ClearOthers(ConditionType::kCpuOffline, keys);
}

void Conditions::FoundOutside(const std::vector<OutsideProcess>& processes) {
  std::set<std::string> keys;
  for (const OutsideProcess& process : processes) {
    const std::string key = std::to_string(process.pid);
    keys.insert(key);
    Raise(key, {.condition = {
                    .type = ConditionType::kProcessOutsideCgroup,
                    .subject = process.container,
                    .message = "its process " + key + " (" + process.name + ") is in the cgroup " +
                               process.cgroup +
                               ", not in that of the container, and may run on the "
                               "exclusive CPUs " +
                               process.cpus.ToString() + " of " + process.holders,
                    .remedy = "end the process, or write its id to cgroup.procs of the container's "
                              "cgroup; find the program that moved it"}});
  }
  ClearOthers(ConditionType::kProcessOutsideCgroup, keys);
}

std::vector<Condition> Conditions::Report(Time now) const {
  Entries entries;
  {
    const MutexLock lock(mutex_);
    entries = entries_;
    AddUnanswered(now, entries);
  }
  std::vector<Condition> report;
  for (auto& [key, entry] : entries) report.push_back(std::move(entry.condition));
  const auto repairs = std::ranges::find(report, ConditionType::kCpusetRepaired, &Condition::type);
  std::ranges::stable_sort(repairs, report.end(), std::ranges::greater(), &Condition::last);
  return report;
}

}  // namespace alignd::reconcile
