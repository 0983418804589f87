// The CPUs that running containers have, as adoption finds them. Private to the module.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/base/cpu_set.h"

namespace alignd::admission {

// "container app of pod default/web"; the UID stands for a name that is not known.
std::string NameOf(const MarkedContainer& container);

// Whether the mark says that the CPUs are a part of the pod's. Without the feature gate, what the
// containers have counts as exclusive.
bool IsPartOfPod(const Node& node, const MarkedContainer& container);

// The exclusive CPUs of one container of mark, runtime and cgroup.
struct FoundCpus {
  CpuSet cpus;
  std::string doubt;  // why the sources do not agree; empty: they do
};
FoundCpus FindCpus(const Node& node, const MarkedContainer& container);

// Whether the runtime shows that a container with a mark of exclusive CPUs was resized to shared
// ones.
bool IsOnSharedCpus(const MarkedContainer& container);

// Adds the CPUs of these containers to `adoption.next`, and to `adoption.unknown` what cannot be
// added. Returns what each container was given, in their order; empty: nothing.
std::vector<CpuSet> AdoptCpus(const Node& node, const std::vector<MarkedContainer>& containers,
                              Adoption& adoption);

}  // namespace alignd::admission
