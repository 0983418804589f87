#include "cri/reconciler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "alignd/admission/holders.h"

namespace alignd::cri {

Reconciler::Reconciler(const admission::Node& node, allocation::AllocationManager& allocation,
                       ContainerRegistry& registry, RuntimeClient& runtime,
                       const cgroup::CgroupTree& cgroups, allocation::UpkeepLog& upkeep,
                       Options options)
    : allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      after_listing_(std::move(options.after_listing)),
      guard_(
          node, allocation, registry, runtime, cgroups, upkeep, [this] { mover_.Nudge(); },
          options.guard),
      mover_(
          node, allocation, registry, runtime, upkeep, [this] { lister_.Relist(); }, options.mover),
      lister_(
          allocation, registry, runtime,
          [this](RuntimeLister::Clock::time_point began) {
            mover_.Listed(began);
            guard_.Look();
            if (after_listing_) after_listing_();
          },
          options.lister) {}

void Reconciler::Start() {
  lister_.Start();
  mover_.Start();
  guard_.Start();
}

void Reconciler::Stop() {
  runtime_.Stop();
  lister_.Stop();
  guard_.Stop();
  mover_.Stop();
}

void Reconciler::ReleaseStopped(std::function<void(bool)> done) {
  const std::set<std::string> stopped = registry_.StoppedPods(std::chrono::milliseconds(0));
  const std::set<std::string> holding = admission::PodsIn(allocation_.snapshot()->state);
  std::vector<std::string> releasable;
  std::ranges::set_intersection(stopped, holding, std::back_inserter(releasable));
  if (releasable.empty()) {
    done(false);
    return;
  }
  // Releases are carried out in the order in which they are posted: the last one answers for all.
  for (size_t i = 0; i < releasable.size(); ++i) {
    const bool last = i + 1 == releasable.size();
    allocation_.ReleasePod(
        releasable[i],
        [uid = releasable[i], last, done](Result<Done> released) {
          if (!released.ok()) spdlog::error("release of pod {}: {}", uid, released.error().Text());
          if (last) done(true);
        },
        [this, uid = releasable[i]] { return registry_.IsGone(uid); });
  }
}

}  // namespace alignd::cri
