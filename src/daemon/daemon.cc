#include "daemon/daemon.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "alignd/config/feature_gates.h"
#include "alignd/cpumanager/static_policy.h"
#include "cgroup/cgroup_tree.h"
#include "daemon/known_cpus.h"
#include "daemon/parts.h"
#include "daemon/request_sources.h"
#include "daemon/saved_state.h"
#include "daemon/servers.h"
#include "daemon/start_line.h"
#include "daemon/start_problem.h"
#include "daemon/start_warnings.h"
#include "host/durable_file.h"
#include "host/event_loop.h"
#include "host/log_event.h"

namespace alignd::daemon {
namespace {

class RunningDaemon final : public Daemon {
 public:
  RunningDaemon(host::DirectoryLock lock, PartsInput input, const Options& options,
                StartConfig config)
      : lock_(std::move(lock)),
        config_(std::move(config)),
        parts_(std::move(input), options),
        servers_(parts_) {}

  Result<Done> Serve(const Options& options, control::ConfigChanger* changer, Handover handover) {
    parts_.Start();
    return servers_.Start(options, changer, std::move(handover));
  }

  std::set<std::string> KnownPods() override { return parts_.allocation.KnownPods(); }
  const admission::Node& node() const override { return parts_.node; }
  admission::NodeState State() const override { return parts_.allocation.snapshot()->state; }
  control::PodNames PodNames() const override { return parts_.registry.PodNames(); }
  bool HasAdopted() const override { return parts_.reconciler.Recovered(); }
  void WhenAdopted(std::function<void()> done) override {
    parts_.reconciler.WhenListed([done = std::move(done)](bool recovered) {
      if (recovered) done();
    });
  }
  void CheckConfigFile() override { parts_.CheckConfigFile(); }
  const StartConfig& StartedWith() const override { return config_; }

  std::future<Result<Done>> Move(const std::vector<admission::CpuMove>& moves) override {
    const auto outcome = std::make_shared<std::promise<Result<Done>>>();
    parts_.mover.Move(moves, [outcome](const Result<Done>& moved) { outcome->set_value(moved); });
    return outcome->get_future();
  }
  std::future<Result<Done>> MoveBack(const std::vector<admission::CpuMove>& moves) override {
    const auto outcome = std::make_shared<std::promise<Result<Done>>>();
    parts_.mover.MoveBack(moves,
                          [outcome](const Result<Done>& moved) { outcome->set_value(moved); });
    return outcome->get_future();
  }

  Handover Leave() override {
    Handover handover = servers_.Leave();
    handover.lock = std::move(lock_);
    const auto waiting = parts_.allocation.WaitingPods();
    if (waiting) handover.waiting = *waiting;
    handover.cdi_names = parts_.cdi_names.known();
    handover.lifted_quotas = parts_.reconciler.StopGuardingPods();
    return handover;
  }

  std::map<std::string, Watchdog::Post> WatchedThreads() override {
    return parts_.WatchedThreads();
  }

 private:
  std::optional<host::DirectoryLock> lock_;
  const StartConfig config_;
  Parts parts_;
  Servers servers_;  // stop first
};

// The state files say nothing of CPUs that are offline. `unsaved`: why known_cpus could not be
// written, which can wait.
Result<Done> ApplyOfflineCpus(const Options& options, const admission::Node& node,
                              cpumanager::CpuState& state, std::optional<Error>& unsaved) {
  if (!node.cpu || !options.node.empty()) return Done{};
  const Result<CpuSet> offline = OfflineCpusOf(node.machine, options.root);
  if (!offline.ok()) return offline.error();
  cpumanager::SetOffline(*offline, state);
  const Result<Done> saved = SaveKnownCpus(node.machine, options.root, options.state_dir);
  if (!saved.ok()) unsaved = saved.error();
  return Done{};
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const Options& options,
                                              control::ConfigChanger* changer, Handover handover) {
  const admission::Node& node = *handover.node;
  const Result<Done> taken = TakeStateDirectory(options, handover);
  if (!taken.ok()) return taken.error();
  Result<std::shared_ptr<service::Client>> runtime =
      service::Client::Dial(options.runtime_endpoint);
  if (!runtime.ok()) return runtime.error();
  auto cgroups = std::make_unique<cgroup::CgroupTree>(options.cgroup_root);
  Result<std::unique_ptr<podsource::ResourceSource>> sources =
      MakeSources(options, *cgroups, node.config);
  if (!sources.ok()) return sources.error();
  std::vector<StartProblem> problems;
  allocation::StateFindings findings;
  std::optional<SavedState> saved = LoadState(options, node, problems, findings);
  LogSetAside(findings);
  if (!saved) return problems.front().AsError();
  std::optional<Error> known_cpus_failure;
  const Result<Done> known = ApplyOfflineCpus(options, node, saved->state.cpu, known_cpus_failure);
  if (!known.ok()) return known.error();
  Result<std::shared_ptr<host::EventLoop>> events = host::EventLoop::Make();
  if (!events.ok()) return events.error();
  Result<std::shared_ptr<host::EventLoop>> services = host::EventLoop::Make("services");
  if (!services.ok()) return services.error();
  host::LogEvent(host::kLogStarting, spdlog::level::info, {},
                 StartLine(options, node, saved->state));
  LogWarnings(FindPolicyWarnings(options, node));
  LogWarnings(FindDirectoryWarnings(options));
  auto daemon = std::make_unique<RunningDaemon>(
      *std::move(handover.lock),
      PartsInput{.node = node,
                 .saved = *std::move(saved),
                 .findings = std::move(findings),
                 .waiting = std::move(handover.waiting),
                 .cdi_names = std::move(handover.cdi_names),
                 .lifted_quotas = std::move(handover.lifted_quotas),
                 .cgroups = std::move(cgroups),
                 .sources = *std::move(sources),
                 .events = *std::move(events),
                 .services = *std::move(services),
                 .runtime = *std::move(runtime),
                 .known_cpus_failure = std::move(known_cpus_failure)},
      options, std::move(handover.config));
  const Result<Done> serving = daemon->Serve(options, changer, std::move(handover));
  if (!serving.ok()) return serving.error();
  return std::unique_ptr<Daemon>(std::move(daemon));
}

}  // namespace alignd::daemon
