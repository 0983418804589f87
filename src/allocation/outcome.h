// How the admission of a pod, or the resize of a container, ended.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "alignd/admission/assignment.h"
#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/pod/refusal.h"

namespace alignd::allocation {

struct Allocated {
  // By container name; at least those of the requested pod.
  std::map<std::string, admission::Assignment> assignments;
};

// Allocated; or a refusal with the kubelet's reason and an explained message; or a malfunction.
// After the latter two nothing has changed.
using Outcome = std::variant<Allocated, Refusal, Error>;

// The exclusive CPUs that the container has now, on the disk; or a refusal; or a malfunction. After
// the latter two nothing has changed.
using ResizeOutcome = std::variant<CpuSet, Refusal, Error>;

}  // namespace alignd::allocation
