#include "control/health.h"

#include <map>
#include <string_view>

#include "reconcile/conditions.h"

namespace alignd::control {

std::vector<std::string> ProblemsOf(const v1::GetStatusResponse& status) {
  std::vector<std::string> problems;
  const auto add = [&problems](const std::string& what, int count) {
    if (count == 1) problems.push_back(what);
    if (count > 1) problems.push_back(what + " (" + std::to_string(count) + ")");
  };
  const auto is_event = [](const std::string& type) {
    return type == ToString(reconcile::ConditionType::kCpusetRepaired) ||
           type == ToString(reconcile::ConditionType::kStateRebuilt);
  };
  const auto lasts = std::chrono::duration_cast<std::chrono::milliseconds>(kEventLasts).count();
  std::map<std::string, int> conditions;
  for (const v1::Condition& condition : status.conditions()) {
    const bool is_over =
        is_event(condition.type()) && status.time_unix_ms() - condition.last_unix_ms() > lasts;
    // The author of a pod could degrade the node; a gate of a newer kubelet is no fault.
    const bool is_note =
        condition.type() == ToString(reconcile::ConditionType::kUnsupportedAnnotation) ||
        condition.type() == ToString(reconcile::ConditionType::kUnknownFeatureGate);
    if (!is_over && !is_note) ++conditions[condition.type()];
  }
  for (const auto& [type, count] : conditions) add(type, count);
  std::map<std::string, int> pending;
  for (const v1::PendingPod& pod : status.pending()) {
    if (pod.state() != "waiting") ++pending["container " + pod.state()];
    // Before alignd was started again, it had a position.
    const bool waits_for_pods = pod.state() == "waiting" && !pod.reason().empty();
    if (pod.position() > 0 || waits_for_pods) {
      ++pending["pod waits for resources"];
    } else if (pod.state() == "waiting" && pod.times() > 0) {
      ++pending["container waits again"];
    }
  }
  for (const auto& [what, count] : pending) add(what, count);
  int missing = 0;
  int unhealthy = 0;
  for (const v1::DeviceResource& resource : status.devices()) {
    if (!resource.registered()) ++missing;
    if (resource.registered()) unhealthy += static_cast<int>(resource.unhealthy());
  }
  add("device plugin not registered", missing);
  add("device unhealthy", unhealthy);
  if (!status.decisions_not_saved().empty()) add("decisions not saved", 1);
  int broken = 0;
  for (const v1::ContainerAssignment& container : status.containers()) {
    for (const v1::AssignedDevices& assigned : container.devices()) {
      for (const v1::Device& device : assigned.devices()) {
        if (!device.problem().empty()) ++broken;
      }
    }
  }
  add("assigned device not usable", broken);
  return problems;
}

}  // namespace alignd::control
