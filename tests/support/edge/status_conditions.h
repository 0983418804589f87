// The conditions that a running alignd reports.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "control/control_client.h"
#include "reconcile/conditions.h"

namespace alignd::testing {

// Those of one type, in the order of the report.
inline std::vector<control::v1::Condition> ConditionsOf(const std::string& control_socket,
                                                        reconcile::ConditionType type) {
  const auto status = control::ControlClient(control_socket).GetStatus();
  if (!status.ok()) {
    ADD_FAILURE() << status.error().Text();
    return {};
  }
  std::vector<control::v1::Condition> conditions;
  for (const control::v1::Condition& condition : status->conditions()) {
    if (condition.type() == ToString(type)) conditions.push_back(condition);
  }
  return conditions;
}

}  // namespace alignd::testing
