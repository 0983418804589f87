#include "control/topology_service.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "alignd/noderesourcetopology/object.h"
#include "alignd/noderesourcetopology/pod_placement.h"
#include "sync/mutex.h"

namespace alignd::control {
namespace {

// nullopt: they are not all known.
std::optional<std::vector<noderesourcetopology::PodIdentity>> PodsWithContainers(
    const ReportSources& sources, const admission::NodeState& state) {
  if (!sources.running) return std::nullopt;
  std::vector<noderesourcetopology::PodIdentity> pods;
  for (const auto& pod : sources.running(admission::PodsIn(state))) {
    if (pod.containers.empty()) continue;
    if (pod.name.empty() || pod.name_space.empty()) return std::nullopt;
    pods.push_back({pod.name_space, pod.name, pod.uid});
  }
  return pods;
}

// As far as they are known.
noderesourcetopology::KnownPods KnownPods(const ReportSources& sources,
                                          const admission::NodeState& state) {
  noderesourcetopology::KnownPods pods;
  for (const auto& [uid, name] : AllPodNames(sources)) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos) continue;
    pods[uid] = {
        .name_space = name.substr(0, slash), .name = name.substr(slash + 1), .decided = {}};
  }
  if (!sources.running) return pods;
  for (const auto& pod : sources.running(admission::PodsIn(state))) {
    pods[pod.uid].decided = pod.decided;
  }
  return pods;
}

// `state` is at least as new as the pods.
void AddObject(const ReportSources& sources, const v1::GetTopologyRequest& request,
               const admission::NodeState& state,
               const std::optional<std::vector<noderesourcetopology::PodIdentity>>& pods,
               const noderesourcetopology::KnownPods& known, v1::GetTopologyResponse& response) {
  noderesourcetopology::Annotations koordinator;
  if (request.koordinator_annotations()) {
    auto made = noderesourcetopology::KoordinatorAnnotations(sources.node, state, known);
    response.set_koordinator_annotations(made.ok());
    if (made.ok()) {
      koordinator = *std::move(made);
    } else {
      response.set_left_out(made.error().Text());
    }
  }
  response.set_object(
      noderesourcetopology::ObjectJson(request.name(), sources.node, state, pods, koordinator));
}

void AddPlacements(const ReportSources& sources, const admission::NodeState& state,
                   const noderesourcetopology::KnownPods& known,
                   v1::GetTopologyResponse& response) {
  std::map<std::string, std::string> placements =
      noderesourcetopology::PodPlacements(sources.node, state);
  // A pod can lose what it had, and go on: its annotation is out of date.
  if (sources.running) {
    for (const auto& pod : sources.running({})) placements.try_emplace(pod.uid);
  }
  for (const auto& [uid, value] : placements) {
    const auto pod = known.find(uid);
    if (pod == known.end() || pod->second.name.empty()) continue;
    v1::PodPlacement& placement = *response.add_placements();
    placement.set_uid(uid);
    placement.set_name(pod->second.name);
    placement.set_name_space(pod->second.name_space);
    placement.set_value(value);
  }
}

// Equal answers have equal versions.
std::string VersionOf(const v1::GetTopologyResponse& response) {
  std::string text = response.object() + response.left_out();
  for (const v1::PodPlacement& placement : response.placements()) {
    text += placement.SerializeAsString();
  }
  return std::to_string(noderesourcetopology::Xxh64(text));
}

// Others may have access to the socket: they may read, and raise no condition.
bool MayReport(const service::Call& call) {
  return call.user && (*call.user == 0 || *call.user == geteuid());
}

}  // namespace

v1::GetTopologyResponse ReportTopology(const ReportSources& sources,
                                       const v1::GetTopologyRequest& request) {
  // The pods first: of a pod among them, the state is at least as new.
  const auto before = sources.allocation.snapshot();
  const auto pods = PodsWithContainers(sources, before->state);
  noderesourcetopology::KnownPods known;
  if (request.koordinator_annotations() || request.pod_placements()) {
    known = KnownPods(sources, before->state);
  }
  const auto snapshot = sources.allocation.snapshot();
  v1::GetTopologyResponse response;
  AddObject(sources, request, snapshot->state, pods, known, response);
  response.set_pod_placements(request.pod_placements());
  if (request.pod_placements()) AddPlacements(sources, snapshot->state, known, response);
  response.set_version(VersionOf(response));
  return response;
}

// Outlives the service: the observer of changes cannot be taken back.
class TopologyService::Changes {
 public:
  explicit Changes(RecurringTask& look) : look_(&look) {}

  void Note() {
    const MutexLock lock(mutex_);
    if (look_ != nullptr) look_->RunSoon();
  }
  void End() {
    const MutexLock lock(mutex_);
    look_ = nullptr;
  }

 private:
  Mutex mutex_;
  RecurringTask* look_ GUARDED_BY(mutex_);  // null: the service has ended
};

TopologyService::TopologyService(TaskQueue& queue, const ReportSources& sources,
                                 const Follow& follow)
    : sources_(sources),
      look_(queue, [this] { return Look(); }),
      changes_(std::make_shared<Changes>(look_)) {
  if (follow) follow([changes = changes_] { changes->Note(); });
}

TopologyService::~TopologyService() {
  changes_->End();
  look_.Stop();
}

service::Method TopologyService::Method() {
  return [this](service::Call call) { Get(std::move(call)); };
}

void TopologyService::Get(service::Call call) {
  v1::GetTopologyRequest request;
  if (!service::ReadRequest(call, request)) return;
  if (request.has_publication() && sources_.published && MayReport(call)) {
    sources_.published(request.publication());
  }
  const v1::GetTopologyResponse response = ReportTopology(sources_, request);
  if (response.version() != request.known_version() || request.wait_ms() == 0) {
    return call.answer(response.SerializeAsString());
  }
  if (waiting_.size() >= kMaxWaiting) {
    return call.answer(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                    "too many callers wait for a change of the topology"));
  }
  const auto wait =
      std::min<Clock::duration>(std::chrono::milliseconds(request.wait_ms()), kMaxWait);
  waiting_.push_back({std::move(call), std::move(request), Clock::now() + wait});
  look_.RunSoon();
}

TopologyService::Clock::time_point TopologyService::Look() {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + kBetweenLooks;
  std::erase_if(waiting_, [&](Waiting& waiting) {
    if (waiting.call.IsCancelled()) return true;
    v1::GetTopologyResponse response = ReportTopology(sources_, waiting.request);
    const bool is_new = response.version() != waiting.request.known_version();
    if (!is_new && now < waiting.until) {
      next = std::min(next, waiting.until);
      return false;
    }
    if (!is_new) {
      response.clear_object();
      response.clear_placements();
    }
    waiting.call.answer(response.SerializeAsString());
    return true;
  });
  return waiting_.empty() ? RecurringTask::kNever : next;
}

}  // namespace alignd::control
