#include "reconcile/reconciler.h"

#include <algorithm>
#include <utility>

namespace alignd::reconcile {
namespace {

// As CpuState::WasShared, of any container of the pod.
bool WasAnyShared(const cpumanager::CpuState& state, const std::string& pod_uid) {
  const auto pod = state.originals.find(pod_uid);
  return pod != state.originals.end() &&
         std::ranges::any_of(pod->second, [&](const auto& container) {
           return state.WasShared({pod_uid, container.first});
         });
}

}  // namespace

Reconciler::Reconciler(const Threads& threads, const admission::Node& node,
                       allocation::AllocationManager& allocation, ContainerRegistry& registry,
                       RuntimeClient& runtime, const cgroup::CgroupTree& cgroups,
                       Conditions& conditions, Options options)
    : runtime_(runtime),
      after_listing_(std::move(options.after_listing)),
      guard_(
          threads.io, threads.events, node, allocation, registry, runtime, cgroups, conditions,
          MakePodGuard(threads, allocation, registry, cgroups, conditions, options.pods),
          [this] { updater_.Nudge(); },
          WithSuspicion(options.guard, [this] { online_cpus_.Look(); })),
      narrower_(threads.io, registry, cgroups,
                [this](const std::string& id) { return guard_.CgroupOf(id); }),
      updater_(
          threads.background, node, allocation, registry, runtime, narrower_, conditions,
          [this] { lister_.Relist(); }, options.updater),
      releaser_(threads.background, allocation, registry, options.releaser),
      adopter_(node, allocation, registry, runtime, cgroups, conditions,
               std::move(options.findings)),
      lister_(
          threads.io, allocation, registry, runtime, releaser_, conditions,
          [this](RuntimeLister::Clock::time_point began) {
            updater_.Listed(began);
            guard_.Look();
            if (after_listing_) after_listing_();
          },
          [this] {
            events_.RuntimeLost();
            updater_.RuntimeFailed();
          },
          WithAdopter(options.lister, adopter_)),
      processes_(
          threads.io, node, allocation, cgroups, conditions, [this] { return guard_.Cgroups(); },
          options.processes),
      events_(
          threads.background, runtime.client(), registry, [this] { lister_.Relist(); },
          options.events),
      online_cpus_(threads.io, node, allocation, registry, conditions, options.online_cpus) {}

PodCpuGuard* Reconciler::MakePodGuard(const Threads& threads,
                                      const allocation::AllocationManager& allocation,
                                      const ContainerRegistry& registry,
                                      const cgroup::CgroupTree& cgroups, Conditions& conditions,
                                      const std::optional<PodCpuGuard::Options>& options) {
  if (!options) return nullptr;
  return &pods_.emplace(
      threads.io, threads.events,
      PodCpuGuard::Decisions{
          .has_exclusive =
              [&allocation](const std::string& uid) {
                return allocation.snapshot()->state.cpu.assignments.contains(uid);
              },
          .was_shared =
              [&allocation](const std::string& uid) {
                return WasAnyShared(allocation.snapshot()->state.cpu, uid);
              },
          .quota_of = [&allocation](const std::string& uid) { return allocation.QuotaOf(uid); }},
      registry, cgroups, conditions, *options);
}

void Reconciler::Start() {
  releaser_.Start();
  updater_.Start();
  guard_.Start();
  processes_.Start();
  events_.Start();
  online_cpus_.Start();
  lister_.Start();  // last: after a listing it runs the others, on its queue
}

void Reconciler::Stop() {
  events_.Stop();
  lister_.Stop();  // before a listing that is under way fails: that says nothing of the runtime
  runtime_.Stop();
  releaser_.Stop();
  processes_.Stop();
  online_cpus_.Stop();
  guard_.Stop();
  narrower_.Stop();
  if (pods_) pods_->Stop();
  updater_.Stop();
}

}  // namespace alignd::reconcile
