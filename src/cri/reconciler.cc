#include "cri/reconciler.h"

#include <utility>

namespace alignd::cri {

Reconciler::Reconciler(const admission::Node& node, allocation::AllocationManager& allocation,
                       ContainerRegistry& registry, RuntimeClient& runtime,
                       const cgroup::CgroupTree& cgroups, allocation::UpkeepLog& upkeep,
                       Options options)
    : runtime_(runtime),
      after_listing_(std::move(options.after_listing)),
      guard_(
          node, allocation, registry, runtime, cgroups, upkeep, [this] { mover_.Nudge(); },
          options.guard),
      mover_(
          node, allocation, registry, runtime, upkeep, [this] { lister_.Relist(); }, options.mover),
      releaser_(allocation, registry, options.releaser),
      lister_(
          allocation, registry, runtime, releaser_, upkeep,
          [this](RuntimeLister::Clock::time_point began) {
            mover_.Listed(began);
            guard_.Look();
            if (after_listing_) after_listing_();
          },
          options.lister) {}

void Reconciler::Start() {
  lister_.Start();
  releaser_.Start();
  mover_.Start();
  guard_.Start();
}

void Reconciler::Stop() {
  runtime_.Stop();
  lister_.Stop();
  releaser_.Stop();
  guard_.Stop();
  mover_.Stop();
}

}  // namespace alignd::cri
