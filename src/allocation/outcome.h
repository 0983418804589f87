// How the admission of a pod, or the resize of a container, ended.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "alignd/admission/assignment.h"
#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
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

// Other exclusive CPUs for a container. A value.
struct CpuMove {
  ContainerKey key;
  CpuSet cpus;
  // If the container was resized: the CPUs to which it can be resized down.
  std::optional<CpuSet> original = {};
};

}  // namespace alignd::allocation
