#include "core/placement/pod_status.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/placement/object_fields.h"

namespace alignd::placement {
namespace {

using PodJson = nlohmann::json;

// The member, or null.
const PodJson& MemberOf(const PodJson& object, const char* name) {
  static const PodJson kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

// The objects of a list; empty: it is none.
std::vector<const PodJson*> ObjectsOf(const PodJson& list) {
  std::vector<const PodJson*> objects;
  if (!list.is_array()) return objects;
  for (const PodJson& object : list) {
    if (object.is_object()) objects.push_back(&object);
  }
  return objects;
}

const PodJson* NamedIn(const PodJson& list, const std::string& name) {
  const std::vector<const PodJson*> objects = ObjectsOf(list);
  const auto found = std::ranges::find_if(
      objects, [&](const PodJson* object) { return TextAt(*object, "name") == name; });
  return found == objects.end() ? nullptr : *found;
}

// Whether the kubelet starts a container again that has ended so. `container`: in the spec.
bool IsStartedAgain(const PodJson& spec, const PodJson& container, const PodJson& terminated) {
  // Its rules may do so for any exit code.
  if (!MemberOf(container, "restartPolicyRules").is_null()) return true;
  std::string policy = TextAt(container, "restartPolicy");
  if (policy.empty()) policy = TextAt(spec, "restartPolicy");
  if (policy == "Never") return false;
  return policy != "OnFailure" || MemberOf(terminated, "exitCode") != 0;
}

// A container without a state waits.
bool IsDown(const PodJson& spec, const PodJson& container, const PodJson& status) {
  const PodJson& state = MemberOf(status, "state");
  if (MemberOf(state, "running").is_object()) return false;
  const PodJson& terminated = MemberOf(state, "terminated");
  return !terminated.is_object() || IsStartedAgain(spec, container, terminated);
}

}  // namespace

bool IsRestarting(const PodJson& pod) {
  if (TextAt(pod, "status", "phase") != "Running") return false;
  const PodJson& spec = MemberOf(pod, "spec");
  const PodJson& status = MemberOf(pod, "status");
  for (const auto& [containers, statuses] :
       {std::pair{"containers", "containerStatuses"},
        std::pair{"initContainers", "initContainerStatuses"}}) {
    for (const PodJson* const container : ObjectsOf(MemberOf(spec, containers))) {
      const bool is_init = std::string_view(containers) == "initContainers";
      if (is_init && TextAt(*container, "restartPolicy") != "Always") continue;  // it has ended
      const PodJson* const one = NamedIn(MemberOf(status, statuses), TextAt(*container, "name"));
      if (one != nullptr && IsDown(spec, *container, *one)) return true;
    }
  }
  return false;
}

}  // namespace alignd::placement
