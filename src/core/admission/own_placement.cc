#include "core/admission/own_placement.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "core/admission/own_cpus.h"
#include "core/admission/own_isolation.h"
#include "core/admission/own_numa.h"
#include "core/admission/own_status.h"

namespace alignd::admission {
namespace {

using cpumanager::StaticPolicy;

Admission Refused(const NodeState& state, Objection objection) {
  Refusal refusal = PolicyRefusal(std::move(objection.fault), std::move(objection.remedy));
  return {std::move(refusal), std::nullopt, {}, state, {}};
}

// The best placement until now.
class Placement {
 public:
  Placement(const Node& node, const NodeState& state, const Pod& pod, StaticPolicy policy,
            const DecideFn& decide)
      : node_(node),
        state_(state),
        pod_(pod),
        decide_(decide),
        policy_(std::move(policy)),
        best_(decide_(policy_)) {}

  Admission Find() && {
    if (auto objection = ObjectionToResult(node_, pod_, best_)) {
      return Refused(state_, *std::move(objection));
    }
    if (std::optional<Objection> beside_others = StayApart()) {
      if (MustKeepApart(node_, pod_)) return Refused(state_, *std::move(beside_others));
      is_apart_ = false;
    }
    if (IsDecided(node_, pod_) || HasAssignments(node_, state_, pod_)) return std::move(best_);
    const StaticPolicy plain = policy_;
    FollowIsolation();
    for (const CpuSet& place : PlacesByStrategy(node_, state_)) {
      if (!best_.admitted() || TryAt(policy_, place)) break;
    }
    if (!StayOffOthers(policy_) && policy_ != plain) StayOffOthers(plain);
    return std::move(best_);
  }

 private:
  // Why it is beside pods of another number of NUMA nodes. nullopt: it is not, maybe elsewhere now.
  std::optional<Objection> StayApart() {
    std::optional<Objection> beside_others = ObjectionToNuma(node_, state_, pod_, best_);
    if (!beside_others) return std::nullopt;
    for (const CpuSet& off : CpusToStayOff(node_, state_, pod_)) {
      StaticPolicy away = policy_;
      away.avoided |= off;
      Admission apart = decide_(away);
      if (!apart.admitted() || ObjectionToNuma(node_, state_, pod_, apart)) continue;
      best_ = std::move(apart);
      policy_ = std::move(away);
      return std::nullopt;
    }
    return beside_others;
  }

  // Takes the placement under this policy, unless it is worse.
  bool Try(const StaticPolicy& policy) {
    Admission there = decide_(policy);
    // The hints of a pod do not know what each of its containers stays away from.
    const bool is_worse = IsWorse(node_, pod_, policy, there, best_) ||
                          LeavesAffinity(node_, pod_, best_, there) ||
                          (is_apart_ && ObjectionToNuma(node_, state_, pod_, there));
    if (!is_worse) best_ = std::move(there);
    return !is_worse;
  }

  bool TryAt(StaticPolicy policy, const CpuSet& place) {
    policy.avoided |= node_.machine.cpus() - place;
    return Try(policy);
  }

  bool TryIsolation(const CpusByContainer& avoided) {
    StaticPolicy asking = policy_;
    AvoidByContainer(pod_, avoided, asking);
    for (const CpuSet& place : PlacesToTry(node_, state_, pod_, avoided.begin()->second)) {
      if (!TryAt(asking, place)) continue;
      policy_ = std::move(asking);
      return true;
    }
    return false;
  }

  // All that its containers ask for; or else of one container after the other.
  void FollowIsolation() {
    const CpusByContainer asked = CpusToAvoid(node_, policy_, pod_);
    if (asked.empty() || !best_.admitted() || TryIsolation(asked)) return;
    CpusByContainer followed;
    const StaticPolicy plain = policy_;
    for (const Container& container : pod_.containers) {
      const auto of_container = asked.find(container.name);
      if (of_container == asked.end()) continue;
      CpusByContainer more = followed;
      more.insert(*of_container);
      policy_ = plain;
      if (TryIsolation(more)) followed = std::move(more);
    }
    policy_ = plain;
    AvoidByContainer(pod_, followed, policy_);
  }

  // What its exclusive policy stays away from.
  bool StayOffOthers(const StaticPolicy& policy) {
    const CpuSet avoided = AvoidedCpus(node_, state_, pod_.uid, ChosenPolicies(node_, pod_));
    if (avoided.empty()) return true;
    for (const CpuSet& place : PlacesToTry(node_, state_, pod_, avoided)) {
      if (TryAt(policy, place - avoided)) return true;
    }
    return false;
  }

  const Node& node_;
  const NodeState& state_;
  const Pod& pod_;
  const DecideFn& decide_;
  StaticPolicy policy_;
  bool is_apart_ = true;  // from pods of another number of NUMA nodes
  Admission best_;
};

}  // namespace

Admission PlaceByPolicies(const Node& node, const NodeState& state, const Pod& pod,
                          const StaticPolicy& policy, const DecideFn& decide) {
  return Placement(node, state, pod, policy, decide).Find();
}

}  // namespace alignd::admission
