#include "daemon/daemon.h"

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "alignd/scenario/scenario.h"
#include "allocation/allocation_manager.h"
#include "allocation/checkpoint_store.h"
#include "control/control_server.h"
#include "cri/container_handlers.h"
#include "cri/container_registry.h"
#include "cri/forwarder.h"
#include "cri/reconciler.h"
#include "cri/runtime_client.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/registration_server.h"
#include "host/config_file.h"
#include "host/durable_file.h"
#include "host/file.h"
#include "host/sysfs_machine.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"

namespace alignd::daemon {
namespace {

// How long calls under way may take to end by themselves when we stop.
constexpr std::chrono::seconds kShutdownGrace{2};

// The plugin registry tells the allocation manager what there is, which in turn asks the registry.
// This stands between them for as long as not both are there. Thread-safe.
class InventoryRelay final : public allocation::InventorySink {
 public:
  // Null: what comes is dropped.
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
  const Result<std::string> text = host::ReadFile(options.node);
  if (!text.ok()) return text.error();
  Result<scenario::NodeDescription> node = scenario::ParseNode(*text);
  if (!node.ok()) return node.error().In(options.node.string());
  return std::move(node->machine);
}

Result<admission::Node> MakeNode(const Options& options) {
  Result<Machine> machine = ReadMachine(options);
  if (!machine.ok()) return machine.error();
  Result<KubeletConfig> config = options.config.empty() ? Result<KubeletConfig>(KubeletConfig())
                                                        : host::ReadConfigFile(options.config);
  if (!config.ok()) return config.error();
  if (options.compatibility) config->compatibility = *options.compatibility;
  return admission::Node::Make(*std::move(machine), *std::move(config));
}

std::set<std::string> ResourceNames(const admission::NodeState& state) {
  std::set<std::string> names;
  for (const auto& [name, resource] : state.devices.resources) names.insert(name);
  return names;
}

// What the runtime's container ids stand for. Only a cpu_manager_state from before Kubernetes 1.18
// names containers by them; where the runtime is not there, such a file is refused with the cure.
std::map<std::string, ContainerKey> ContainersOf(const std::shared_ptr<grpc::Channel>& channel,
                                                 const Options& options) {
  std::map<std::string, ContainerKey> containers;
  const Result<cri::RuntimeListing> listing =
      cri::RuntimeClient(channel, options.runtime_timeout).List();
  if (!listing.ok()) return containers;
  for (const cri::RuntimeListing::Container& container : listing->containers) {
    containers[container.id] = container.key;
  }
  return containers;
}

deviceplugin::PluginSettings SettingsOf(const Options& options) {
  deviceplugin::PluginSettings settings;
  settings.deadlines.allocate = options.plugin_timeout;
  return settings;
}

// Once the runtime is away for a moment we would take its socket and forward to ourselves.
Result<Done> RequireTwoSockets(const Options& options) {
  const Result<std::string> ours = rpc::SocketPath(options.listen);
  if (!ours.ok()) return ours.error().In("--listen");
  const Result<std::string> runtimes = rpc::SocketPath(options.runtime_endpoint);
  if (!runtimes.ok()) return runtimes.error().In("--runtime-endpoint");
  std::error_code code;
  const bool same = *ours == *runtimes || std::filesystem::equivalent(*ours, *runtimes, code);
  if (!same) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "--listen and --runtime-endpoint are one socket: " + *ours,
               "give alignd a socket of its own, and the kubelet that one"};
}

// Members are made from top to bottom and go in reverse. Callbacks that the plugins and the
// allocation manager still hold when they go use the registry and the (stopped) reconciler.
class RunningDaemon final : public Daemon {
 public:
  RunningDaemon(host::DirectoryLock lock, admission::Node node, admission::NodeState state,
                std::unique_ptr<allocation::CheckpointStore> store,
                std::shared_ptr<grpc::Channel> runtime, const Options& options)
      : lock_(std::move(lock)),
        node_(std::move(node)),
        store_(std::move(store)),
        runtime_(runtime, options.runtime_timeout),
        reconciler_(node_, allocation_, registry_, runtime_, ReconcilerOptions()),
        plugins_(SettingsOf(options), relay_),
        allocation_(node_, state, *store_, plugins_),
        forwarder_(cri::MakeForwarder(
            std::move(runtime),
            cri::MakeContainerHandlers({node_, allocation_, plugins_, registry_, reconciler_}))) {
    relay_.ConnectTo(&allocation_);
    plugins_.Expect(ResourceNames(state));
    allocation_.OnChange([this](const auto&) { reconciler_.Nudge(); });
  }

  ~RunningDaemon() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    server_.reset();
    control_.reset();
    registration_.reset();
    forwarder_.reset();
    relay_.ConnectTo(nullptr);
    reconciler_.Stop();
  }

  Result<Done> Serve(const Options& options) {
    reconciler_.Start();
    auto registration = deviceplugin::RegistrationServer::Start(
        std::filesystem::absolute(options.DevicePluginDir()), plugins_);
    if (!registration.ok()) return registration.error();
    registration_ = *std::move(registration);
    auto status_server =
        control::ControlServer::Start(options.ControlSocket(), ALIGND_VERSION, node_, allocation_);
    if (!status_server.ok()) return status_server.error();
    control_ = *std::move(status_server);
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(forwarder_.get());
    auto server = rpc::Listen(options.listen, builder);
    if (!server.ok()) return server.error();
    server_ = *std::move(server);
    return Done{};
  }

 private:
  cri::Reconciler::Options ReconcilerOptions() const {
    cri::Reconciler::Options options;
    options.period = std::chrono::milliseconds(node_.config.cpu_manager_reconcile_period_ms);
    return options;
  }

  const host::DirectoryLock lock_;
  const admission::Node node_;
  const std::unique_ptr<allocation::CheckpointStore> store_;
  InventoryRelay relay_;
  cri::ContainerRegistry registry_;
  cri::RuntimeClient runtime_;
  cri::Reconciler reconciler_;
  deviceplugin::PluginRegistry plugins_;
  allocation::AllocationManager allocation_;
  std::unique_ptr<grpc::CallbackGenericService> forwarder_;
  std::unique_ptr<deviceplugin::RegistrationServer> registration_;
  std::unique_ptr<control::ControlServer> control_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const Options& options) {
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
  auto store = std::make_unique<allocation::CheckpointStore>(
      allocation::StatePaths{options.state_dir, options.DevicePluginDir()});
  Result<admission::NodeState> state = store->Load(*node, ContainersOf(*runtime, options));
  if (!state.ok()) return state.error();
  auto daemon =
      std::make_unique<RunningDaemon>(*std::move(lock), *std::move(node), *std::move(state),
                                      std::move(store), *std::move(runtime), options);
  const Result<Done> serving = daemon->Serve(options);
  if (!serving.ok()) return serving.error();
  return std::unique_ptr<Daemon>(std::move(daemon));
}

}  // namespace alignd::daemon
