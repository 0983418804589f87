#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cri/handlers.h"
#include "cri/malformed.h"
#include "cri/tracked_call.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// One StartContainer. Its steps stand in the order in which they happen; all run on the events
// thread.
class StartContainer final : public proxy::CallHandler {
 public:
  explicit StartContainer(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override {
    bytes_ = std::move(bytes);
    if (!ReadRequest(bytes_, request_, decide)) return;
    context_.reconciler.BeforeStart(request_.container_id(),
                                    Next(&StartContainer::FindPlugins, std::move(decide)));
  }

  // Which plugins must be called first. The container is looked up only now: BeforeStart has the
  // runtime listed for one that alignd does not know.
  void FindPlugins(Result<Done> safe, Decide decide) {
    if (!safe.ok()) return decide(rpc::ToStatus(safe.error()));
    const std::optional<std::string> id = FindId();
    const std::optional<ContainerKey> key = id ? context_.registry.KeyOf(*id) : std::nullopt;
    if (!key) return decide(std::move(bytes_));
    id_ = *id;
    key_ = *key;
    pre_starts_ = PreStarts();
    CallNextPlugin(Done{}, std::move(decide));
  }

  // Calls PreStartContainer of one plugin after the other. The first failure ends the call.
  void CallNextPlugin(Result<Done> before, Decide decide) {
    if (!before.ok()) return decide(rpc::ToStatus(before.error()));
    if (pre_starts_.empty()) return FindRunning(std::move(decide));
    PreStart next = std::move(pre_starts_.back());
    pre_starts_.pop_back();
    context_.plugins.PreStartContainer(next.resource, std::move(next.ids),
                                       Next(&StartContainer::CallNextPlugin, std::move(decide)));
  }

  // Which other containers of the pod run. One that was taken for an init container may be a
  // sidecar, or a container that has ended and runs once more: no source but an annotation may know
  // the roles, and an earlier version may have concluded them. What it has is not released, and no
  // other container starts on its CPUs or with its devices. The runtime is asked, because the
  // registry may not have seen yet that it has ended.
  void FindRunning(Decide decide) {
    running_ = InitContainersWithAssignment();
    if (running_.empty() && WithTheSame().empty()) return AwaitCpus(std::move(decide));
    const std::vector<std::string> sandboxes = context_.registry.SandboxesOf(key_.pod_uid);
    if (sandboxes.size() != 1) return AwaitCpus(std::move(decide));
    context_.runtime.ListSandbox(sandboxes.front(),
                                 Next(&StartContainer::TakeRunning, std::move(decide)));
  }

  void TakeRunning(Result<std::vector<reconcile::SandboxContainer>> listed, Decide decide) {
    const std::map<std::string, std::string> same = WithTheSame();
    if (!listed.ok()) {
      if (!same.empty()) return decide(rpc::ToStatus(MayRunWithTheSame(same, listed.error())));
      spdlog::warn(
          "pod {}: it is not known which of its init containers have ended, so what they are "
          "assigned is released later: {}",
          context_.registry.PodName(key_.pod_uid), listed.error().Text());
      return AwaitCpus(std::move(decide));
    }
    running_.clear();
    for (const reconcile::SandboxContainer& container : *listed) {
      const auto with_same = same.find(container.name);
      if (container.is_running && with_same != same.end()) {
        return decide(rpc::ToStatus(RunsOnTheSame(container.name, with_same->second)));
      }
      if (!container.exit_code) running_.insert(container.name);
    }
    AwaitCpus(std::move(decide));
  }

  // Once more: the plugins may have taken long.
  void AwaitCpus(Decide decide) {
    context_.reconciler.BeforeStart(id_, Next(&StartContainer::Start, std::move(decide)));
  }

  void Start(Result<Done> safe, Decide decide) {
    if (safe.ok() && request_.container_id() != id_ && FindId() != id_) safe = NotUnique();
    if (!safe.ok()) return decide(rpc::ToStatus(safe.error()));
    context_.allocation.ContainerStarts(key_, running_);
    call_.emplace(context_.registry, context_.reconciler, id_, /*changes_cpus=*/false);
    decide(std::move(bytes_));
  }

  void OnResponse(const grpc::Status& status, const std::string*) override {
    if (call_) call_->Answered(status);
    call_.reset();
    context_.reconciler.Started();
  }

 private:
  struct PreStart {
    std::string resource;
    std::vector<std::string> ids;
  };

  template <typename Argument>
  std::function<void(Argument)> Next(void (StartContainer::*step)(Argument, Decide),
                                     Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  // The whole id of the container that the request names.
  std::optional<std::string> FindId() const {
    return context_.registry.ContainerNamed(request_.container_id());
  }

  // The other containers of the pod that are assigned some of this one's exclusive CPUs or devices,
  // and these: ended init containers. What a pod has as a whole, its containers may share.
  std::map<std::string, std::string> WithTheSame() const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    std::map<std::string, std::string> same;
    const auto add = [&same](const std::string& container, const std::string& what) {
      std::string& list = same[container];
      list += (list.empty() ? "" : ", ") + what;
    };
    const cpumanager::CpuState& cpu = snapshot->state.cpu;
    const CpuSet* const own = cpu.Find(key_);
    if (own != nullptr && !cpu.pods.contains(key_.pod_uid)) {
      for (const auto& [name, cpus] : cpu.assignments.at(key_.pod_uid)) {
        const CpuSet both = *own & cpus;
        if (name != key_.container && !both.empty()) add(name, "CPUs " + both.ToString());
      }
    }
    const auto& allocations = snapshot->state.devices.allocations;
    const auto devices = allocations.find(key_);
    if (devices == allocations.end()) return same;
    for (auto other = allocations.lower_bound({key_.pod_uid, ""});
         other != allocations.end() && other->first.pod_uid == key_.pod_uid; ++other) {
      if (other->first == key_) continue;
      for (const auto& [resource, allocation] : devices->second) {
        const auto theirs = other->second.find(resource);
        if (theirs == other->second.end()) continue;
        const std::set<std::string> ids = theirs->second.Ids();
        for (const std::string& id : allocation.Ids()) {
          if (ids.contains(id)) add(other->first.container, resource + " " + id);
        }
      }
    }
    return same;
  }

  Error MayRunWithTheSame(const std::map<std::string, std::string>& same,
                          const Error& unlisted) const {
    const auto& [other, what] = *same.begin();
    return {ErrorCode::kUnavailable,
            "container " + key_.container + " of pod " + context_.registry.PodName(key_.pod_uid) +
                " cannot start: it is not known whether container " + other +
                " of the same pod has ended, which is assigned the same " + what + ": " +
                unlisted.message,
            unlisted.remedy};
  }

  Error RunsOnTheSame(const std::string& other, const std::string& same) const {
    return {ErrorCode::kUnavailable,
            "container " + key_.container + " of pod " + context_.registry.PodName(key_.pod_uid) +
                " cannot start: container " + other + " of the same pod runs with " + same +
                ", which both are assigned because one was taken for an init container that has "
                "ended",
            "if an annotation with resources calls a sidecar an init container, or lists it after "
            "one that starts later, correct it; then delete the pod"};
  }

  // The pod's other containers that were taken for init containers and have something, as far as
  // the registry lists them.
  std::set<std::string> InitContainersWithAssignment() const {
    const std::set<std::string> listed = context_.registry.ContainersOf(key_.pod_uid);
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    std::set<std::string> names = context_.allocation.InitContainers(key_.pod_uid);
    std::erase_if(names, [&](const std::string& name) {
      const ContainerKey other{key_.pod_uid, name};
      return name == key_.container || !listed.contains(name) ||
             (snapshot->state.cpu.Find(other) == nullptr &&
              snapshot->state.memory.Find(other) == nullptr);
    });
    return names;
  }

  // The resources whose plugin requires PreStartContainer, with the devices that the container is
  // assigned; the last one by name first.
  std::vector<PreStart> PreStarts() const {
    std::vector<PreStart> calls;
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const devicemanager::DeviceState& devices = snapshot->state.devices;
    const auto assigned = devices.allocations.find(key_);
    if (assigned == devices.allocations.end()) return calls;
    for (const auto& [name, allocation] : assigned->second) {
      const auto resource = devices.resources.find(name);
      if (resource == devices.resources.end() || !resource->second.pre_start_required) continue;
      const std::set<std::string> ids = allocation.Ids();
      calls.insert(calls.begin(), {name, std::vector<std::string>(ids.begin(), ids.end())});
    }
    return calls;
  }

  Error NotUnique() const {
    return {ErrorCode::kUnavailable,
            "\"" + request_.container_id() + "\" no longer names container " + id_ + " alone",
            "use the whole id of the container, if the container still exists"};
  }

  const HandlerContext context_;
  std::string bytes_;  // the request as it came
  v1::StartContainerRequest request_;
  std::string id_;  // the whole id
  ContainerKey key_;
  std::set<std::string> running_;     // see FindRunning
  std::vector<PreStart> pre_starts_;  // not yet called; the next one is the last
  std::optional<ContainerCall> call_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeStartContainer(const HandlerContext& context) {
  return std::make_unique<StartContainer>(context);
}

}  // namespace alignd::cri
