// The reports of planning as JSON.
#include <nlohmann/json.hpp>
#include <optional>

#include "alignd/placement/fit.h"

namespace alignd::placement {
namespace {

using Json = nlohmann::ordered_json;

// Names in manifests can have bytes that are not UTF-8.
std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json PlacementsJson(const Placements& placements) {
  Json json = Json::object();
  for (const auto& [container, placement] : placements) {
    const admission::Assignment& assignment = placement.assignment;
    Json devices = Json::object();
    if (placement.is_of_object) {
      for (const auto& [resource, allocation] : assignment.devices) {
        devices[resource] = allocation.Ids().size();
      }
      json[container] = {{"exclusive_cpu_count", assignment.exclusive.Count()},
                         {"memory_nodes", assignment.memory_nodes},
                         {"device_counts", std::move(devices)}};
      if (placement.cpu_nodes.size() == 1) json[container]["cpu_nodes"] = placement.cpu_nodes;
      continue;
    }
    for (const auto& [resource, allocation] : assignment.devices) {
      devices[resource] = allocation.Ids();
    }
    json[container] = {{"exclusive_cpus", assignment.exclusive.ToString()},
                       {"cpu_nodes", placement.cpu_nodes},
                       {"cpus", assignment.cpuset.ToString()},
                       {"memory_nodes", assignment.memory_nodes},
                       {"devices", std::move(devices)}};
  }
  return json;
}

// `only`: the groups with this outcome; nullopt: all.
Json RefusalsJson(const std::vector<RefusingNodes>& refusals, const std::vector<std::string>* names,
                  std::optional<Outcome> only = std::nullopt) {
  Json json = Json::array();
  for (const RefusingNodes& refusal : refusals) {
    if (only && refusal.group.outcome != *only) continue;
    Json entry = {{"outcome", ToString(refusal.group.outcome)},
                  {"stage", ToString(refusal.group.stage)},
                  {"cause", refusal.group.cause},
                  {"count", refusal.group.nodes.size()},
                  {"example", refusal.example}};
    if (names != nullptr) {
      Json nodes = Json::array();
      for (const size_t node : refusal.group.nodes) nodes.push_back((*names)[node]);
      entry["nodes"] = std::move(nodes);
    }
    json.push_back(std::move(entry));
  }
  return json;
}

Json EntryJson(const FitEntry& entry, const std::vector<std::string>& names) {
  Json fitting = Json::array();
  for (const Fleet::Fitting& fit : entry.fitting) {
    fitting.push_back({{"node", names[fit.node]}, {"score", fit.score}});
  }
  Json placed = Json::array();
  for (const auto& [node, pods] : entry.placed_on) {
    placed.push_back({{"node", names[node]}, {"pods", pods}});
  }
  return {{"name", entry.name},
          {"wanted", entry.is_fill ? Json() : Json(entry.replicas)},
          {"placed", entry.placed},
          {"undecided", entry.undecided},
          {"is_limited", entry.is_limited},
          {"fitting", std::move(fitting)},
          {"refused", RefusalsJson(entry.others, &names, Outcome::kRefused)},
          {"cannot_decide", RefusalsJson(entry.others, &names, Outcome::kUndecided)},
          {"placed_on", std::move(placed)},
          {"assignments", PlacementsJson(entry.first)},
          {"not_considered", entry.not_considered},
          {"rest", RefusalsJson(entry.rest, &names)}};
}

// The nodes of a comparison are not those of the report: some can be left out.
Json ComparisonJson(const Comparison& comparison) {
  Json workloads = Json::array();
  for (const FitEntry& entry : comparison.report.entries) {
    workloads.push_back({{"name", entry.name},
                         {"wanted", entry.is_fill ? Json() : Json(entry.replicas)},
                         {"placed", entry.placed},
                         {"undecided", entry.undecided},
                         {"fitting", entry.fitting.size()},
                         {"rest", RefusalsJson(entry.rest, nullptr)}});
  }
  Json left_out = Json::array();
  for (const auto& [reason, nodes] : comparison.left_out) {
    left_out.push_back({{"reason", reason}, {"nodes", nodes}});
  }
  return {{"key", comparison.change.key},
          {"value", comparison.change.value},
          {"nodes", comparison.nodes},
          {"pods", comparison.report.pods},
          {"admitted", comparison.report.admitted},
          {"refused", comparison.report.refused()},
          {"undecided", comparison.report.undecided},
          {"workloads", std::move(workloads)},
          {"left_out", std::move(left_out)}};
}

}  // namespace

std::string FitJson(const FitResult& result) {
  Json workloads = Json::array();
  for (const FitEntry& entry : result.report.entries) {
    workloads.push_back(EntryJson(entry, result.nodes));
  }
  Json comparisons = Json::array();
  for (const Comparison& comparison : result.comparisons) {
    comparisons.push_back(ComparisonJson(comparison));
  }
  Json notes = Json::array();
  for (const auto& [text, nodes] : result.notes) {
    notes.push_back({{"text", text}, {"nodes", nodes}});
  }
  for (const std::string& note : result.fleet_notes) notes.push_back({{"text", note}});
  Json unusable = Json::array();
  for (const auto& [node, problem] : result.unusable) {
    unusable.push_back({{"node", node}, {"reason", problem.message}, {"remedy", problem.remedy}});
  }
  return Dumped({{"score", result.score},
                 {"nodes", result.nodes.size()},
                 {"pods", result.report.pods},
                 {"admitted", result.report.admitted},
                 {"refused", result.report.refused()},
                 {"undecided", result.report.undecided},
                 {"workloads", std::move(workloads)},
                 {"comparisons", std::move(comparisons)},
                 {"unusable", std::move(unusable)},
                 {"skipped", result.skipped},
                 {"notes", std::move(notes)}});
}

std::string VerdictJson(const PlannedNode& node, const PlannedPod& pod, const Verdict& verdict) {
  const bool fits = verdict.outcome == Outcome::kFits;
  const Refusal refusal = verdict.refusal.value_or(Refusal{});
  Json json = {{"pod", pod.pod.name_space + "/" + pod.pod.name},
               {"outcome", ToString(verdict.outcome)},
               {"stage", fits ? "" : ToString(verdict.stage)},
               {"reason", refusal.reason},
               {"message", ExplainedMessage(node, pod, verdict)},
               {"cause", verdict.cause},
               {"faults", pod.faults},
               {"not_considered", node.NotConsidered(pod)}};
  json["assignments"] = PlacementsJson(PlacementsOf(node, verdict));
  return Dumped(json);
}

}  // namespace alignd::placement
