#include "mirror/mirrored_devices.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "mirror/kubelet_allocated.h"
#include "mirror/kubelet_allocated_refusal.h"
#include "sync/mutex.h"

namespace alignd::mirror {

using admission::NodeState;
using checkpoint::DeviceCheckpoint;

namespace {

constexpr std::chrono::milliseconds kReadAgain{250};

}  // namespace

// Reads the kubelet's checkpoint on the `io` queue. Thread-safe.
class MirroredDevices::Reader : public std::enable_shared_from_this<Reader> {
 public:
  Reader(KubeletCheckpoint kubelet, TaskQueue& io) : kubelet_(std::move(kubelet)), io_(io) {}

  // Tasks that have yet to run do nothing.
  void Stop() {
    const MutexLock lock(mutex_);
    stopped_ = true;
  }

  void Learn(const std::string& pod_uid, std::function<void(Learned)> done) {
    io_.Post([self = shared_from_this(), pod_uid, done = std::move(done)] {
      if (self->IsStopped()) return;
      const Result<DeviceCheckpoint> read = self->kubelet_.read();
      if (self->IsStopped()) return;
      if (!read.ok()) return done(read.error());
      LearnedPod learned{AllocatedTo(*read, pod_uid), {}};
      learned.of_own_plugins =
          AllocatedTo(WithoutMirrors(*read, self->kubelet_.is_mirrors), pod_uid);
      done(std::move(learned));
    });
  }

  // Reads again and again until it succeeds.
  void Prepare(const std::set<std::string>& resources, std::function<void()> ready) {
    io_.Post([self = shared_from_this(), resources, ready = std::move(ready)] {
      self->TryToPrepare(resources, /*last_fault=*/{}, ready);
    });
  }

  // What the kubelet's own plugins had assigned at the last reading for Prepare.
  std::shared_ptr<const DeviceCheckpoint> of_kubelets_plugins() const {
    const MutexLock lock(mutex_);
    return of_kubelets_plugins_;
  }

 private:
  bool IsStopped() const {
    const MutexLock lock(mutex_);
    return stopped_;
  }

  void TryToPrepare(const std::set<std::string>& resources, const std::string& last_fault,
                    const std::function<void()>& ready) {
    if (IsStopped()) return;
    Result<DeviceCheckpoint> read = kubelet_.read();
    // A kubelet that never allocated devices has no such file.
    if (!read.ok() && read.error().code == ErrorCode::kNotFound) read = DeviceCheckpoint();
    if (read.ok()) {
      {
        const MutexLock lock(mutex_);
        if (stopped_) return;
        of_kubelets_plugins_ = std::make_shared<const DeviceCheckpoint>(
            WithoutMirrors(*std::move(read), kubelet_.is_mirrors));
      }
      return ready();
    }
    const std::string fault = read.error().Text();
    if (fault != last_fault) {
      spdlog::error(
          "{}: the devices that the kubelet allocated are not known, so that none is assigned: {}",
          *resources.begin(), fault);
    }
    io_.PostAt(TaskQueue::Clock::now() + kReadAgain,
               [self = shared_from_this(), resources, fault, ready] {
                 self->TryToPrepare(resources, fault, ready);
               });
  }

  const KubeletCheckpoint kubelet_;
  TaskQueue& io_;
  mutable Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<const DeviceCheckpoint> of_kubelets_plugins_ GUARDED_BY(mutex_) =
      std::make_shared<const DeviceCheckpoint>();
};

MirroredDevices::MirroredDevices(const std::optional<BindingModes>& modes,
                                 TopologyManagerScope scope, BindingTable& bindings,
                                 KubeletCheckpoint kubelet, TaskQueue& io)
    : mirrors_(modes.has_value()),
      modes_(modes.value_or(BindingMode::kPreferred)),
      bindings_(bindings),
      completion_(modes, scope),
      reader_(std::make_shared<Reader>(std::move(kubelet), io)) {}

MirroredDevices::~MirroredDevices() { reader_->Stop(); }

Result<std::optional<NodeState>> MirroredDevices::TakeOver(const ContainerKey& key,
                                                           const NodeState& state) {
  const auto of_plugins = reader_->of_kubelets_plugins();
  const auto assigned = of_plugins->allocations.find(key);
  std::optional<NodeState> next;
  if (assigned == of_plugins->allocations.end()) return next;
  for (const auto& [resource, allocation] : assigned->second) {
    const bool has_plugin = state.devices.resources.contains(resource);
    if (!has_plugin || state.devices.Find(key, resource) != nullptr) continue;
    if (!next) next = state;
    const TakenOver taken = mirror::TakeOver(*of_plugins, resource, *bindings(), *next, &key);
    if (!taken.conflicts.empty()) {
      return Error{ErrorCode::kUnavailable, resource + ": " + taken.conflicts.front(),
                   "delete one of the two pods"};
    }
    if (Result<Done> bound = bindings_.Set(taken.bound); !bound.ok()) return bound.error();
  }
  return next;
}

bool MirroredDevices::AreBound(const std::string& pod_uid,
                               const KubeletAllocatedPod& allocated) const {
  return mirror::AreBound(*bindings(), pod_uid, allocated);
}

bool MirroredDevices::MustLearn(const NodeState& state,
                                const allocation::AdmissionRequest& request) const {
  return completion_.MustLearn(state, request);
}

void MirroredDevices::Learn(const std::string& pod_uid, std::function<void(Learned)> done) {
  reader_->Learn(pod_uid, std::move(done));
}

Result<Done> MirroredDevices::Complete(const NodeState& state,
                                       const std::optional<Learned>& learned,
                                       allocation::AdmissionRequest& request) {
  std::optional<Result<KubeletAllocatedPod>> allocated;
  if (learned) {
    allocated = learned->ok() ? Result((*learned)->allocated)
                              : Result<KubeletAllocatedPod>(learned->error());
  }
  return completion_.Complete(state, allocated, request);
}

std::optional<Error> MirroredDevices::Unallocated(
    const NodeState& state, const allocation::AdmissionRequest& request) const {
  return mirrors_ ? WhyUnallocated(state, request) : std::nullopt;
}

std::optional<Refusal> MirroredDevices::Refuse(const NodeState& state, const Pod& pod,
                                               const KubeletAllocatedPod& allocated) const {
  return RefuseKubeletAllocated(state, pod, allocated, *bindings(), modes_);
}

admission::Admission MirroredDevices::Admit(
    const admission::Node& node, const NodeState& state, const Pod& pod,
    const KubeletAllocatedPod& allocated,
    const devicemanager::PreferredAllocationFn& preferred) const {
  return AdmitKubeletAllocated(node, state, pod, allocated, *bindings(), modes_, preferred);
}

std::string MirroredDevices::Explain(const admission::Node& node, const NodeState& state,
                                     const Pod& pod, const KubeletAllocatedPod& allocated,
                                     const checkpoint::Bindings& bindings) const {
  return ExplainKubeletAllocated(node, state, pod, allocated, bindings, modes_);
}

Result<Done> MirroredDevices::Bind(const NodeState& state, const std::string& pod_uid,
                                   const KubeletAllocatedPod& allocated) {
  return bindings_.Set(mirror::Bind(state, pod_uid, allocated));
}

void MirroredDevices::DropUnassigned(const NodeState& state, const std::string& pod_uid) {
  bindings_.DropUnassigned(state, pod_uid);
}

void MirroredDevices::Forget(const std::set<std::string>& pod_uids) { bindings_.Forget(pod_uids); }

Result<Done> MirroredDevices::SaveNewBindings(const checkpoint::Bindings& now) {
  return bindings_.SaveNew(now);
}

Result<Done> MirroredDevices::SaveBindings(const checkpoint::Bindings& now) {
  return bindings_.Save(now);
}

std::shared_ptr<const checkpoint::Bindings> MirroredDevices::bindings() const {
  return bindings_.snapshot();
}

bool MirroredDevices::Prepare(const std::set<std::string>& resources, std::function<void()> ready) {
  if (!mirrors_) return false;
  reader_->Prepare(resources, std::move(ready));
  return true;
}

Result<Done> MirroredDevices::Arrive(const std::string& resource, NodeState& state) {
  // Bindings first: the kubelet must never see assigned devices without the ids that are bound to
  // them.
  const TakenOver taken =
      mirror::TakeOver(*reader_->of_kubelets_plugins(), resource, *bindings(), state);
  for (const std::string& conflict : taken.conflicts) {
    spdlog::error("{}: {}; delete one of the two pods", resource, conflict);
  }
  for (const auto& [key, devices] : taken.bound) {
    spdlog::info("{}: container {} of pod {} keeps the devices that the kubelet allocated to it",
                 resource, key.container, key.pod_uid);
  }
  return bindings_.Set(taken.bound);
}

}  // namespace alignd::mirror
