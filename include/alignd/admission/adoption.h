// Rebuilds assignments from the containers that a runtime has: from the marks that alignd wrote
// when it created them, and from the CPUs that they really have.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// A container of the runtime with a mark. A value.
struct MarkedContainer {
  std::string id;
  ContainerKey key;
  std::string pod;   // namespace/name; empty: not known
  bool runs = true;  // or was created and may be started; false: it has ended and may start again
  AssignmentMark mark;
  CpuSet record = {};  // the CPUs of the last update at the runtime; empty: not known
  CpuSet cgroup = {};  // the CPUs in its cgroup; empty: not known
};

// A container about which something is said in a report.
struct AdoptionNote {
  std::string id;
  ContainerKey key;
  std::string pod;
  std::string text;
};

struct Adoption {
  NodeState next;
  std::vector<AdoptionNote> adopted;  // text: "CPUs 1-3, memory of NUMA nodes 0"
  std::vector<AdoptionNote> unknown;  // text: what is not assigned to it as marked, and why
};

// Whether the mark says more than the state has for the container.
bool IsIncomplete(const Node& node, const NodeState& state, const ContainerKey& key,
                  const AssignmentMark& mark);

// The state with what these containers have and the state lacks. What the state has is never
// changed, except that the pods of `absent` are released first: the runtime does not have them.
//
// The mark says that CPUs are exclusive. Which ones, two of mark, runtime and cgroup must say; if
// each says something else, the runtime's record is used, because a resize goes through it, and a
// write of another program to the cgroup does not. Only CPUs that may be assigned are. Runtime and
// cgroup are believed against the mark if they have all its CPUs, as after a resize, or as many
// other ones, as after a change past alignd.
//
// A pod with CPUs or memory as a whole, of which the state has nothing, is adopted as a whole, with
// the parts of all its containers, those that do not run included. There, the mark alone says which
// CPUs: such a pod is not resized.
//
// If running containers of two pods claim one CPU or device, none of them gets what it claims, and
// neither does another pod (CpuState::withheld, DeviceState::withheld); nor the CPUs on which they
// are according to runtime and cgroup. A container that has ended
// gets only what no other claims. A device is adopted without the plugin's answer: the plugin is
// asked again when the container is created again.
Adoption Adopt(const Node& node, NodeState state, const std::set<std::string>& absent,
               std::vector<MarkedContainer> containers);

}  // namespace alignd::admission
