#include "daemon/daemon.h"

#include <grpcpp/channel.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/scenario/scenario.h"
#include "allocation/allocation_manager.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "cgroup/cgroup_tree.h"
#include "control/control_server.h"
#include "cri/container_handlers.h"
#include "cri/shared_pool_handlers.h"
#include "daemon/conflicting_managers.h"
#include "daemon/conflicting_plugins.h"
#include "daemon/inherited_socket.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/plugin_watcher.h"
#include "deviceplugin/registration_server.h"
#include "host/config_file.h"
#include "host/descriptor.h"
#include "host/durable_file.h"
#include "host/event_loop.h"
#include "host/file.h"
#include "host/sysfs_machine.h"
#include "mirror/binding_table.h"
#include "mirror/mirror.h"
#include "mirror/mirrored_devices.h"
#include "podresources/pod_resources_server.h"
#include "podsource/annotation_source.h"
#include "podsource/cri_estimate.h"
#include "podsource/first_that_knows.h"
#include "podsource/pods_api_source.h"
#include "proxy/forwarder.h"
#include "reconcile/assigned_containers.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::daemon {
namespace {

// How long calls under way may take to end by themselves when alignd stops.
constexpr std::chrono::seconds kShutdownGrace{2};

// The plugin registry reports inventories to the allocation manager, which in turn asks the
// registry. This object lets the registry exist before the manager. Thread-safe.
class InventoryRelay final : public allocation::InventorySink {
 public:
  // Null: reports are dropped.
  void ConnectTo(allocation::InventorySink* sink) {
    const MutexLock lock(mutex_);
    sink_ = sink;
  }
  void SetResource(std::string name, devicemanager::Resource resource) override {
    const MutexLock lock(mutex_);
    if (sink_ != nullptr) sink_->SetResource(std::move(name), std::move(resource));
  }
  void RemoveResource(const std::string& name) override {
    const MutexLock lock(mutex_);
    if (sink_ != nullptr) sink_->RemoveResource(name);
  }

 private:
  Mutex mutex_;
  allocation::InventorySink* sink_ GUARDED_BY(mutex_) = nullptr;
};

Result<Machine> ReadMachine(const Options& options) {
  if (options.node.empty()) return host::ReadMachine(options.root);
  const Result<std::string> text = host::ReadFileOrPipe(options.node);
  if (!text.ok()) return text.error();
  Result<scenario::NodeDescription> node = scenario::ParseNode(*text);
  if (!node.ok()) return host::ContentError(node.error(), options.node);
  return std::move(node->machine);
}

Result<admission::Node> MakeNode(const Options& options) {
  Result<Machine> machine = ReadMachine(options);
  if (!machine.ok()) return machine.error();
  Result<KubeletConfig> config = options.config.empty() ? Result<KubeletConfig>(KubeletConfig())
                                                        : host::ReadConfigFile(options.config);
  if (!config.ok()) return config.error();
  if (options.compatibility) config->compatibility = *options.compatibility;
  Result<admission::Node> node = admission::Node::Make(*std::move(machine), *std::move(config));
  if (node.ok() || !node.error().remedy.empty()) return node;
  return Error{node.error().code, node.error().message,
               "correct the KubeletConfiguration that --config names, or the kubelet's own"};
}

std::set<std::string> ResourceNames(const admission::NodeState& state) {
  std::set<std::string> names;
  for (const auto& [name, resource] : state.devices.resources) names.insert(name);
  return names;
}

deviceplugin::PluginSettings SettingsOf(const Options& options) {
  deviceplugin::PluginSettings settings;
  settings.deadlines = {.connect = options.plugin_connect_timeout,
                        .preferred = options.plugin_preference_timeout,
                        .allocate = options.plugin_timeout,
                        .pre_start = options.plugin_pre_start_timeout};
  settings.grace = options.plugin_grace;
  settings.patience = options.plugin_patience;
  return settings;
}

// The sources of pods' requests. The first source that knows a pod is used.
Result<std::unique_ptr<podsource::ResourceSource>> MakeSources(const Options& options,
                                                               const cgroup::CgroupTree& cgroups) {
  std::vector<std::unique_ptr<podsource::ResourceSource>> sources;
  if (!options.pods_api_endpoint.empty()) {
    podsource::PodsApiSource::Options api;
    api.endpoint = options.pods_api_endpoint;
    Result<std::unique_ptr<podsource::ResourceSource>> source = podsource::PodsApiSource::Make(api);
    if (!source.ok()) return source.error().In("--pods-api-endpoint");
    sources.push_back(*std::move(source));
  }
  sources.push_back(std::make_unique<podsource::AnnotationSource>(
      podsource::AnnotationSource::Options{options.annotated_extended_resources, &cgroups}));
  sources.push_back(std::make_unique<podsource::CriEstimate>());
  return std::unique_ptr<podsource::ResourceSource>(
      std::make_unique<podsource::FirstThatKnows>(std::move(sources)));
}

// If both were the same socket, alignd would replace the runtime's socket and forward to itself.
Result<Done> RequireTwoSockets(const Options& options) {
  const Result<std::string> ours = rpc::SocketPath(options.listen);
  if (!ours.ok()) return ours.error().In("--listen");
  const Result<std::string> runtimes = rpc::SocketPath(options.runtime_endpoint);
  if (!runtimes.ok()) return runtimes.error().In("--runtime-endpoint");
  std::error_code code;
  const bool same = *ours == *runtimes || std::filesystem::equivalent(*ours, *runtimes, code);
  if (!same) return Done{};
  return Error{
      ErrorCode::kInvalidArgument, "--listen and --runtime-endpoint are one socket: " + *ours,
      "give --listen a path of its own, and set the kubelet's containerRuntimeEndpoint to it"};
}

// Members are constructed from top to bottom and destroyed in reverse order. The destructor first
// stops the sources of work: the servers and the mirror, then the reconciler, then the threads
// `events` and `io`. After that only callbacks run that the plugins and the allocation manager
// still have; they use the registry, the (stopped) reconciler and the mutex of the (destroyed)
// mirror. The queues are destroyed after all objects that post to them. Such an object makes its
// posted tasks harmless in its destructor, as RecurringTask does.
class RunningDaemon final : public Daemon {
 public:
  RunningDaemon(host::DirectoryLock lock, admission::Node node, admission::NodeState state,
                std::unique_ptr<allocation::CheckpointStore> store,
                std::unique_ptr<cgroup::CgroupTree> cgroups,
                std::unique_ptr<podsource::ResourceSource> sources,
                std::unique_ptr<mirror::BindingTable> bindings,
                std::unique_ptr<allocation::BootRecord> boot,
                std::shared_ptr<host::EventLoop> events, std::shared_ptr<grpc::Channel> runtime,
                const Options& options)
      : lock_(std::move(lock)),
        node_(std::move(node)),
        store_(std::move(store)),
        bindings_(std::move(bindings)),
        boot_(std::move(boot)),
        kubelet_allocated_before_(mirror::KubeletAllocatedIn(*bindings_->snapshot())),
        events_(std::move(events)),
        cgroups_(std::move(cgroups)),
        runtime_(runtime, options.runtime_timeout),
        reconciler_({background_, io_, events_}, node_, allocation_, registry_, runtime_, *cgroups_,
                    conditions_, ReconcilerOptions(options)),
        plugins_(SettingsOf(options), relay_, background_),
        mirrored_devices_(options.mirror, node_.topology.scope(), *bindings_,
                          DevicesOfKubelet(options.kubelet_device_plugin_dir), io_),
        allocation_(node_, state, *store_, plugins_, mirrored_devices_, boot_.get(),
                    options.not_devices),
        sources_(std::move(sources)),
        shared_pool_handlers_(options.shared_pool_handlers),
        handlers_(cri::MakeContainerHandlers(
            {node_, allocation_, plugins_, registry_, reconciler_, runtime_, *sources_, conditions_,
             *events_, io_, options.keep_pod_cpu_quota ? nullptr : cgroups_.get(),
             options.mirror.has_value(), &shared_pool_handlers_})) {
    relay_.ConnectTo(&allocation_);
    plugins_.Expect(ResourceNames(state));
    allocation_.OnChange([this](const auto&) {
      reconciler_.Nudge();
      RefreshMirror();
    });
    bindings_->OnChange([this] { RefreshMirror(); });
  }

  ~RunningDaemon() override {
    allocation_.StopWaiting();
    if (forwarder_) forwarder_->Stop(kShutdownGrace);
    if (!own_socket_.empty()) unlink(own_socket_.c_str());
    control_.reset();
    pod_resources_.reset();
    registration_.reset();
    watcher_.reset();
    forwarder_.reset();
    {
      const MutexLock lock(mirror_mutex_);
      mirror_.reset();
    }
    relay_.ConnectTo(nullptr);
    reconciler_.Stop();
    CheckStateFiles();
    // Steps of calls that are still waiting are dropped from here on. Tasks of `io` end before the
    // members that they use are destroyed.
    events_->Stop();
    io_.Stop();
  }

  std::set<std::string> KnownPods() override { return allocation_.KnownPods(); }

  std::map<std::string, Watchdog::Post> WatchedThreads() override {
    return {{"decision",
             [this](const auto& task) {
               allocation_.KnownPods([task](const std::set<std::string>&) { task(); });
             }},
            {"events", [this](auto task) { events_->Post(std::move(task)); }},
            {"background", [this](auto task) { background_.Post(std::move(task)); }}};
  }

  Result<Done> Serve(const Options& options, std::optional<host::Descriptor> inherited) {
    events_->Start();
    reconciler_.Start();
    auto registration = deviceplugin::RegistrationServer::Start(
        std::filesystem::absolute(options.DevicePluginDir()), plugins_);
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
          node_, allocation_, *bindings_, background_, [this](const auto& query, auto done) {
            plugins_.GetPreferredAllocation(query, mirror::kKubeletWaits, std::move(done));
          });
      if (!mirror.ok()) return mirror.error();
      const MutexLock lock(mirror_mutex_);
      mirror_ = *std::move(mirror);
    }
    auto status_server = control::ControlServer::Start(
        options.ControlSocket(), ALIGND_VERSION, node_, allocation_, conditions_,
        [this] { return registry_.PodNames(); },
        [this] { return reconcile::ReusedContainers(allocation_.snapshot()->state, registry_); });
    if (!status_server.ok()) return status_server.error();
    control_ = *std::move(status_server);
    auto pod_resources = podresources::PodResourcesServer::Start(options.PodResourcesSocket(),
                                                                 node_, allocation_, registry_);
    if (!pod_resources.ok()) return pod_resources.error();
    pod_resources_ = *std::move(pod_resources);
    return ServeCri(options, std::move(inherited));
  }

 private:
  void RefreshMirror() {
    const MutexLock lock(mirror_mutex_);
    if (mirror_) mirror_->Refresh();
  }

  Result<Done> ServeCri(const Options& options, std::optional<host::Descriptor> inherited) {
    const Result<std::string> runtime = rpc::SocketPath(options.runtime_endpoint);
    if (!runtime.ok()) return runtime.error().In("--runtime-endpoint");
    if (inherited) {
      spdlog::info("serving CRI on the socket of systemd");
    } else {
      Result<host::Descriptor> opened = rpc::OpenListening(options.listen);
      if (!opened.ok()) return opened.error();
      inherited = *std::move(opened);
      own_socket_ = *rpc::SocketPath(options.listen);
    }
    auto forwarder = proxy::Forwarder::Start(
        events_, *std::move(inherited),
        {.runtime_socket = *runtime, .handlers = handlers_, .runtime_lost = [this] {
           reconciler_.RuntimeLost();
         }});
    if (!forwarder.ok()) return forwarder.error();
    forwarder_ = *std::move(forwarder);
    return Done{};
  }

  void CheckStateFiles() {
    if (node_.cpu) LookForForeignFiles(*store_, conditions_);
    SaveUncertainFiles(*store_, *bindings_, allocation_);
  }

  reconcile::Reconciler::Options ReconcilerOptions(const Options& options) {
    reconcile::Reconciler::Options reconciler;
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
      if (plugins) plugins->Look();
    };
    return reconciler;
  }

  const host::DirectoryLock lock_;
  const admission::Node node_;
  const std::unique_ptr<allocation::CheckpointStore> store_;
  const std::unique_ptr<mirror::BindingTable> bindings_;
  const std::unique_ptr<allocation::BootRecord> boot_;
  const mirror::KubeletAllocatedBefore kubelet_allocated_before_;  // as it was before any release
  InventoryRelay relay_;
  reconcile::Conditions conditions_;
  TaskQueue background_{"background"};  // tasks that never block
  TaskQueue io_{"io"};                  // tasks that may block
  const std::shared_ptr<host::EventLoop> events_;
  const std::unique_ptr<cgroup::CgroupTree> cgroups_;
  reconcile::ContainerRegistry registry_;
  reconcile::RuntimeClient runtime_;
  reconcile::Reconciler reconciler_;
  Mutex mirror_mutex_;
  std::unique_ptr<mirror::Mirror> mirror_ GUARDED_BY(mirror_mutex_);
  deviceplugin::PluginRegistry plugins_;
  mirror::MirroredDevices mirrored_devices_;
  allocation::AllocationManager allocation_;
  const std::unique_ptr<podsource::ResourceSource> sources_;
  const cri::SharedPoolHandlers shared_pool_handlers_;
  const proxy::HandlerFactory handlers_;
  std::unique_ptr<deviceplugin::RegistrationServer> registration_;
  std::unique_ptr<deviceplugin::PluginWatcher> watcher_;
  std::unique_ptr<control::ControlServer> control_;
  std::unique_ptr<podresources::PodResourcesServer> pod_resources_;
  std::unique_ptr<proxy::Forwarder> forwarder_;
  std::string own_socket_;  // its path; empty for a socket of systemd
};

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const Options& options) {
  Result<std::optional<host::Descriptor>> inherited = TakeInheritedSocket(options.listen);
  if (!inherited.ok()) return inherited.error();
  const Result<Done> sockets = RequireTwoSockets(options);
  if (!sockets.ok()) return sockets.error();
  Result<admission::Node> node = MakeNode(options);
  if (!node.ok()) return node.error();
  const Result<Done> directory = host::MakeDirectory(options.state_dir);
  if (!directory.ok()) return directory.error();
  Result<host::DirectoryLock> lock = host::LockDirectory(options.state_dir);
  if (!lock.ok()) return lock.error();
  Result<std::shared_ptr<grpc::Channel>> runtime = rpc::Dial(options.runtime_endpoint);
  if (!runtime.ok()) return runtime.error();
  auto cgroups = std::make_unique<cgroup::CgroupTree>(options.cgroup_root);
  Result<std::unique_ptr<podsource::ResourceSource>> sources = MakeSources(options, *cgroups);
  if (!sources.ok()) return sources.error();
  const allocation::StatePaths paths{options.state_dir, options.DevicePluginDir()};
  auto store = std::make_unique<allocation::CheckpointStore>(paths);
  Result<admission::NodeState> state = store->Load(*node);
  if (!state.ok()) return state.error();
  Result<std::unique_ptr<mirror::BindingTable>> bindings =
      mirror::BindingTable::Load(options.state_dir / checkpoint::kBindingFileName);
  if (!bindings.ok()) return bindings.error();
  const Result<Done> retained = (*bindings)->RetainAssigned(*state);
  if (!retained.ok()) return retained.error();
  Result<std::string> running_boot = allocation::RunningBoot(options.root);
  if (!running_boot.ok()) return running_boot.error();
  Result<std::unique_ptr<allocation::BootRecord>> boot = allocation::BootRecord::Load(
      options.state_dir / allocation::kBootFileName, *std::move(running_boot));
  if (!boot.ok()) return boot.error();
  Result<std::shared_ptr<host::EventLoop>> events = host::EventLoop::Make();
  if (!events.ok()) return events.error();
  auto daemon = std::make_unique<RunningDaemon>(
      *std::move(lock), *std::move(node), *std::move(state), std::move(store), std::move(cgroups),
      *std::move(sources), *std::move(bindings), *std::move(boot), *std::move(events),
      *std::move(runtime), options);
  const Result<Done> serving = daemon->Serve(options, *std::move(inherited));
  if (!serving.ok()) return serving.error();
  return std::unique_ptr<Daemon>(std::move(daemon));
}

}  // namespace alignd::daemon
