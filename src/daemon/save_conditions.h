// Raises the condition StateNotWritable.
#pragma once

#include <chrono>
#include <string>

#include "allocation/allocation_events.h"
#include "reconcile/conditions.h"

namespace alignd::daemon {

// Thread-safe. Passes everything on to `next`. The references outlive this object.
class SaveConditions final : public allocation::AllocationEvents {
 public:
  SaveConditions(reconcile::Conditions& conditions, allocation::AllocationEvents& next)
      : conditions_(conditions), next_(next) {}

  void Decided(const allocation::DecisionReport& report) override { next_.Decided(report); }
  void PluginAllocated(const std::string& resource, std::chrono::nanoseconds took) override {
    next_.PluginAllocated(resource, took);
  }
  void WriteBegins() override { next_.WriteBegins(); }
  void Written(const Result<Done>& result, std::chrono::nanoseconds took) override {
    if (result.ok()) {
      conditions_.StateSaved();
    } else {
      conditions_.StateNotWritable(result.error());
    }
    next_.Written(result, took);
  }

 private:
  reconcile::Conditions& conditions_;
  allocation::AllocationEvents& next_;
};

}  // namespace alignd::daemon
