#include "cli/report_json.h"

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "control/health.h"

namespace alignd::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace v1 = control::v1;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Message>
Json ListOf(const google::protobuf::RepeatedPtrField<Message>& messages,
            Json (*json_of)(const std::type_identity_t<Message>&)) {
  Json json = Json::array();
  for (const Message& message : messages) json.push_back(json_of(message));
  return json;
}

// A protobuf map has no order.
template <typename Value>
std::map<std::string, Value> Sorted(const google::protobuf::Map<std::string, Value>& map) {
  return {map.begin(), map.end()};
}

Json JsonOf(const google::protobuf::Map<std::string, v1::Availability>& availability) {
  Json json = Json::object();
  for (const auto& [name, amount] : Sorted(availability)) {
    json[name] = {{"free", amount.free()}, {"total", amount.total()}};
  }
  return json;
}

Json JsonOf(const v1::Device& device) {
  Json json = {{"id", device.id()}, {"numa", device.numa()}};
  if (!device.kubelet_id().empty()) json["kubelet_id"] = device.kubelet_id();
  if (!device.problem().empty()) json["problem"] = device.problem();
  return json;
}

Json JsonOf(const v1::ContainerAssignment& container) {
  Json devices = Json::object();
  for (const v1::AssignedDevices& assigned : container.devices()) {
    devices[assigned.resource()] = ListOf(assigned.devices(), JsonOf);
  }
  Json json = {
      {"pod_uid", container.pod_uid()},           {"pod", container.pod()},
      {"container", container.container()},       {"exclusive_cpus", container.exclusive_cpus()},
      {"memory_nodes", container.memory_nodes()}, {"devices", std::move(devices)}};
  if (!container.pod_cpus().empty()) json["pod_cpus"] = container.pod_cpus();
  if (container.has_shared_on_node()) {
    json["shared_on_node"] = {{"numa", container.shared_on_node().numa()},
                              {"millis", container.shared_on_node().millis()}};
  }
  return json;
}

Json JsonOf(const v1::WholePod& pod) {
  Json memory = Json::array();
  for (const v1::MemoryBlock& block : pod.memory()) {
    memory.push_back({{"type", block.type()}, {"bytes", block.bytes()}, {"numa", block.numa()}});
  }
  return {{"pod_uid", pod.pod_uid()},
          {"pod", pod.pod()},
          {"cpus", pod.cpus()},
          {"memory", std::move(memory)}};
}

Json JsonOf(const v1::ClaimedDevice& device) {
  return {{"claim", device.claim()}, {"driver", device.driver()}, {"pool", device.pool()},
          {"name", device.name()},   {"numa", device.numa()},     {"note", device.note()}};
}

Json JsonOf(const v1::PodReport& pod) {
  Json containers = Json::array();
  for (const v1::ContainerAssignment& container : pod.containers()) {
    Json json = JsonOf(container);
    json["cpus"] = container.cpus();
    json["cpu_nodes"] = container.cpu_nodes();
    json["claimed_devices"] = ListOf(container.claimed_devices(), JsonOf);
    containers.push_back(std::move(json));
  }
  Json json = {{"pod_uid", pod.pod_uid()},
               {"namespace", pod.pod_namespace()},
               {"name", pod.pod_name()},
               {"source", pod.source()},
               {"containers", std::move(containers)},
               {"claimed_devices", ListOf(pod.claimed_devices(), JsonOf)}};
  if (pod.has_whole()) json["whole"] = JsonOf(pod.whole());
  return json;
}

// null: no time.
Json TimeOf(int64_t unix_ms) { return unix_ms == 0 ? Json() : Json(IsoTime(unix_ms)); }

std::string Since(const v1::GetStatusResponse& status, int64_t unix_ms) {
  return ReadableDuration(std::chrono::milliseconds(status.time_unix_ms() - unix_ms));
}

Json JsonOf(const v1::GetStatusResponse& status, const v1::PendingPod& pod) {
  return {{"pod_uid", pod.pod_uid()},
          {"pod", pod.pod()},
          {"container", pod.container()},
          {"state", pod.state()},
          {"reason", pod.reason()},
          {"message", pod.message()},
          {"first", TimeOf(pod.first_unix_ms())},
          {"last", TimeOf(pod.last_unix_ms())},
          {"until", TimeOf(pod.until_unix_ms())},
          {"age", Since(status, pod.first_unix_ms())},
          {"times", pod.times()},
          {"position", pod.position()},
          {"priority", pod.priority()}};
}

Json JsonOf(const v1::Change& change) { return {{"kind", change.kind()}, {"what", change.what()}}; }

Json JsonOf(const v1::Condition& condition) {
  return {{"type", condition.type()},
          {"first", TimeOf(condition.first_unix_ms())},
          {"last", TimeOf(condition.last_unix_ms())},
          {"times", condition.times()},
          {"container_id", condition.container_id()},
          {"pod_uid", condition.pod_uid()},
          {"pod", condition.pod()},
          {"container", condition.container()},
          {"message", condition.message()},
          {"remedy", condition.remedy()}};
}

Json JsonOf(const v1::Policies& policies) {
  return {{"cpu_manager", policies.cpu_manager()},
          {"cpu_manager_options", Sorted(policies.cpu_manager_options())},
          {"memory_manager", policies.memory_manager()},
          {"topology_manager", policies.topology_manager()},
          {"topology_manager_options", Sorted(policies.topology_manager_options())},
          {"topology_scope", policies.topology_scope()},
          {"compatibility", policies.compatibility()}};
}

Json JsonOf(const v1::NumaNode& node) {
  Json json = {{"id", node.id()},
               {"free_cpus", node.free_cpus()},
               {"cpus", node.cpus()},
               {"all_cpus", node.all_cpus()},
               {"exclusive_cpus", node.exclusive_cpus()},
               {"reserved_cpus", node.reserved_cpus()},
               {"memory", JsonOf(node.memory())},
               {"memory_capacity", Sorted(node.memory_capacity())},
               {"devices", JsonOf(node.devices())}};
  if (node.has_shared_millis()) {
    json["shared_millis"] = {{"free", node.shared_millis().free()},
                             {"total", node.shared_millis().total()}};
  }
  return json;
}

Json JsonOf(const v1::DeviceResource& resource) {
  return {{"name", resource.name()},
          {"registered", resource.registered()},
          {"free", resource.healthy().free()},
          {"total", resource.healthy().total()},
          {"unhealthy", resource.unhealthy()},
          {"disconnected_since", TimeOf(resource.disconnected_unix_ms())}};
}

Json JsonOf(const v1::Hint& hint) {
  return {{"numa", hint.any() ? Json() : Json(hint.numa())}, {"preferred", hint.preferred()}};
}

Json JsonOf(const v1::Candidate& candidate) {
  Json json = JsonOf(candidate.hint());
  json["verdict"] = candidate.verdict();
  return json;
}

Json JsonOf(const v1::ContainerDecision& container) {
  Json hints = Json::object();
  for (const v1::ResourceHints& resource : container.hints()) {
    hints[resource.resource()] = {
        {"hints", resource.no_opinion() ? Json() : ListOf(resource.hints(), JsonOf)},
        {"left_out", resource.left_out()}};
  }
  return {{"container", container.container()},
          {"hints", std::move(hints)},
          {"merged", container.has_merged() ? JsonOf(container.merged()) : Json()},
          {"candidates", ListOf(container.candidates(), JsonOf)},
          {"candidates_left_out", container.candidates_left_out()},
          {"notes", container.notes()}};
}

Json JsonOf(const v1::PodDecision& decision) {
  return {{"time", TimeOf(decision.time_unix_ms())},
          {"times", decision.times()},
          {"pod_uid", decision.pod_uid()},
          {"namespace", decision.pod_namespace()},
          {"name", decision.pod_name()},
          {"source", decision.source()},
          {"asked", decision.asked()},
          {"outcome", decision.outcome()},
          {"reason", decision.reason()},
          {"message", decision.message()},
          {"available", decision.available()},
          {"containers", ListOf(decision.containers(), JsonOf)},
          {"assignments", ListOf(decision.assignments(), JsonOf)},
          {"position", decision.position()}};
}

Json AmountsJson(const v1::PodDecision& pod, const placement::Placements& amounts) {
  Json containers = Json::array();
  for (const auto& [container, placement] : amounts) {
    Json devices = Json::object();
    for (const auto& [resource, allocation] : placement.assignment.devices) {
      devices[resource] = allocation.Ids().size();
    }
    Json json = {{"pod_uid", pod.pod_uid()},
                 {"pod", pod.pod_namespace() + "/" + pod.pod_name()},
                 {"container", container},
                 {"exclusive_cpu_count", placement.assignment.exclusive.Count()},
                 {"memory_nodes", placement.assignment.memory_nodes},
                 {"device_counts", std::move(devices)}};
    if (placement.cpu_nodes.size() == 1) json["cpu_nodes"] = placement.cpu_nodes;
    containers.push_back(std::move(json));
  }
  return containers;
}

}  // namespace

std::string StatusJson(const v1::GetStatusResponse& status) {
  const std::vector<std::string> problems = control::ProblemsOf(status);
  Json pending = Json::array();
  for (const v1::PendingPod& pod : status.pending()) pending.push_back(JsonOf(status, pod));
  return Text({{"version", status.version()},
               {"node", status.node()},
               {"health", problems.empty() ? "healthy" : "degraded"},
               {"problems", problems},
               {"time", TimeOf(status.time_unix_ms())},
               {"started", TimeOf(status.started_unix_ms())},
               {"state_dir", status.state_dir()},
               {"config", status.config()},
               {"runtime_endpoint", status.runtime_endpoint()},
               {"generation", status.generation()},
               {"decisions_not_saved", status.decisions_not_saved()},
               {"policies", JsonOf(status.policies())},
               {"default_set", status.default_set()},
               {"reserved_cpus", status.reserved_cpus()},
               {"offline_cpus", status.offline_cpus()},
               {"numa", ListOf(status.numa(), JsonOf)},
               {"devices", ListOf(status.devices(), JsonOf)},
               {"pods", status.pods()},
               {"containers", ListOf(status.containers(), JsonOf)},
               {"whole_pods", ListOf(status.whole_pods(), JsonOf)},
               {"pending", std::move(pending)},
               {"conditions", ListOf(status.conditions(), JsonOf)}});
}

std::string DecisionsJson(const v1::ExplainResponse& explained) {
  return Text(ListOf(explained.decisions(), JsonOf));
}

std::string PodsJson(const v1::ListPodsResponse& pods) {
  v1::GetStatusResponse now;
  now.set_time_unix_ms(pods.time_unix_ms());
  Json waiting = Json::array();
  for (const v1::PendingPod& pod : pods.waiting()) waiting.push_back(JsonOf(now, pod));
  return Text({{"pods", ListOf(pods.pods(), JsonOf)},
               {"waiting", std::move(waiting)},
               {"claims_error", pods.claims_error()}});
}

std::string WhyNotJson(const v1::WhyNotResponse& why) {
  return Text({{"pod", why.pod()},
               {"asked", why.asked()},
               {"fits", why.fits()},
               {"reason", why.reason()},
               {"message", why.message()},
               {"changes", ListOf(why.changes(), JsonOf)},
               {"is_complete", why.is_complete()}});
}

std::string PlanJson(const Plan& plan, const v1::GetStatusResponse& after) {
  Json decisions = Json::array();
  for (const PlanEntry& entry : plan.entries) {
    Json& json = decisions.emplace_back(JsonOf(entry.decision));
    if (!entry.amounts.empty()) json["assignments"] = AmountsJson(entry.decision, entry.amounts);
    json["outcome"] = entry.outcome;
    json["stage"] = entry.stage;
    json["owner"] = entry.owner;
    json["faults"] = entry.faults;
    json["not_considered"] = entry.not_considered;
  }
  Json scheduler = Json::object();
  for (const auto& [name, amounts] : plan.scheduler) {
    scheduler[name] = {{"requested", amounts.first}, {"allocatable", amounts.second}};
  }
  return Text({{"decisions", std::move(decisions)},
               {"numa", ListOf(after.numa(), JsonOf)},
               {"scheduler", std::move(scheduler)},
               {"skipped", plan.skipped},
               {"notes", plan.notes}});
}

}  // namespace alignd::cli
