#include "cri/handlers.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "alignd/admission/assignment_mark.h"
#include "alignd/checkpoint/mark_annotation.h"
#include "allocation/current_assignment.h"
#include "allocation/requested_resize.h"
#include "reconcile/leaving_cpus.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

// Random, not computed: the author of a checkpoint cannot know it before.
std::string NewMarkId() {
  std::random_device random;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 4; ++i) {
    for (uint32_t bits = random(), digit = 0; digit < 8; ++digit, bits >>= 4) {
      id += kDigits[bits & 15];
    }
  }
  return id;
}

}  // namespace

admission::Assignment AssignmentNow(const HandlerContext& context, const ContainerKey& key) {
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  admission::Assignment assignment = admission::AssignmentOf(context.node, snapshot->state, key);
  WithoutLeavingCpus(context, assignment);
  return assignment;
}

void WithoutLeavingCpus(const HandlerContext& context, admission::Assignment& assignment) {
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  if (!assignment.KeptFromOthers().empty() || snapshot->state.cpu.originals.empty()) return;
  assignment.cpuset = reconcile::SharedCpus(
      assignment.cpuset, admission::SharedCpus(context.node, snapshot->state),
      reconcile::LeavingCpus(context.node, snapshot->state, context.registry.Footprints()));
}

bool RestoresOtherDevices(const HandlerContext& context) {
  return context.runtime.RuntimeName() == "cri-o";
}

Error NotRestored(const std::string& checkpoint) {
  return {ErrorCode::kInvalidArgument,
          checkpoint +
              ": CRI-O gives a restored container the devices that its checkpoint names, "
              "not those that it is assigned",
          "start the container from its own image, or restore it on a node without devices"};
}

void SetMark(const HandlerContext& context, const ContainerKey& key,
             runtime::v1::ContainerConfig& config) {
  const admission::AssignmentMark mark =
      admission::MarkOf(context.allocation.snapshot()->state, key, context.allocation.RoleOf(key));
  RemoveMark(config);
  if (mark.IsEmpty()) return;
  const std::string id = NewMarkId();
  (*config.mutable_labels())[checkpoint::kMarkLabel] = id;
  (*config.mutable_annotations())[checkpoint::kMarkAnnotation] =
      checkpoint::FormatMark(key, id, mark);
}

bool RemoveMark(runtime::v1::ContainerConfig& config) {
  const auto labels = config.mutable_labels()->erase(checkpoint::kMarkLabel);
  return config.mutable_annotations()->erase(checkpoint::kMarkAnnotation) + labels > 0;
}

bool IsEmpty(const admission::Assignment& assignment) {
  return assignment.cpuset.empty() && assignment.memory_nodes.empty() && assignment.devices.empty();
}

grpc::Status NotListed() {
  return rpc::ToStatus(Error{ErrorCode::kUnavailable,
                             "alignd has not yet listed what the runtime runs",
                             "retry; if this lasts, see alignd's log"});
}

std::chrono::steady_clock::time_point AnswerBy(
    const std::optional<std::chrono::steady_clock::time_point>& deadline) {
  // The kubelet's runtimeRequestTimeout, for a caller that says nothing.
  constexpr std::chrono::nanoseconds kDefaultTimeout = std::chrono::minutes(2);
  constexpr std::chrono::nanoseconds kMargin = std::chrono::seconds(5);
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::nanoseconds timeout = deadline ? *deadline - now : kDefaultTimeout;
  return now + timeout - std::min(kMargin, timeout / 4);
}

void ReportCallersCpuSet(const HandlerContext& context, const std::string& method) {
  context.conditions.SawConflictingManager(
      method + " comes with CPU sets of the caller's own",
      "set the kubelet's cpuManagerPolicy to none, and let no other program set cpusets through "
      "this socket; alignd keeps its own sets");
}

void ReportRefusedResize(const HandlerContext& context, const ContainerKey& key,
                         const Refusal& refusal) {
  if (refusal.reason != allocation::kResizeRefused) return;
  context.reconciler.ResizeRefused(key.pod_uid);
  context.conditions.ResizeRefused({"", key, context.registry.PodName(key.pod_uid)}, refusal.fault,
                                   refusal.remedy);
}

Pod NamedPod(const HandlerContext& context, const std::string& pod_uid) {
  Pod pod;
  pod.uid = pod_uid;
  const std::string name = context.registry.PodName(pod_uid);
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    pod.name_space = name.substr(0, slash);
    pod.name = name.substr(slash + 1);
  }
  return pod;
}

grpc::Status RefuseInPlaceResize(const HandlerContext& context, const ContainerKey& key,
                                 const Refusal& refusal) {
  context.allocation.NoteRefusal(NamedPod(context, key.pod_uid), allocation::kInPlaceResize,
                                 refusal);
  ReportRefusedResize(context, key, refusal);
  return rpc::ToStatus(refusal);
}

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

void MarkHandler(const HandlerContext& context, const std::string& handler, Pod& pod) {
  const SharedPoolHandlers* const shared = context.shared_pool_handlers;
  if (shared != nullptr && shared->Contains(handler)) pod.shared_pool_handler = handler;
  pod = allocation::AsDecided(context.node, context.allocation.snapshot()->state, std::move(pod));
}

void AddPolicies(const HandlerContext& context, Pod& pod) {
  pod.policies = context.registry.PoliciesOfPod(pod.uid);
  // They were of the time when the sandbox was created.
  pod.policies.cpuset = {};
  pod.policies.numa_resources = {};
}

bool LiftsPodQuota(const HandlerContext& context, const std::string& pod_uid) {
  return context.lifts_pod_quotas &&
         context.allocation.QuotaOf(pod_uid) == allocation::PodQuota::kLift;
}

void AdmitPod(const HandlerContext& context, allocation::AdmissionRequest request,
              std::function<void(allocation::Outcome)> done) {
  const reconcile::ContainerRegistry& registry = context.registry;
  request.stopped = [&registry] { return registry.StoppedPods(); };
  request.describe = [&registry](const std::string& uid) {
    return allocation::PodStanding{registry.PodName(uid), registry.IsEnding(uid)};
  };
  context.allocation.Admit(std::move(request), std::move(done));
}

}  // namespace alignd::cri
