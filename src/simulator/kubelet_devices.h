// A small stand-in for the kubelet's device manager: finds plugins as its plugin watcher does,
// counts their devices, allocates, remembers, and gives containers what was answered. It has no
// topology manager, for the kubelet in front of alignd runs without one.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"
#include "allocation/device_plugins.h"
#include "deviceplugin/plugin_registry.h"
#include "deviceplugin/plugin_watcher.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// Thread-safe. Calls block.
// Source: kubelet 1.36 pkg/kubelet/cm/devicemanager/manager.go; and as measured: a container whose
// devices are known is never allocated for again, also not after a restart of the kubelet; a
// deleted pod's devices are free once the pod is forgotten.
class KubeletDevices final : public allocation::InventorySink {
 public:
  using Annotations = std::map<std::string, std::string>;

  // `registry`: the directory that is watched. Made if it is not there.
  // Errors: kIo.
  static Result<std::unique_ptr<KubeletDevices>> Start(std::filesystem::path registry,
                                                       std::chrono::milliseconds grace);
  KubeletDevices(const KubeletDevices&) = delete;
  KubeletDevices& operator=(const KubeletDevices&) = delete;
  ~KubeletDevices() override;

  // Admission of one container: what its plugins answered is kept for all its starts. A container
  // that is known gets nothing new. `ends`: an init container, whose devices the containers of its
  // pod that are admitted later take first.
  // Errors: kUnavailable, as the kubelet's UnexpectedAdmissionError: too few devices, or a
  // plugin that fails.
  Result<Done> Admit(const ContainerKey& key, const std::map<std::string, int>& wanted,
                     bool ends = false);

  // What goes into CreateContainer: the annotations of all answers. Empty for an unknown container.
  Annotations AnnotationsOf(const ContainerKey& key) const;
  // The ids that the kubelet believes the container to have.
  std::set<std::string> IdsOf(const ContainerKey& key, const std::string& resource) const;

  // The pod is gone.
  void Forget(const std::string& pod_uid);

  // Killed and started again: connections and inventory are lost, what was allocated is not.
  Result<Done> Restart();
  // As long as it is down.
  void Stop();

  // Healthy devices, as node.status.capacity shows it; none of an unknown resource.
  std::set<std::string> Healthy(const std::string& resource) const;
  bool WaitUntilHealthy(const std::string& resource, const std::set<std::string>& ids,
                        std::chrono::milliseconds timeout) const;

  // How often plugins were asked to allocate.
  int allocations() const;

  void SetResource(std::string name, devicemanager::Resource resource) override;
  void RemoveResource(const std::string& name) override;

 private:
  struct Held {
    std::set<std::string> ids;
    Annotations annotations;
    bool ends = false;
  };

  KubeletDevices(std::filesystem::path registry, std::chrono::milliseconds grace);

  Result<Held> Allocate(const ContainerKey& key, const std::string& resource, int count)
      REQUIRES(admission_mutex_);
  // Chooses among what is free; what the pod's ended containers leave comes first.
  Result<std::set<std::string>> Choose(const ContainerKey& key, const std::string& resource,
                                       int count) REQUIRES(admission_mutex_);
  std::set<std::string> HealthyIds(const std::string& resource) const REQUIRES(mutex_);

  const std::filesystem::path registry_;
  const std::chrono::milliseconds grace_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<std::string, devicemanager::Resource> resources_ GUARDED_BY(mutex_);
  // By container and resource.
  std::map<ContainerKey, std::map<std::string, Held>> held_ GUARDED_BY(mutex_);
  int allocations_ GUARDED_BY(mutex_) = 0;

  Mutex admission_mutex_;  // one admission at a time, and none while plugins are lost
  std::unique_ptr<deviceplugin::PluginRegistry> plugins_ GUARDED_BY(admission_mutex_);
  std::unique_ptr<deviceplugin::PluginWatcher> watcher_ GUARDED_BY(admission_mutex_);
};

}  // namespace alignd::simulator
