// Conditions in the log: when one becomes active, and when it is resolved.
#pragma once

#include "reconcile/conditions.h"

namespace alignd::reconcile {

// As an error or a warning, with its remedy. Conditions of containers and pods, of which there can
// be any number, are limited to a rate.
void LogActive(const Condition& condition);

void LogResolved(const Condition& condition);

}  // namespace alignd::reconcile
