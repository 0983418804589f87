#include "cli/report_json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace alignd::cli {
namespace {

using Json = nlohmann::ordered_json;

// Messages may hold a plugin's bytes; what is no UTF-8 must not end the program.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json JsonOf(const std::map<std::string, admission::Availability>& left) {
  Json json = Json::object();
  for (const auto& [name, amount] : left) {
    json[name] = {{"free", amount.free}, {"total", amount.total}};
  }
  return json;
}

Json JsonOf(const control::ContainerReport& container) {
  Json devices = Json::object();
  for (const auto& [resource, held] : container.devices) {
    Json list = Json::array();
    for (const control::AssignedDevice& device : held) {
      list.push_back({{"id", device.id}, {"numa", device.numa}});
      if (!device.kubelet_id.empty()) list.back()["kubelet_id"] = device.kubelet_id;
      if (!device.problem.empty()) list.back()["problem"] = device.problem;
    }
    devices[resource] = std::move(list);
  }
  return {
      {"pod_uid", container.pod_uid},           {"pod", container.pod},
      {"container", container.container},       {"exclusive_cpus", container.exclusive.ToString()},
      {"memory_nodes", container.memory_nodes}, {"devices", std::move(devices)}};
}

Json JsonOf(const std::vector<control::ContainerReport>& containers) {
  Json json = Json::array();
  for (const control::ContainerReport& container : containers) json.push_back(JsonOf(container));
  return json;
}

Json JsonOf(const control::ConditionReport& note) {
  return {{"first_unix_ms", note.first_unix_ms},
          {"last_unix_ms", note.last_unix_ms},
          {"times", note.times},
          {"container_id", note.container_id},
          {"pod_uid", note.pod_uid},
          {"pod", note.pod},
          {"container", note.container},
          {"was", note.was},
          {"should", note.should},
          {"noticed_ms", note.noticed_ms},
          {"lasted_ms", note.lasted_ms},
          {"text", note.text},
          {"remedy", note.remedy}};
}

Json JsonOf(const std::vector<control::ConditionReport>& notes) {
  Json json = Json::array();
  for (const control::ConditionReport& note : notes) json.push_back(JsonOf(note));
  return json;
}

Json JsonOf(const control::HintReport& hint) {
  return {{"numa", hint.numa ? Json(*hint.numa) : Json()}, {"preferred", hint.preferred}};
}

Json JsonOf(const control::ContainerExplanation& container) {
  Json hints = Json::object();
  for (const control::ResourceHints& resource : container.hints) {
    Json list = resource.no_opinion ? Json() : Json::array();
    for (const control::HintReport& hint : resource.hints) list.push_back(JsonOf(hint));
    hints[resource.resource] = {{"hints", std::move(list)}, {"left_out", resource.left_out}};
  }
  Json candidates = Json::array();
  for (const control::CandidateReport& candidate : container.candidates) {
    Json entry = JsonOf(candidate.hint);
    entry["verdict"] = candidate.verdict;
    candidates.push_back(std::move(entry));
  }
  return {{"container", container.container},
          {"hints", std::move(hints)},
          {"merged", container.merged ? JsonOf(*container.merged) : Json()},
          {"candidates", std::move(candidates)},
          {"candidates_left_out", container.candidates_left_out},
          {"notes", container.notes}};
}

Json JsonOf(const control::DecisionReport& decision) {
  Json containers = Json::array();
  for (const auto& container : decision.containers) containers.push_back(JsonOf(container));
  return {{"time_unix_ms", decision.time_unix_ms},
          {"times", decision.times},
          {"pod_uid", decision.pod_uid},
          {"namespace", decision.name_space},
          {"name", decision.name},
          {"source", decision.source},
          {"asked", decision.asked},
          {"outcome", decision.outcome},
          {"reason", decision.reason},
          {"message", decision.message},
          {"left", decision.left},
          {"containers", std::move(containers)},
          {"assignments", JsonOf(decision.assignments)}};
}

}  // namespace

std::string StatusJson(const control::StatusReport& report) {
  const control::Policies& policies = report.policies;
  Json numa = Json::array();
  for (const admission::NumaAvailability& room : report.numa) {
    numa.push_back({{"id", room.numa_id},
                    {"free_cpus", room.free_cpus.ToString()},
                    {"cpus", room.cpus},
                    {"memory", JsonOf(room.memory)},
                    {"devices", JsonOf(room.devices)}});
  }
  Json devices = Json::array();
  for (const control::DeviceResource& resource : report.devices) {
    devices.push_back({{"name", resource.name},
                       {"registered", resource.registered},
                       {"free", resource.healthy.free},
                       {"total", resource.healthy.total},
                       {"unhealthy", resource.unhealthy}});
  }
  return Text(
      {{"version", report.version},
       {"generation", report.generation},
       {"policies",
        {{"cpu_manager", policies.cpu_manager},
         {"cpu_manager_options", policies.cpu_manager_options},
         {"memory_manager", policies.memory_manager},
         {"topology_manager", policies.topology_manager},
         {"topology_manager_options", policies.topology_manager_options},
         {"topology_scope", policies.topology_scope},
         {"compatibility", policies.compatibility}}},
       {"default_set", report.default_set.ToString()},
       {"reserved_cpus", report.reserved_cpus.ToString()},
       {"numa", std::move(numa)},
       {"devices", std::move(devices)},
       {"containers", JsonOf(report.containers)},
       {"conditions",
        {{"repairs", report.conditions.repairs},
         {"last_repairs", JsonOf(report.conditions.last_repairs)},
         {"failed_updates", JsonOf(report.conditions.failed_updates)},
         {"throttled_pods", JsonOf(report.conditions.throttled_pods)},
         {"conflicting_managers", JsonOf(report.conditions.conflicting_managers)},
         {"runtime_outage",
          report.conditions.runtime_outage ? JsonOf(*report.conditions.runtime_outage) : Json()},
         {"unmanaged", JsonOf(report.conditions.unmanaged)},
         {"past_mirror", JsonOf(report.conditions.past_mirror)}}}});
}

std::string DecisionsJson(const std::vector<control::DecisionReport>& decisions) {
  Json json = Json::array();
  for (const control::DecisionReport& decision : decisions) json.push_back(JsonOf(decision));
  return Text(json);
}

}  // namespace alignd::cli
