// Rebuilds assignments from the containers that a runtime has: from the marks that alignd wrote
// when it created them, and from the CPUs that they really have.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/assignment_mark.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// A container of the runtime with a mark, or without one and with CPUs in the state. A value.
struct MarkedContainer {
  std::string id;
  ContainerKey key;
  std::string pod;   // namespace/name; empty: not known
  bool runs = true;  // or was created and may be started; false: it has ended and may start again
  AssignmentMark mark;
  CpuSet record = {};  // the CPUs of the last update at the runtime; empty: not known
  CpuSet cgroup = {};  // the CPUs in its cgroup; empty: not known
  // What its CPU shares at the runtime request, in thousandths of a CPU; 0: not known.
  int64_t millis = 0;
  // Set by Adopt where the state was wrong: on which CPUs the container is instead; empty: not
  // known.
  std::optional<CpuSet> by_runtime = {};
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
  std::vector<AdoptionNote> refuted;  // text: what of the state was not true, and why
};

// Whether the mark says more than the state has for the container.
bool IsIncomplete(const Node& node, const NodeState& state, const ContainerKey& key,
                  const AssignmentMark& mark);

// What of the state is not true, as of an older copy or one of another node.
//
// CPUs: a container has CPUs in it on which a container of another pod runs exclusively, and does
// not run on any of these itself. That the latter runs there exclusively, its mark and the runtime
// must say (after a resize, the runtime has all CPUs of the mark); or the runtime says of both that
// they are elsewhere, on as many CPUs as they have. What an interrupted resize or move explains is
// no contradiction, nor is what only one program that moves containers explains.
//
// Memory and devices: a running container has other ones in it than in its mark; or a running
// container has them by its mark, and the state has them for another one that does not run. With
// devices, also for another one that runs with a mark without them.
//
// `containers`: all that run with an assignment in the state or in a mark. Empty: nothing is
// refuted.
std::vector<AdoptionNote> FindRefuted(const Node& node, const NodeState& state,
                                      std::vector<MarkedContainer> containers);

// The state with what these containers have and the state lacks. What the state has is never
// changed, except that the pods of `absent` are released first: the runtime does not have them; and
// that what FindRefuted finds is dropped: the CPUs are those of the runtime instead, the memory and
// the devices those of the marks. A running container of the shared pool that stays on one NUMA
// node has what its mark says.
//
// The mark says that CPUs are exclusive. Which ones, two of mark, runtime and cgroup must say; if
// each says something else, the runtime's record is used, because a resize goes through it, and a
// write of another program to the cgroup does not. Only CPUs that may be assigned are. Runtime and
// cgroup are believed against the mark if they have all its CPUs, as after a resize, or as many
// other ones, as after a change past alignd, or as many as the container's CPU shares request. A
// container on other CPUs than its mark whose shares request no whole number was resized to shared
// CPUs. Of a container of CpuState::WasShared, the mark says nothing about CPUs: runtime, cgroup
// and shares must agree.
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
