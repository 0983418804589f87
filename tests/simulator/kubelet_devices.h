// The kubelet's device manager: finds plugins as its plugin watcher does, keeps their devices,
// allocates them, and adds the plugins' answers to containers. It has no topology manager, as the
// kubelet in front of alignd runs without one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "simulator/kubelet_plugins.h"
#include "simulator/plugin_client.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// Thread-safe. Calls block.
// Source: kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go; and measured: a container keeps
// its devices, also after a restart of the kubelet; the devices of a deleted pod are free once the
// kubelet has removed the pod.
class KubeletDevices final : public PluginListener {
 public:
  using Ids = std::set<std::string>;

  // `registry`: the watched directory; created if missing. `checkpoint`: the kubelet's checkpoint
  // file, read at every start and written at every change, before the caller gets the answer;
  // empty: allocations are kept in memory only. Errors: kIo; kCorrupt.
  static Result<std::unique_ptr<KubeletDevices>> Start(std::filesystem::path registry,
                                                       KubeletTiming timing = {},
                                                       std::filesystem::path checkpoint = {});
  KubeletDevices(const KubeletDevices&) = delete;
  KubeletDevices& operator=(const KubeletDevices&) = delete;
  ~KubeletDevices() override;

  // Admits one container. The plugins' answers are kept for all its starts. A known container gets
  // no new devices. `ends`: an init container, whose devices later containers of the pod reuse
  // first. Errors: kUnavailable, as the kubelet's UnexpectedAdmissionError: too few devices, a
  // plugin that fails, or a kubelet that was killed meanwhile, which then has no record of it.
  Result<Done> Admit(const ContainerKey& key, const std::map<std::string, int>& wanted,
                     bool ends = false);

  // After a start, the kubelet admits all its pods again. Returns the pods that it refuses:
  // containers that do not run and whose devices are missing or unhealthy. Source: manager.go,
  // devicesToAllocate.
  std::vector<ContainerKey> Readmit(const std::set<ContainerKey>& running) const;

  // The answers of all plugins, for CreateContainer. Empty for an unknown container.
  std::vector<v1beta1::ContainerAllocateResponse> AnswersOf(const ContainerKey& key) const;
  // The ids that the kubelet has allocated to the container.
  Ids IdsOf(const ContainerKey& key, const std::string& resource) const;

  // The pod was removed. Errors: kIo.
  Result<Done> Forget(const std::string& pod_uid);

  // Kills and restarts the kubelet at any moment. Connections, inventory and unfinished allocations
  // are lost; finished allocations are kept.
  Result<Done> Restart();
  // The kubelet stops until Restart.
  void Stop();

  // From now on, chooses among equal devices at random, as a kubelet does, instead of in order.
  void Shuffle(uint64_t seed);

  // Healthy devices, as in node.status.allocatable; 0 for an unknown resource.
  Ids Healthy(const std::string& resource) const;
  // All listed devices, as in node.status.capacity.
  Ids Listed(const std::string& resource) const;
  bool WaitUntilHealthy(const std::string& resource, const Ids& ids,
                        std::chrono::milliseconds timeout) const;

  // The number of Allocate calls.
  int allocations() const;

  void Connected(const std::string& resource, std::shared_ptr<PluginClient> client,
                 const v1beta1::DevicePluginOptions& options) override;
  void Disconnected(const std::string& resource) override;
  void Listed(const std::string& resource, const v1beta1::ListAndWatchResponse& list) override;

 private:
  struct Owned {
    Ids ids;
    std::map<std::string, std::set<int64_t>> numa;  // by id, if the plugin reports it
    v1beta1::ContainerAllocateResponse answer;
    bool ends = false;
  };
  struct Resource {
    std::map<std::string, bool> devices;  // whether healthy, by id
    std::map<std::string, std::set<int64_t>> numa;
    std::shared_ptr<PluginClient> client;  // null: not registered since the start
    bool prefers_allocation = false;
    bool stopped = true;
  };
  // The devices to choose from.
  struct Offer {
    std::vector<std::string> reusable;  // of ended containers of the pod
    std::vector<std::string> free;
    std::shared_ptr<PluginClient> client;
    bool prefers = false;
  };

  KubeletDevices(std::filesystem::path registry, KubeletTiming timing,
                 std::filesystem::path checkpoint);

  Result<Done> ReadCheckpoint() REQUIRES(mutex_);
  Result<Done> WriteCheckpoint() const REQUIRES(mutex_);

  Result<Owned> Allocate(const ContainerKey& key, const std::string& resource, int count)
      REQUIRES(admission_mutex_);
  // Chooses among the free devices, first those of the pod's ended containers.
  Result<Ids> Choose(const std::string& resource, int count, const Offer& offer)
      REQUIRES(admission_mutex_);
  Result<Offer> Offered(const ContainerKey& key, const std::string& resource) EXCLUDES(mutex_);
  std::vector<std::string> Ordered(const Ids& ids) REQUIRES(mutex_);
  Ids HealthyIds(const std::string& resource) const REQUIRES(mutex_);

  const std::filesystem::path registry_;
  const KubeletTiming timing_;
  const std::filesystem::path checkpoint_;

  Mutex admission_mutex_;  // one admission at a time

  mutable Mutex mutex_;
  mutable CondVar changed_;
  uint64_t life_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<KubeletPlugins> plugins_ GUARDED_BY(mutex_);  // null: the kubelet is down
  std::map<std::string, Resource> resources_ GUARDED_BY(mutex_);
  // The checkpoint: by container and resource.
  std::map<ContainerKey, std::map<std::string, Owned>> owned_ GUARDED_BY(mutex_);
  std::optional<std::mt19937_64> random_ GUARDED_BY(mutex_);
  int allocations_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::simulator
