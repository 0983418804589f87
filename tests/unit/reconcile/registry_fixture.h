// What the tests of the container registry share.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "reconcile/container_registry.h"

namespace alignd::reconcile {

class RegistryTest : public ::testing::Test {
 protected:
  using Pods = std::set<std::string>;

  static CpuSet Cpus(const char* text) { return *CpuSet::Parse(text); }

  Pods Listed(const RuntimeListing& listing, const Pods& allocated = {}, bool at_start = false) {
    registry_.BeginListing();
    return registry_.Resync(listing, allocated, at_start);
  }
  void Apply(const std::string& id, const char* cpus) {
    registry_.BeginApply(id, Cpus(cpus));
    registry_.EndApply(id, Cpus(cpus), true);
  }
  // The set that the container is certain to have; "" if none is.
  std::string AppliedTo(const std::string& id) const {
    for (const admission::RunningContainer& container : registry_.Containers()) {
      if (container.id == id) return container.cpuset.ToString();
    }
    return "unknown";
  }

  ContainerRegistry registry_;
};

}  // namespace alignd::reconcile
