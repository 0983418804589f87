// The allocation manager and the resize of exclusive CPUs in place.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/resize.h"
#include "alignd/base/counted.h"
#include "allocation/allocation_manager.h"
#include "allocation/memory_resize.h"
#include "allocation/operation.h"
#include "allocation/requested_resize.h"
#include "allocation/reservation.h"
#include "allocation/state_limits.h"

namespace alignd::allocation {
namespace {

Error MustRepeat(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message), "the kubelet repeats the resize"};
}

std::string CountText(const CpuSet& cpus) {
  if (cpus.empty()) return "shared CPUs";
  return Counted(cpus.Count(), "exclusive CPU") + " (" + cpus.ToString() + ")";
}

// Whether the request is about the container, which stays on one NUMA node and requests something
// else than is accounted there. `renews_memory`: also of memory. Memory that an annotation says
// stays as it was admitted, which the admission refuses to change.
bool HasOtherRequest(const admission::Node& node, const admission::NodeState& state,
                     const AdmissionRequest& request, const Container& container,
                     bool& renews_memory) {
  const Pod& pod = request.pod;
  const bool one =
      std::ranges::find(pod.containers, request.wanted, &Container::name) != pod.containers.end();
  if (one && container.name != request.wanted) return false;
  const auto share = state.cpu.shares.find({pod.uid, container.name});
  if (share == state.cpu.shares.end() || !admission::AsksForOneNode(node, pod, container)) {
    return false;
  }
  renews_memory =
      RefuseMemoryResize(node, state, pod, container.name, request.memory_in_cri).has_value();
  if (renews_memory && request.memory_in_cri.is_annotated) return false;
  return renews_memory || RefuseOtherShare(NameOrUid(pod), container.name, share->second,
                                           admission::ShareOf(container).millis);
}

}  // namespace

void AllocationManager::Resize(Pod pod, std::string container, int64_t count, ResizeDone done) {
  const bool posted = queue_->Post(
      [this, pod = std::move(pod), container = std::move(container), count, done]() mutable {
        if (auto refusal = RefuseToOvertake(pod, container, count)) return done(*refusal);
        StartResize(std::move(pod), container, count, std::move(done));
      });
  if (!posted) done(AligndStops());
}

std::optional<Refusal> AllocationManager::RefuseToOvertake(const Pod& pod,
                                                           const std::string& container,
                                                           int64_t count) {
  const CpuSet* const cpus = ledger_.state().cpu.Find({pod.uid, container});
  const bool grows = count > (cpus == nullptr ? 0 : cpus->Count());
  if (!waiting_ || waiting_->IsEmpty() || !grows) return std::nullopt;
  waiting_->SetDevices(AvailableDevices());
  const WaitQueue::Place* const first = waiting_->FirstBefore(
      {.uid = pod.uid, .name = NameOrUid(pod), .needs = {"cpu"}}, std::chrono::steady_clock::now());
  if (first == nullptr) return std::nullopt;
  return RefusedResize(NameOrUid(pod), container,
                       "gets no more exclusive CPUs now: pod " + first->pod.name +
                           " waits for CPUs and is served first",
                       "wait until pod " + first->pod.name +
                           " has started, or delete it; the kubelet repeats the resize");
}

// The CPUs of the larger set are reserved while the new set is written: so a grow is not visible
// before it is on the disk, and what a shrink takes away goes to no other container before.
void AllocationManager::StartResize(Pod pod, const std::string& container, int64_t count,
                                    ResizeDone done) {
  queue_->AssertOnThisThread();
  if (stopping_) return done(AligndStops());
  const ContainerKey key{pod.uid, container};
  const std::string subject = "container " + container + " of pod " + NameOrUid(pod);
  if (IsBeingAdmitted(pod.uid)) {
    return done(MustRepeat(subject + " is not resized: its pod is being admitted"));
  }
  if (resizes_.contains(pod.uid)) {
    return done(
        MustRepeat(subject + " is not resized: another resize of its pod is being written"));
  }
  const admission::NodeState& state = ledger_.state();
  if (state.cpu.withheld.contains(key)) {
    return done(MustRepeat(subject + " is not resized: it is not known which CPUs it has"));
  }
  if (state.cpu.moving.contains(key)) {
    return done(MustRepeat(subject + " is not resized: it is being moved to other CPUs"));
  }
  admission::ResizeClaims claimed = admission::ClaimsOf(pod, container);
  pod.containers.clear();
  const bool was_shared = state.cpu.Find(key) == nullptr || state.cpu.WasShared(key);
  admission::ResizeDecision decision =
      admission::Resize(node_, was_shared ? admission::WithPoliciesOf(node_, state, pod) : state,
                        key, count, claimed);
  pod.claimed_devices = std::move(claimed.devices);
  if (decision.refusal) return done(InPod(*std::move(decision.refusal), NameOrUid(pod), container));
  if (const Result<Done> fits = RequireReadable(decision.next); !fits.ok()) {
    return done(fits.error());
  }
  const CpuSet cpus = decision.after;
  if (decision.before == cpus) {  // perhaps not on the disk yet
    return ledger_.Save([cpus, done = std::move(done)](const Result<Done>& saved) {
      done(saved.ok() ? ResizeOutcome(cpus) : ResizeOutcome(saved.error()));
    });
  }
  Reservation reservation = ResizeOf(key, state, decision.next);
  WriteInPlace(std::move(reservation),
               {.pod = std::move(pod), .container = container, .before = state, .done = done},
               [this, cpus](const ResizeUnderWay& resize) { LogResize(resize, cpus); });
}

void AllocationManager::WriteInPlace(Reservation reservation, ResizeUnderWay resize,
                                     std::function<void(const ResizeUnderWay&)> log) {
  const std::string pod_uid = reservation.pod_uid;
  const CpuSet cpus = reservation.resized ? reservation.resized->after : CpuSet();
  resizes_.emplace(pod_uid, std::move(resize));
  ledger_.ReserveInPlace(std::move(reservation));
  ledger_.Commit(pod_uid, [this, pod_uid, cpus, log = std::move(log)](const Result<Done>& saved) {
    if (saved.ok()) log(resizes_.at(pod_uid));
    FinishResize(pod_uid, saved.ok() ? ResizeOutcome(cpus) : ResizeOutcome(saved.error()));
  });
}

void AllocationManager::FinishResize(const std::string& pod_uid, const ResizeOutcome& outcome) {
  auto entry = resizes_.extract(pod_uid);
  ResizeUnderWay resize = std::move(entry.mapped());
  ResourcesReleased();
  resize.done(outcome);
  for (auto& [key, running] : resize.started) ContainerStarts(std::move(key), std::move(running));
  for (Caller& caller : resize.behind) Start(std::move(caller));
}

void AllocationManager::CancelResize(const std::string& pod_uid, const Error& why) {
  const auto resize = resizes_.find(pod_uid);
  if (resize == resizes_.end()) return;
  ledger_.GiveBack(pod_uid);
  const std::vector<Caller> behind = std::exchange(resize->second.behind, {});
  FinishResize(pod_uid, Error{ErrorCode::kUnavailable,
                              "pod " + NameOrUid(resize->second.pod) +
                                  " was released while its assignment was being changed",
                              "create the pod's sandbox again"});
  for (const Caller& caller : behind) caller.done(why);
}

void AllocationManager::LogResize(const ResizeUnderWay& resize, const CpuSet& cpus) {
  const ContainerKey key{resize.pod.uid, resize.container};
  const CpuSet* const had = resize.before.cpu.Find(key);
  const CpuSet before = had == nullptr ? CpuSet() : *had;
  spdlog::info("container {} of pod {}: resized in place from {} to {}", resize.container,
               NameOrUid(resize.pod), CountText(before), CountText(cpus));
  PodDecision decision = DecisionAbout(node_, resize.before, resize.pod, kInPlaceResize);
  const int count = cpus.Count();
  decision.asked =
      resize.container + ": " + (count == 0 ? "shared CPUs" : Counted(count, "exclusive CPU"));
  Allocated allocated;
  allocated.assignments[resize.container] = admission::AssignmentOf(node_, snapshot()->state, key);
  decision.Set(allocated);
  decisions_.Add(std::move(decision));
}

bool AllocationManager::ResizeFirst(Caller& caller, bool pending) {
  const Pod& pod = caller.request.pod;
  const std::optional<WantedResize> wanted =
      FindResize(node_, ledger_.state(), pod, caller.request.wanted, allowed_resizes_);
  if (!wanted || RefuseMemoryResize(node_, ledger_.state(), pod, caller.request.wanted,
                                    caller.request.memory_in_cri)) {
    return false;
  }
  if (pending) {
    operations_.at(pod.uid)->behind.push_back(std::move(caller));
    return true;
  }
  Pod names;
  names.uid = pod.uid;
  names.name = pod.name;
  names.name_space = pod.name_space;
  names.policies = pod.policies;
  for (const Container& container : pod.containers) {
    if (container.name != wanted->container) continue;
    Container& own = names.containers.emplace_back();
    own.name = container.name;
    own.claimed_devices = pod.claimed_devices;
    std::ranges::copy(container.claimed_devices, std::back_inserter(own.claimed_devices));
  }
  StartResize(std::move(names), wanted->container, wanted->count, GoOn(Park(std::move(caller))));
  return true;
}

AllocationManager::ResizeDone AllocationManager::GoOn(uint64_t parked) {
  return [this, parked](const ResizeOutcome& outcome) {
    std::optional<Caller> waiting = TakeParked(parked);
    if (!waiting) return;
    if (const auto* const refusal = std::get_if<Refusal>(&outcome)) {
      return Respond(*std::move(waiting), Outcome(*refusal));
    }
    if (const auto* const error = std::get_if<Error>(&outcome)) {
      return Respond(*std::move(waiting), Outcome(*error));
    }
    Start(*std::move(waiting));
  };
}

// No process of the container runs, so its request there can change: with its old CPUs and memory
// back, they are assigned as if it were new.
bool AllocationManager::RenewShare(Caller& caller, bool pending) {
  const Pod& pod = caller.request.pod;
  const admission::NodeState& state = ledger_.state();
  bool renews_memory = false;
  const auto container = std::ranges::find_if(pod.containers, [&](const Container& one) {
    return HasOtherRequest(node_, state, caller.request, one, renews_memory);
  });
  if (container == pod.containers.end()) return false;
  if (pending) {
    operations_.at(pod.uid)->behind.push_back(std::move(caller));
    return true;
  }
  const ContainerKey key{pod.uid, container->name};
  admission::RenewedShare share =
      admission::RenewShare(node_, state, pod, *container, /*keeps_memory=*/!renews_memory);
  if (!share.lacks.empty()) {
    const Outcome refused(
        RefusedRenewal(NameOrUid(pod), *container, state.cpu.shares.at(key), share.lacks));
    Respond(std::move(caller), refused);
    return true;
  }
  if (const Result<Done> fits = RequireReadable(share.next); !fits.ok()) {
    Respond(std::move(caller), Outcome(fits.error()));
    return true;
  }
  Pod names;
  names.uid = pod.uid;
  names.name = pod.name;
  names.name_space = pod.name_space;
  const std::string what = "container " + key.container + " of pod " + NameOrUid(pod) +
                           ": created again with another request on its NUMA node (" +
                           CpusText(admission::ShareOf(*container).millis) + ")";
  WriteInPlace(RenewalOf(key, state, share.next),
               {.pod = std::move(names),
                .container = key.container,
                .before = state,
                .done = GoOn(Park(std::move(caller)))},
               [what](const ResizeUnderWay&) { spdlog::info("{}", what); });
  return true;
}

}  // namespace alignd::allocation
