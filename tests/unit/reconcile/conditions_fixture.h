// What the tests of conditions share.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "edge/logged.h"
#include "reconcile/conditions.h"

namespace alignd::reconcile {

using testing::Logged;

inline const Subject kApp{"c1", {"uid", "app"}, "default/web"};

// The only condition.
inline Condition Only(const std::vector<Condition>& report) {
  EXPECT_EQ(report.size(), 1U);
  return report.empty() ? Condition() : report.front();
}

}  // namespace alignd::reconcile
