// alignd's parts that work without a caller.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "allocation/bad_state.h"
#include "allocation/boot_record.h"
#include "allocation/checkpoint_store.h"
#include "allocation/wait_queue.h"
#include "cgroup/cgroup_tree.h"
#include "control/decision_history.h"
#include "control/reports.h"
#include "daemon/inventory_relay.h"
#include "daemon/late_files.h"
#include "daemon/options.h"
#include "daemon/save_conditions.h"
#include "daemon/saved_state.h"
#include "daemon/watchdog.h"
#include "deviceplugin/plugin_registry.h"
#include "dra/claimed_devices.h"
#include "dra/container_claims.h"
#include "host/event_loop.h"
#include "metrics/event_metrics.h"
#include "mirror/binding_table.h"
#include "mirror/mirror.h"
#include "mirror/mirrored_devices.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"
#include "reconcile/bypass.h"
#include "reconcile/cdi_names.h"
#include "reconcile/conditions.h"
#include "reconcile/container_mover.h"
#include "reconcile/container_registry.h"
#include "reconcile/kubelet_watch.h"
#include "reconcile/reconciler.h"
#include "reconcile/runtime_client.h"
#include "service/client.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::daemon {

// What the parts are made of: what can fail was done before.
struct PartsInput {
  admission::Node node;
  SavedState saved;
  allocation::StateFindings findings;
  std::optional<allocation::WaitQueue> waiting;  // of the configuration before
  reconcile::CdiNames::Known cdi_names;          // as they were known before
  reconcile::LiftedQuotas lifted_quotas;         // likewise
  std::unique_ptr<cgroup::CgroupTree> cgroups;
  std::unique_ptr<podsource::ResourceSource> sources;
  std::shared_ptr<host::EventLoop> events;
  std::shared_ptr<host::EventLoop> services;
  std::shared_ptr<service::Client> runtime;
  std::optional<Error> known_cpus_failure;  // nullopt: the file is up to date
};

// Members are constructed from top to bottom and destroyed in reverse order. The queues are
// destroyed after all objects that post to them. Such an object makes its posted tasks harmless in
// its destructor, as RecurringTask does.
struct Parts {
  // Connects the parts. Nothing runs yet.
  Parts(PartsInput input, const Options& options);
  // Stops the reconciler, then the threads `services`, `events` and `io`. After that only callbacks
  // run that the plugins and the allocation manager still have; they use the registry, the
  // (stopped) reconciler and `mirror`, which is empty by then. Servers that use the parts have
  // ended before.
  ~Parts();

  void Start();

  // For the reports of the status. The parts and `changer`, if given, outlive the result.
  control::ReportSources ReportSourcesFor(const Options& options, control::ConfigChanger* changer);
  // The prepared claims, as they are now. May block. Errors: as dra::ReadClaims.
  Result<dra::ContainerClaims> Claims() const;
  // The handlers of intercepted CRI methods, as cri::WithBypass has them.
  proxy::HandlerFactory Handlers(const Options& options);
  // See Daemon::CheckConfigFile.
  void CheckConfigFile();
  // See Daemon::WatchedThreads.
  std::map<std::string, Watchdog::Post> WatchedThreads();

  // Null: none is served any more. Waits for the end of the former one.
  void SetMirror(std::unique_ptr<mirror::Mirror> mirror);

  const admission::Node node;
  const std::unique_ptr<allocation::CheckpointStore> store;
  const std::unique_ptr<mirror::BindingTable> bindings;
  const std::unique_ptr<allocation::BootRecord> boot;
  const std::unique_ptr<reconcile::Bypass> bypass;
  const mirror::KubeletAllocatedBefore kubelet_allocated_before;  // as it was before any release
  metrics::EventMetrics metrics;
  std::atomic<bool> is_stopping = false;
  // Outlives this; null: there is none.
  std::atomic<control::ConfigChanger*> config_changer = nullptr;
  InventoryRelay relay;
  reconcile::Conditions conditions;
  SaveConditions save_conditions{conditions, metrics};
  LateFiles late_files{conditions};
  TaskQueue background{"background"};  // tasks that never block
  TaskQueue io{"io"};                  // tasks that may block
  const std::shared_ptr<host::EventLoop> events;
  const std::shared_ptr<host::EventLoop> services;  // of the sockets other than the CRI socket
  const std::unique_ptr<cgroup::CgroupTree> cgroups;
  control::DecisionHistory history;
  reconcile::KubeletWatch kubelet_watch;
  reconcile::ContainerRegistry registry;
  reconcile::RuntimeClient runtime;
  reconcile::CdiNames cdi_names;
  reconcile::ContainerMover mover;
  reconcile::Reconciler reconciler;
  Mutex mirror_mutex;
  std::unique_ptr<mirror::Mirror> mirror GUARDED_BY(mirror_mutex);
  deviceplugin::PluginRegistry plugins;
  mirror::MirroredDevices mirrored_devices;
  allocation::AllocationManager allocation;
  const std::unique_ptr<podsource::ResourceSource> sources;
  const dra::Places claimed_devices;
  const proxy::HandlerFactory container_handlers;

 private:
  bool ListAnew();
  void LookForUnattachedKubelet();
  void RefreshMirror();
  void CheckStateFiles();
  void NotePublication(const control::v1::TopologyPublication& publication);
  deviceplugin::PluginSettings PluginSettingsOf(const Options& options);
  reconcile::Reconciler::Options ReconcilerOptions(const Options& options,
                                                   allocation::StateFindings findings,
                                                   reconcile::LiftedQuotas lifted);
};

}  // namespace alignd::daemon
