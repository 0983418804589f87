#include "daemon/parts.h"

#include <chrono>
#include <future>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "alignd/config/config_problem.h"
#include "cri/bypassed_call.h"
#include "cri/container_handlers.h"
#include "daemon/conflicting_managers.h"
#include "daemon/conflicting_plugins.h"
#include "daemon/facts.h"
#include "daemon/known_cpus.h"
#include "daemon/plugin_times.h"
#include "daemon/request_sources.h"
#include "reconcile/assigned_containers.h"

namespace alignd::daemon {
namespace {

std::set<std::string> ResourceNames(const admission::NodeState& state) {
  std::set<std::string> names;
  for (const auto& [name, resource] : state.devices.resources) names.insert(name);
  return names;
}

// The queue of pods that do not fit now, with the order of the daemon before; nullopt: none.
std::optional<allocation::WaitQueue> WaitQueueOf(const Options& options,
                                                 std::optional<allocation::WaitQueue> before) {
  if (!options.on_refusal.waits) return std::nullopt;
  allocation::WaitLimits limits;
  if (options.on_refusal.fail_after_ms) {
    limits.fail_after = std::chrono::milliseconds(*options.on_refusal.fail_after_ms);
  }
  if (!before) return allocation::WaitQueue(limits);
  before->SetLimits(limits);
  before->InventoryChanged();  // perhaps a policy: each pod is decided about anew
  return before;
}

}  // namespace

Parts::Parts(PartsInput input, const Options& options)
    : node(std::move(input.node)),
      store(std::move(input.saved.store)),
      bindings(std::move(input.saved.bindings)),
      boot(std::move(input.saved.boot)),
      bypass(std::move(input.saved.bypass)),
      kubelet_allocated_before(mirror::KubeletAllocatedIn(*bindings->snapshot())),
      events(std::move(input.events)),
      services(std::move(input.services)),
      cgroups(std::move(input.cgroups)),
      history(options.state_dir / control::DecisionHistory::kFileName, node, {}),
      kubelet_watch(conditions, options.kubelet_grace, options.listen),
      runtime(input.runtime, options.runtime_timeout),
      cdi_names(
          registry,
          [this](const std::string& id, auto done) { runtime.FindInfo(id, std::move(done)); },
          std::move(input.cdi_names)),
      mover(io, allocation, registry, runtime, *cgroups, reconciler),
      reconciler(
          {background, io, events}, node, allocation, registry, runtime, *cgroups, conditions,
          ReconcilerOptions(options, std::move(input.findings), std::move(input.lifted_quotas))),
      plugins(PluginSettingsOf(options), relay, background),
      mirrored_devices(options.mirror, node.topology.scope(), *bindings,
                       DevicesOfKubelet(options.kubelet_device_plugin_dir), io),
      allocation(node, input.saved.state, *store, plugins, mirrored_devices, boot.get(),
                 node.config.not_devices, save_conditions, options.resize_exclusive_cpus,
                 WaitQueueOf(options, std::move(input.waiting))),
      sources(std::move(input.sources)),
      claimed_devices{
          .cdi_directories = {options.cdi_spec_dirs.begin(), options.cdi_spec_dirs.end()},
          .prepared_claims = options.kubelet_dir / "dra_manager_state",
          .root = options.root},
      container_handlers(cri::MakeContainerHandlers(
          {node, allocation, plugins, registry, reconciler, runtime, *sources, conditions, *events,
           io, *cgroups, !options.keep_pod_cpu_quota, options.mirror.has_value(),
           options.cdi_spec_dirs.empty() ? nullptr : &claimed_devices,
           &node.config.shared_pool_handlers, &cdi_names})) {
  // The next reconcile writes what could not be written.
  if (input.saved.unsaved) conditions.StateNotWritable(*input.saved.unsaved);
  if (const std::optional<Error>& failure = boot->Unsaved()) {
    late_files.Add(std::string(allocation::kBootFileName),
                   "a boot of the machine before that is not noticed, so that containers do not "
                   "wait for their device plugins",
                   *failure, [this] { return boot->Settle(); });
  }
  if (input.known_cpus_failure) {
    late_files.Add(std::string(kKnownCpusFile),
                   "a start before that does not know CPUs that are offline then",
                   *input.known_cpus_failure, [this, root = options.root, dir = options.state_dir] {
                     return SaveKnownCpus(node.machine, root, dir);
                   });
  }
  bypass->ReportTo(conditions);
  if (const auto gates = UnknownFeatureGates(node.config)) conditions.UnknownFeatureGates(*gates);
  bypass->OnList([this] { return ListAnew(); });
  history.Follow(allocation);
  relay.ConnectTo(&allocation);
  plugins.Expect(ResourceNames(input.saved.state));
  allocation.OnChange([this](const auto&) {
    reconciler.Nudge();
    RefreshMirror();
  });
  bindings->OnChange([this] { RefreshMirror(); });
}

Parts::~Parts() {
  relay.ConnectTo(nullptr);
  reconciler.Stop();
  CheckStateFiles();
  // Steps of calls that are still waiting are dropped from here on. Tasks of `io` end before the
  // members that they use are destroyed.
  services->Stop();
  events->Stop();
  io.Stop();
  history.Stop();
}

void Parts::Start() {
  events->Start();
  services->Start();
  reconciler.Start();
}

control::ReportSources Parts::ReportSourcesFor(const Options& options,
                                               control::ConfigChanger* changer) {
  return {.facts = FactsOf(options, node.config),
          .node = node,
          .allocation = allocation,
          .conditions = conditions,
          .names = [this] { return registry.PodNames(); },
          .reused = [this] { return ReusedContainers(allocation.snapshot()->state, registry); },
          .running = [this](const auto& holding) { return registry.Pods(holding); },
          .bypass = bypass.get(),
          .mirrors_devices = options.mirror.has_value(),
          .history = &history,
          .not_devices = node.config.not_devices,
          .changer = changer,
          .has_adopted = [this] { return reconciler.Recovered(); },
          .disconnected = [this] { return plugins.Disconnected(); },
          .claims = [this] { return Claims(); },
          .claim_places = claimed_devices,
          .published = [this](const auto& publication) { NotePublication(publication); }};
}

void Parts::NotePublication(const control::v1::TopologyPublication& publication) {
  metrics.TopologyWrites(publication.written(), publication.failed(), publication.conflicts());
  std::optional<Error> failure;
  if (!publication.failure().empty()) {
    failure = Error{ErrorCode::kUnavailable, publication.failure(), publication.remedy()};
  }
  conditions.PublisherCalled(failure);
}

Result<dra::ContainerClaims> Parts::Claims() const {
  Result<std::vector<dra::PreparedClaim>> claims = dra::ReadClaims(claimed_devices);
  if (!claims.ok()) return claims.error();
  return dra::ContainerClaims(*std::move(claims),
                              [this](const ContainerKey& key) { return cdi_names.Of(key); });
}

proxy::HandlerFactory Parts::Handlers(const Options& options) {
  return [this, handlers = cri::WithBypass(*bypass, container_handlers,
                                           options.mirror.has_value())](const std::string& path) {
    kubelet_watch.Called(path);
    return handlers(path);
  };
}

std::map<std::string, Watchdog::Post> Parts::WatchedThreads() {
  return {{"decision",
           [this](const auto& task) {
             allocation.KnownPods([task](const std::set<std::string>&) { task(); });
           }},
          {"events", [this](auto task) { events->Post(std::move(task)); }},
          {"calls", [](auto task) { service::RunOn(service::CallThread::kCalls, task); }},
          {"plugins", [](auto task) { service::RunOn(service::CallThread::kPlugins, task); }},
          {"services", [this](auto task) { services->Post(std::move(task)); }},
          {"background", [this](auto task) { background.Post(std::move(task)); }}};
}

void Parts::SetMirror(std::unique_ptr<mirror::Mirror> next) {
  {
    const MutexLock lock(mirror_mutex);
    mirror.swap(next);
  }
  next.reset();  // waits for the thread `services`: without the lock, which the decision thread
                 // takes
}

void Parts::RefreshMirror() {
  const MutexLock lock(mirror_mutex);
  if (mirror) mirror->Refresh();
}

bool Parts::ListAnew() {
  const auto answer = std::make_shared<std::promise<bool>>();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  reconciler.WhenListedAnew(until, [answer](bool listed) { answer->set_value(listed); });
  return answer->get_future().get();
}

void Parts::LookForUnattachedKubelet() {
  std::vector<std::string> past_alignd;
  for (const auto& [id, key] : registry.UnmanagedContainers()) {
    const std::optional<reconcile::KnownCgroup> cgroup = reconciler.CgroupOf(id);
    if (!cgroup || cgroup->path.find("kubepods") != std::string::npos) past_alignd.push_back(id);
  }
  kubelet_watch.Listed(past_alignd);
  kubelet_watch.RuntimeIs(runtime.RuntimeName());
}

void Parts::CheckStateFiles() {
  if (node.cpu) LookForForeignFiles(*store, conditions);
  SaveUncertainFiles(*store, *bindings, allocation);
  late_files.SaveAgain();
}

void Parts::CheckConfigFile() {
  control::ConfigChanger* const changer = config_changer;
  if (changer == nullptr) return;
  const std::optional<Error> why = changer->NotApplied();
  if (why) conditions.ConfigurationNotApplied(*why);
  if (!why) conditions.ConfigurationApplied();
}

deviceplugin::PluginSettings Parts::PluginSettingsOf(const Options& options) {
  deviceplugin::PluginSettings settings = PluginTimes(options);
  settings.on_register = [this](const std::string& name) { metrics.PluginRegistered(name); };
  return settings;
}

reconcile::Reconciler::Options Parts::ReconcilerOptions(const Options& options,
                                                        allocation::StateFindings findings,
                                                        reconcile::LiftedQuotas lifted) {
  reconcile::Reconciler::Options settings;
  settings.pods->lifted = std::move(lifted);
  settings.findings = std::move(findings);
  settings.releaser.name_before = [this](const auto& uid) { return history.NameBefore(uid); };
  settings.lister.adopted = [this](const auto& resources) { plugins.Expect(resources); };
  settings.lister.period = std::chrono::milliseconds(node.config.cpu_manager_reconcile_period_ms);
  if (options.keep_pod_cpu_quota) settings.pods.reset();
  settings.processes.proc = options.root / "proc";
  if (options.node.empty()) settings.online_cpus.root = options.root;
  const auto conflicting = options.mirror ? std::make_shared<ConflictingPlugins>(
                                                DevicesOfKubelet(options.kubelet_device_plugin_dir),
                                                allocation, registry, conditions)
                                          : nullptr;
  settings.after_listing = [this, conflicting, kubelet_dir = options.kubelet_dir,
                            own = OwnFiles{options.state_dir, options.config}] {
    if (node.cpu) LookForKubeletCpuManager(kubelet_dir, own, conditions);
    conditions.LookForPublisher();
    CheckStateFiles();
    CheckConfigFile();
    LookForUnattachedKubelet();
    // Reports of claims say what is wrong with the file.
    if (const auto claims = Claims(); claims.ok()) cdi_names.Look(claims->Pods());
    bypass->Remind();
    if (conflicting) conflicting->Look();
  };
  return settings;
}

}  // namespace alignd::daemon
