#include "daemon/daemon.h"

#include <grpcpp/channel.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "allocation/allocation_manager.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "allocation/wait_queue.h"
#include "cgroup/cgroup_tree.h"
#include "control/control_server.h"
#include "control/decision_history.h"
#include "control/reports.h"
#include "cri/bypassed_call.h"
#include "cri/container_handlers.h"
#include "cri/shared_pool_handlers.h"
#include "daemon/conflicting_managers.h"
#include "daemon/conflicting_plugins.h"
#include "daemon/facts.h"
#include "daemon/handover.h"
#include "daemon/inventory_relay.h"
#include "daemon/monitoring.h"
#include "daemon/plugin_times.h"
#include "daemon/request_sources.h"
#include "daemon/save_conditions.h"
#include "daemon/saved_state.h"
#include "daemon/start_line.h"
#include "daemon/start_warnings.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/plugin_watcher.h"
#include "deviceplugin/registration_server.h"
#include "dra/claimed_devices.h"
#include "host/descriptor.h"
#include "host/durable_file.h"
#include "host/event_loop.h"
#include "host/log_event.h"
#include "metrics/event_metrics.h"
#include "mirror/binding_table.h"
#include "mirror/mirror.h"
#include "mirror/mirrored_devices.h"
#include "podresources/pod_resources_server.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"
#include "reconcile/assigned_containers.h"
#include "reconcile/bypass.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/kubelet_watch.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::daemon {
namespace {

// How long calls under way may take to end by themselves when alignd stops.
constexpr std::chrono::seconds kShutdownGrace{2};

std::set<std::string> ResourceNames(const admission::NodeState& state) {
  std::set<std::string> names;
  for (const auto& [name, resource] : state.devices.resources) names.insert(name);
  return names;
}

// The queue of pods that do not fit now, with the order of the daemon before; nullopt: none.
std::optional<allocation::WaitQueue> WaitQueueOf(const Options& options,
                                                 std::optional<allocation::WaitQueue> before) {
  if (!options.on_refusal.waits) return std::nullopt;
  const allocation::WaitLimits limits{.fail_after = options.on_refusal.fail_after};
  if (!before) return allocation::WaitQueue(limits);
  before->SetLimits(limits);
  before->InventoryChanged();  // perhaps a policy: each pod is decided about anew
  return before;
}

// Members are constructed from top to bottom and destroyed in reverse order. The destructor first
// stops the sources of work: the servers and the mirror, then the reconciler, then the threads
// `services`, `events` and `io`. After that only callbacks run that the plugins and the allocation
// manager still have; they use the registry, the (stopped) reconciler and the mutex of the
// (destroyed) mirror. The queues are destroyed after all objects that post to them. Such an object
// makes its posted tasks harmless in its destructor, as RecurringTask does.
class RunningDaemon final : public Daemon {
 public:
  RunningDaemon(host::DirectoryLock lock, admission::Node node, SavedState saved,
                std::unique_ptr<cgroup::CgroupTree> cgroups,
                std::unique_ptr<podsource::ResourceSource> sources,
                std::shared_ptr<host::EventLoop> events, std::shared_ptr<host::EventLoop> services,
                std::shared_ptr<grpc::Channel> runtime, allocation::StateFindings findings,
                std::optional<allocation::WaitQueue> waiting, const Options& options)
      : lock_(std::move(lock)),
        node_(std::move(node)),
        store_(std::move(saved.store)),
        bindings_(std::move(saved.bindings)),
        boot_(std::move(saved.boot)),
        bypass_(std::move(saved.bypass)),
        kubelet_allocated_before_(mirror::KubeletAllocatedIn(*bindings_->snapshot())),
        events_(std::move(events)),
        services_(std::move(services)),
        cgroups_(std::move(cgroups)),
        history_(options.state_dir / control::DecisionHistory::kFileName, node_, {}),
        kubelet_watch_(conditions_, options.kubelet_grace, options.listen),
        runtime_(runtime, options.runtime_timeout),
        reconciler_({background_, io_, events_}, node_, allocation_, registry_, runtime_, *cgroups_,
                    conditions_, ReconcilerOptions(options, std::move(findings))),
        plugins_(PluginSettingsOf(options), relay_, background_),
        mirrored_devices_(options.mirror, node_.topology.scope(), *bindings_,
                          DevicesOfKubelet(options.kubelet_device_plugin_dir), io_),
        allocation_(node_, saved.state, *store_, plugins_, mirrored_devices_, boot_.get(),
                    options.not_devices, save_conditions_, options.resize_exclusive_cpus,
                    WaitQueueOf(options, std::move(waiting))),
        sources_(std::move(sources)),
        claimed_devices_{
            .cdi_directories = {options.cdi_spec_dirs.begin(), options.cdi_spec_dirs.end()},
            .prepared_claims = options.kubelet_dir / "dra_manager_state",
            .root = options.root},
        shared_pool_handlers_(options.shared_pool_handlers),
        handlers_(cri::MakeContainerHandlers(
            {node_, allocation_, plugins_, registry_, reconciler_, runtime_, *sources_, conditions_,
             *events_, io_, *cgroups_, !options.keep_pod_cpu_quota, options.mirror.has_value(),
             options.cdi_spec_dirs.empty() ? nullptr : &claimed_devices_,
             &shared_pool_handlers_})) {
    bypass_->ReportTo(conditions_);
    bypass_->OnList([this] { return ListAnew(); });
    history_.Follow(allocation_);
    relay_.ConnectTo(&allocation_);
    plugins_.Expect(ResourceNames(saved.state));
    allocation_.OnChange([this](const auto&) {
      reconciler_.Nudge();
      RefreshMirror();
    });
    bindings_->OnChange([this] { RefreshMirror(); });
  }

  ~RunningDaemon() override {
    is_stopping_ = true;
    allocation_.StopWaiting();
    if (forwarder_) forwarder_->Stop(kShutdownGrace);
    kept_socket_ = host::Descriptor();
    if (!own_socket_.empty()) unlink(own_socket_.c_str());
    monitoring_.reset();
    control_.reset();
    pod_resources_.reset();
    registration_.reset();
    watcher_.reset();
    forwarder_.reset();
    std::unique_ptr<mirror::Mirror> mirror;
    {
      const MutexLock lock(mirror_mutex_);
      mirror.swap(mirror_);
    }
    mirror.reset();  // waits for the thread `services`: without the lock, which the decision thread
                     // takes
    relay_.ConnectTo(nullptr);
    reconciler_.Stop();
    CheckStateFiles();
    // Steps of calls that are still waiting are dropped from here on. Tasks of `io` end before the
    // members that they use are destroyed.
    services_->Stop();
    events_->Stop();
    io_.Stop();
    history_.Stop();
  }

  std::set<std::string> KnownPods() override { return allocation_.KnownPods(); }

  const admission::Node& node() const override { return node_; }
  admission::NodeState State() const override { return allocation_.snapshot()->state; }
  control::PodNames PodNames() const override { return registry_.PodNames(); }
  bool HasAdopted() const override { return reconciler_.Recovered(); }

  std::optional<allocation::WaitQueue> WaitingNow() const {
    const auto waiting = allocation_.WaitingPods();
    return waiting ? std::optional(*waiting) : std::nullopt;
  }

  Handover Leave() override {
    return {.lock = std::move(lock_),
            .cri_socket = std::exchange(kept_socket_, host::Descriptor()),
            .own_socket = std::exchange(own_socket_, std::string()),
            .node = std::nullopt,
            .waiting = WaitingNow()};
  }

  std::map<std::string, Watchdog::Post> WatchedThreads() override {
    return {{"decision",
             [this](const auto& task) {
               allocation_.KnownPods([task](const std::set<std::string>&) { task(); });
             }},
            {"events", [this](auto task) { events_->Post(std::move(task)); }},
            {"services", [this](auto task) { services_->Post(std::move(task)); }},
            {"background", [this](auto task) { background_.Post(std::move(task)); }}};
  }

  Result<Done> Serve(const Options& options, control::ConfigChanger* changer, Handover handover) {
    events_->Start();
    services_->Start();
    reconciler_.Start();
    const control::ReportSources reports{
        .facts = FactsOf(options, node_.config),
        .node = node_,
        .allocation = allocation_,
        .conditions = conditions_,
        .names = [this] { return registry_.PodNames(); },
        .reused = [this] { return ReusedContainers(allocation_.snapshot()->state, registry_); },
        .running = [this](const auto& holding) { return registry_.Pods(holding); },
        .bypass = bypass_.get(),
        .mirrors_devices = options.mirror.has_value(),
        .history = &history_,
        .not_devices = options.not_devices,
        .changer = changer,
        .has_adopted = [this] { return reconciler_.Recovered(); }};
    monitoring_ = StartMonitoring(
        options.metrics_address,
        {node_, allocation_, conditions_, reconciler_, metrics_, background_, io_, is_stopping_,
         [reports] { return control::ReportStatus(reports, /*list_devices=*/true); },
         options.node.empty() ? options.root : std::filesystem::path()},
        WatchedThreads());
    auto registration = deviceplugin::RegistrationServer::Start(
        services_, std::filesystem::absolute(options.DevicePluginDir()), plugins_);
    if (!registration.ok()) return registration.error();
    registration_ = *std::move(registration);
    deviceplugin::WatcherSettings watching;
    watching.deadlines.info = options.plugin_connect_timeout;
    auto watcher =
        deviceplugin::PluginWatcher::Start(options.PluginsRegistry(), plugins_, events_, watching);
    if (!watcher.ok()) return watcher.error();
    watcher_ = *std::move(watcher);
    if (options.mirror) {
      auto mirror = mirror::Mirror::Start(
          {.registry = options.kubelet_plugins_registry,
           .modes = *options.mirror,
           .kubelet_allocated_before = kubelet_allocated_before_,
           .patience = options.mirror_patience},
          node_, allocation_, *bindings_, background_,
          [this](const auto& query, auto done) {
            plugins_.GetPreferredAllocation(query, mirror::kKubeletWaits, std::move(done));
          },
          mirror::ServePlugins(services_));
      if (!mirror.ok()) return mirror.error();
      const MutexLock lock(mirror_mutex_);
      mirror_ = *std::move(mirror);
    }
    auto status_server = control::ControlServer::Start(
        services_, options.ControlSocket(), reports, [this](std::function<void()> changed) {
          allocation_.OnChange([changed = std::move(changed)](const auto&) { changed(); });
        });
    if (!status_server.ok()) return status_server.error();
    control_ = *std::move(status_server);
    auto pod_resources = podresources::PodResourcesServer::Start(
        services_, options.PodResourcesSocket(), node_, allocation_, registry_);
    if (!pod_resources.ok()) return pod_resources.error();
    pod_resources_ = *std::move(pod_resources);
    return ServeCri(options, std::move(handover));
  }

 private:
  proxy::HandlerFactory Handlers(bool mirrors_devices) {
    return [this, handlers = cri::WithBypass(*bypass_, handlers_, mirrors_devices)](
               const std::string& path) {
      kubelet_watch_.Called(path);
      return handlers(path);
    };
  }

  bool ListAnew() {
    const auto answer = std::make_shared<std::promise<bool>>();
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    reconciler_.WhenListedAnew(until, [answer](bool listed) { answer->set_value(listed); });
    return answer->get_future().get();
  }

  void LookForUnattachedKubelet() {
    std::vector<std::string> past_alignd;
    for (const auto& [id, key] : registry_.UnmanagedContainers()) {
      const std::string cgroup = reconciler_.CgroupOf(id).value_or("kubepods");
      if (cgroup.find("kubepods") != std::string::npos) past_alignd.push_back(id);
    }
    kubelet_watch_.Listed(past_alignd);
    kubelet_watch_.RuntimeIs(runtime_.RuntimeName());
  }

  void RefreshMirror() {
    const MutexLock lock(mirror_mutex_);
    if (mirror_) mirror_->Refresh();
  }

  Result<Done> ServeCri(const Options& options, Handover handover) {
    const Result<std::string> runtime = rpc::SocketPath(options.runtime_endpoint);
    if (!runtime.ok()) return runtime.error().In("--runtime-endpoint");
    if (handover.cri_socket.fd() < 0) {
      Result<host::Descriptor> opened = rpc::OpenListening(options.listen);
      if (!opened.ok()) return opened.error();
      handover.cri_socket = *std::move(opened);
      handover.own_socket = *rpc::SocketPath(options.listen);
    } else if (handover.own_socket.empty()) {
      spdlog::info("serving CRI on the socket of systemd");
    }
    kept_socket_ = handover.Spare().cri_socket;
    auto forwarder =
        proxy::Forwarder::Start(events_, std::move(handover.cri_socket),
                                {.runtime_socket = *runtime,
                                 .handlers = Handlers(options.mirror.has_value()),
                                 .parsed_bytes = cri::ParsedBytes,
                                 .events = &metrics_.calls(),
                                 .runtime_lost = [this] { reconciler_.RuntimeLost(); }});
    if (!forwarder.ok()) return forwarder.error();
    forwarder_ = *std::move(forwarder);
    // Not before: after a failed start, a former configuration may be served on the socket again.
    own_socket_ = std::move(handover.own_socket);
    return Done{};
  }

  deviceplugin::PluginSettings PluginSettingsOf(const Options& options) {
    deviceplugin::PluginSettings settings = PluginTimes(options);
    settings.on_register = [this](const std::string& name) { metrics_.PluginRegistered(name); };
    return settings;
  }

  void CheckStateFiles() {
    if (node_.cpu) LookForForeignFiles(*store_, conditions_);
    SaveUncertainFiles(*store_, *bindings_, allocation_);
  }

  reconcile::Reconciler::Options ReconcilerOptions(const Options& options,
                                                   allocation::StateFindings findings) {
    reconcile::Reconciler::Options reconciler;
    reconciler.findings = std::move(findings);
    reconciler.lister.adopted = [this](const auto& resources) { plugins_.Expect(resources); };
    reconciler.lister.period =
        std::chrono::milliseconds(node_.config.cpu_manager_reconcile_period_ms);
    if (options.keep_pod_cpu_quota) reconciler.pods.reset();
    reconciler.processes.proc = options.root / "proc";
    const auto plugins = options.mirror ? std::make_shared<ConflictingPlugins>(
                                              DevicesOfKubelet(options.kubelet_device_plugin_dir),
                                              allocation_, registry_, conditions_)
                                        : nullptr;
    reconciler.after_listing = [this, plugins, kubelet_dir = options.kubelet_dir,
                                own = OwnFiles{options.state_dir, options.config}] {
      if (node_.cpu) LookForKubeletCpuManager(kubelet_dir, own, conditions_);
      CheckStateFiles();
      LookForUnattachedKubelet();
      bypass_->Remind();
      if (plugins) plugins->Look();
    };
    return reconciler;
  }

  std::optional<host::DirectoryLock> lock_;
  const admission::Node node_;
  const std::unique_ptr<allocation::CheckpointStore> store_;
  const std::unique_ptr<mirror::BindingTable> bindings_;
  const std::unique_ptr<allocation::BootRecord> boot_;
  const std::unique_ptr<reconcile::Bypass> bypass_;
  const mirror::KubeletAllocatedBefore kubelet_allocated_before_;  // as it was before any release
  metrics::EventMetrics metrics_;
  std::atomic<bool> is_stopping_ = false;
  InventoryRelay relay_;
  reconcile::Conditions conditions_;
  SaveConditions save_conditions_{conditions_, metrics_};
  TaskQueue background_{"background"};  // tasks that never block
  TaskQueue io_{"io"};                  // tasks that may block
  const std::shared_ptr<host::EventLoop> events_;
  const std::shared_ptr<host::EventLoop> services_;  // of the sockets other than the CRI socket
  const std::unique_ptr<cgroup::CgroupTree> cgroups_;
  control::DecisionHistory history_;
  reconcile::KubeletWatch kubelet_watch_;
  reconcile::ContainerRegistry registry_;
  reconcile::RuntimeClient runtime_;
  reconcile::Reconciler reconciler_;
  Mutex mirror_mutex_;
  std::unique_ptr<mirror::Mirror> mirror_ GUARDED_BY(mirror_mutex_);
  deviceplugin::PluginRegistry plugins_;
  mirror::MirroredDevices mirrored_devices_;
  allocation::AllocationManager allocation_;
  const std::unique_ptr<podsource::ResourceSource> sources_;
  const dra::Places claimed_devices_;
  const cri::SharedPoolHandlers shared_pool_handlers_;
  const proxy::HandlerFactory handlers_;
  std::unique_ptr<deviceplugin::RegistrationServer> registration_;
  std::unique_ptr<deviceplugin::PluginWatcher> watcher_;
  std::unique_ptr<metrics::HttpServer> monitoring_;  // null: off
  std::unique_ptr<control::ControlServer> control_;
  std::unique_ptr<podresources::PodResourcesServer> pod_resources_;
  std::unique_ptr<proxy::Forwarder> forwarder_;
  host::Descriptor kept_socket_;  // the same as the forwarder's
  std::string own_socket_;        // its path; empty for a socket of systemd, or one that is left
};

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const Options& options,
                                              control::ConfigChanger* changer, Handover handover) {
  const admission::Node& node = *handover.node;
  const Result<Done> taken = TakeStateDirectory(options, handover);
  if (!taken.ok()) return taken.error();
  Result<std::shared_ptr<grpc::Channel>> runtime = rpc::Dial(options.runtime_endpoint);
  if (!runtime.ok()) return runtime.error();
  auto cgroups = std::make_unique<cgroup::CgroupTree>(options.cgroup_root);
  Result<std::unique_ptr<podsource::ResourceSource>> sources = MakeSources(options, *cgroups);
  if (!sources.ok()) return sources.error();
  std::vector<StartProblem> problems;
  allocation::StateFindings findings;
  std::optional<SavedState> saved = LoadState(options, node, problems, findings);
  LogSetAside(findings);
  if (!saved) return problems.front().AsError();
  Result<std::shared_ptr<host::EventLoop>> events = host::EventLoop::Make();
  if (!events.ok()) return events.error();
  Result<std::shared_ptr<host::EventLoop>> services = host::EventLoop::Make("services");
  if (!services.ok()) return services.error();
  host::LogEvent(host::kLogStarting, spdlog::level::info, {},
                 StartLine(options, node, saved->state));
  LogWarnings(FindPolicyWarnings(options, node));
  LogWarnings(FindDirectoryWarnings(options));
  auto daemon = std::make_unique<RunningDaemon>(
      *std::move(handover.lock), node, *std::move(saved), std::move(cgroups), *std::move(sources),
      *std::move(events), *std::move(services), *std::move(runtime), std::move(findings),
      std::move(handover.waiting), options);
  const Result<Done> serving = daemon->Serve(options, changer, std::move(handover));
  if (!serving.ok()) return serving.error();
  return std::unique_ptr<Daemon>(std::move(daemon));
}

}  // namespace alignd::daemon
