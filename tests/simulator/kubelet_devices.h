// A small stand-in for the kubelet's device manager: finds plugins as its plugin watcher does,
// counts their devices, allocates, remembers, and gives containers what was answered. It has no
// topology manager, for the kubelet in front of alignd runs without one.
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
// Source: kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go; and as measured: a container whose
// devices are known is never allocated for again, also not after a restart of the kubelet; a
// deleted pod's devices are free once the pod is forgotten.
class KubeletDevices final : public PluginListener {
 public:
  using Ids = std::set<std::string>;

  // `registry`: the directory that is watched. Made if it is not there. `checkpoint`: the kubelet's
  // file of that name, read at every start and written whenever something is allocated or given
  // back, before anybody hears of it; empty: what is allocated is kept in memory.
  // Errors: kIo; kCorrupt.
  static Result<std::unique_ptr<KubeletDevices>> Start(std::filesystem::path registry,
                                                       KubeletTiming timing = {},
                                                       std::filesystem::path checkpoint = {});
  KubeletDevices(const KubeletDevices&) = delete;
  KubeletDevices& operator=(const KubeletDevices&) = delete;
  ~KubeletDevices() override;

  // Admission of one container: what its plugins answered is kept for all its starts. A container
  // that is known gets nothing new. `ends`: an init container, whose devices the containers of its
  // pod that are admitted later take first.
  // Errors: kUnavailable, as the kubelet's UnexpectedAdmissionError: too few devices, a plugin that
  // fails, or a kubelet that was killed meanwhile, and that then knows nothing of it.
  Result<Done> Admit(const ContainerKey& key, const std::map<std::string, int>& wanted,
                     bool ends = false);

  // What a kubelet does with all its pods when it has started: admits them again. Gives those that
  // it refuses for good: containers that do not run and whose devices are not there or not healthy.
  // Source: manager.go, devicesToAllocate.
  std::vector<ContainerKey> Readmit(const std::set<ContainerKey>& running) const;

  // What goes into CreateContainer: the answers of all plugins. None of an unknown container.
  std::vector<v1beta1::ContainerAllocateResponse> AnswersOf(const ContainerKey& key) const;
  // The ids that the kubelet believes the container to have.
  Ids IdsOf(const ContainerKey& key, const std::string& resource) const;

  // The pod is gone. Errors: kIo.
  Result<Done> Forget(const std::string& pod_uid);

  // Killed, in whatever it does, and started again: connections and inventory are lost, and what
  // was being allocated; what was allocated is not.
  Result<Done> Restart();
  // As long as it is down.
  void Stop();

  // Chooses among equal devices by chance from now on, as a kubelet does, instead of in order.
  void Shuffle(uint64_t seed);

  // Healthy devices, as node.status.allocatable counts them; none of an unknown resource.
  Ids Healthy(const std::string& resource) const;
  // All that are listed, as node.status.capacity counts them.
  Ids Listed(const std::string& resource) const;
  bool WaitUntilHealthy(const std::string& resource, const Ids& ids,
                        std::chrono::milliseconds timeout) const;

  // How often plugins were asked to allocate.
  int allocations() const;

  void Connected(const std::string& resource, std::shared_ptr<PluginClient> client,
                 const v1beta1::DevicePluginOptions& options) override;
  void Disconnected(const std::string& resource) override;
  void Listed(const std::string& resource, const v1beta1::ListAndWatchResponse& list) override;

 private:
  struct Held {
    Ids ids;
    std::map<std::string, std::set<int64_t>> numa;  // by id, where the plugin tells
    v1beta1::ContainerAllocateResponse answer;
    bool ends = false;
  };
  struct Resource {
    std::map<std::string, bool> devices;  // whether healthy, by id
    std::map<std::string, std::set<int64_t>> numa;
    std::shared_ptr<PluginClient> client;  // null: not seen in this life
    bool prefers_allocation = false;
    bool stopped = true;
  };
  // What there is to choose from.
  struct Offer {
    std::vector<std::string> left;  // by ended containers of the pod
    std::vector<std::string> free;
    std::shared_ptr<PluginClient> client;
    bool prefers = false;
  };

  KubeletDevices(std::filesystem::path registry, KubeletTiming timing,
                 std::filesystem::path checkpoint);

  Result<Done> ReadCheckpoint() REQUIRES(mutex_);
  Result<Done> WriteCheckpoint() const REQUIRES(mutex_);

  Result<Held> Allocate(const ContainerKey& key, const std::string& resource, int count)
      REQUIRES(admission_mutex_);
  // Chooses among what is free; what the pod's ended containers leave comes first.
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
  std::map<ContainerKey, std::map<std::string, Held>> held_ GUARDED_BY(mutex_);
  std::optional<std::mt19937_64> random_ GUARDED_BY(mutex_);
  int allocations_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::simulator
