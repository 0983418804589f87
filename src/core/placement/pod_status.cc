#include "core/placement/pod_status.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/quantity.h"
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

const PodJson* StatusOf(const PodJson& pod, const Container& container) {
  const char* const list =
      container.kind == ContainerKind::kApp ? "containerStatuses" : "initContainerStatuses";
  return NamedIn(MemberOf(MemberOf(pod, "status"), list), container.name);
}

// Whether the node never does what the spec says.
bool IsInfeasible(const PodJson& pod) {
  const PodJson& status = MemberOf(pod, "status");
  for (const PodJson* const condition : ObjectsOf(MemberOf(status, "conditions"))) {
    if (TextAt(*condition, "type") == "PodResizePending") {
      return TextAt(*condition, "reason") == "Infeasible";
    }
  }
  return TextAt(status, "resize") == "Infeasible";  // before Kubernetes 1.33
}

Result<ResourceList> AmountsIn(const PodJson& list, const std::string& place) {
  ResourceList amounts;
  if (!list.is_object()) return amounts;
  for (const auto& [name, value] : list.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const Result<Quantity> amount = Quantity::Parse(text);
    if (!amount.ok()) return amount.error().In(place + "." + name);
    amounts[name] = *amount;
  }
  return amounts;
}

void Raise(const ResourceList& least, ResourceList& amounts) {
  for (const auto& [name, amount] : least) {
    Quantity& one = amounts[name];
    if (one < amount) one = amount;
  }
}

// `status`: of a container, or of the pod.
Result<Done> CountOne(const PodJson& status, bool is_infeasible, const std::string& place,
                      ResourceList& requests) {
  const PodJson& actual = MemberOf(status, "resources");
  if (!actual.is_object()) return Done{};
  const Result<ResourceList> given =
      AmountsIn(MemberOf(actual, "requests"), place + ".resources.requests");
  if (!given.ok()) return given.error();
  const Result<ResourceList> allocated =
      AmountsIn(MemberOf(status, "allocatedResources"), place + ".allocatedResources");
  if (!allocated.ok()) return allocated.error();
  if (is_infeasible) requests.clear();
  Raise(*given, requests);
  Raise(*allocated, requests);
  return Done{};
}

// The node has not done yet what its spec says, or refuses it.
bool IsResizing(const PodJson& pod) {
  const PodJson& status = MemberOf(pod, "status");
  if (!TextAt(status, "resize").empty()) return true;  // before Kubernetes 1.33
  return std::ranges::any_of(
      ObjectsOf(MemberOf(status, "conditions")), [](const PodJson* condition) {
        const std::string type = TextAt(*condition, "type");
        return (type == "PodResizePending" || type == "PodResizeInProgress") &&
               TextAt(*condition, "status") != "False";
      });
}

Result<Done> CountStatus(const PodJson& pod, Pod& counted) {
  const bool is_infeasible = IsInfeasible(pod);
  for (Container& container : counted.containers) {
    if (container.kind == ContainerKind::kInit) continue;  // they cannot be resized
    const PodJson* const status = StatusOf(pod, container);
    if (status == nullptr) continue;
    const Result<Done> done = CountOne(*status, is_infeasible, "status of " + container.name,
                                       container.resources.requests);
    if (!done.ok()) return done;
  }
  if (!counted.pod_level) return Done{};
  return CountOne(MemberOf(pod, "status"), is_infeasible, "status", counted.pod_level->requests);
}

}  // namespace

bool IsOfApiServer(const PodJson& pod) {
  return !TextAt(pod, "metadata", "uid").empty() && !TextAt(pod, "status", "phase").empty();
}

void TakeStatus(const PodJson& pod, PlannedPod& planned) {
  planned.is_resizing = planned.is_resizing || IsResizing(pod);
  if (!planned.faults.empty()) return;
  Pod counted = planned.pod;
  const Result<Done> done = CountStatus(pod, counted);
  if (!done.ok()) {
    planned.faults.push_back(done.error().message);
  } else if (counted != planned.pod) {
    // The class of a pod never changes. It follows from the spec.
    counted.stated_qos = QosOf(planned.pod);
    planned.pod = std::move(counted);
    planned.is_resizing = true;
  }
}

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
