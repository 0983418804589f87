// The functions of libalignd: texts in, texts out. Nothing is thrown across them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/fit.h"
#include "alignd/placement/fleet_node.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/score.h"
#include "library/alignd.h"
#include "library/checked_json.h"

namespace alignd::library {
namespace {

using nlohmann::json;

constexpr size_t kMaxNodesBytes = size_t{1} << 30;
constexpr size_t kMaxNodeBytes = size_t{16} << 20;
constexpr size_t kMaxPodsBytes = size_t{64} << 20;
constexpr size_t kMaxOptionsBytes = size_t{1} << 20;

Error BadCall(std::string message, std::string remedy) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)};
}

std::string_view CodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kCorrupt:
      return "Corrupt";
    default:
      return "Internal";
  }
}

std::string ErrorJson(const Error& error) {
  const std::string remedy =
      error.remedy.empty() ? "correct the input; docs/library.md describes it" : error.remedy;
  const json text = {
      {"error", {{"code", CodeName(error.code)}, {"message", error.message}, {"remedy", remedy}}}};
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::vector<placement::PlannedPod>> ReadPods(const json& pods,
                                                    std::optional<int64_t> replicas,
                                                    std::vector<std::string>& skipped) {
  placement::Manifests manifests;
  const std::vector<json> objects =
      pods.is_array() ? std::vector<json>(pods.begin(), pods.end()) : std::vector<json>{pods};
  for (size_t i = 0; i < objects.size(); ++i) {
    const std::string place = pods.is_array() ? "pods[" + std::to_string(i) + "]" : "pods";
    const Result<Done> read = placement::ReadManifest(objects[i].dump(), place, manifests);
    if (!read.ok()) return read.error().In(place);
  }
  placement::LeaveOutOwned(manifests);
  Result<std::vector<placement::PlannedPod>> expanded = placement::ExpandPods(manifests, replicas);
  if (expanded.ok() && expanded->empty()) {
    return BadCall("the manifests have no pods", "give objects that make pods");
  }
  skipped = manifests.skipped;
  return expanded;
}

Result<placement::FleetNode> ReadNode(const json& node_json, const std::string& config) {
  Result<placement::FleetNode> node = placement::ReadFleetNode(node_json.dump(), config);
  if (!node.ok()) return node;
  const Result<Done> used = placement::UseFiles(*node);
  if (!used.ok()) return used.error();
  return node;
}

Result<std::string> Simulate(std::string_view node_text, std::string_view pod_text) {
  const Result<json> node_json = CheckedJson(node_text, "node", kMaxNodeBytes);
  if (!node_json.ok()) return node_json.error();
  const Result<json> pod_json = CheckedJson(pod_text, "pod", kMaxPodsBytes);
  if (!pod_json.ok()) return pod_json.error();
  const Result<placement::FleetNode> node = ReadNode(*node_json, "");
  if (!node.ok()) return node.error().In("node");
  std::vector<std::string> skipped;
  const auto pods = ReadPods(*pod_json, std::nullopt, skipped);
  if (!pods.ok()) return pods.error();
  if (pods->size() != 1) {
    return BadCall("the object makes " + std::to_string(pods->size()) + " pods",
                   "give an object that makes one pod, or call alignd_fit");
  }
  const Result<placement::PlannedNode> planned = placement::MakePlannedNode(*node);
  if (!planned.ok()) return planned.error();
  return placement::VerdictJson(*planned, pods->front(), planned->Ask(pods->front()));
}

// The options of alignd_fit, and what they mean for reading pods and nodes.
struct FitCall {
  placement::FitOptions options;
  std::optional<int64_t> replicas;
  std::string config;
};

Result<Done> ReadReplicas(const json& value, FitCall& call) {
  if (value == "max") {
    call.options.fill = true;
    call.replicas = 1;
    return Done{};
  }
  const bool is_number = value.is_number_unsigned();
  const uint64_t number = is_number ? value.get<uint64_t>() : 0;
  if (number < 1 || number > static_cast<uint64_t>(placement::kMaxReplicas)) {
    return BadCall("options.replicas: is not a whole number from 1 to " +
                       std::to_string(placement::kMaxReplicas) + ", nor \"max\"",
                   "write such a number, or \"max\"");
  }
  call.replicas = static_cast<int64_t>(number);
  return Done{};
}

Result<Done> ReadChanges(const json& value, FitCall& call) {
  const Error bad = BadCall("options.compare: is not a list of texts",
                            "write a list such as [\"policy=restricted,best-effort\"]");
  if (!value.is_array()) return bad;
  for (const json& element : value) {
    if (!element.is_string()) return bad;
    const auto changes = placement::ParseConfigChanges(element.get<std::string>());
    if (!changes.ok()) return changes.error().In("options.compare");
    call.options.changes.insert(call.options.changes.end(), changes->begin(), changes->end());
  }
  return Done{};
}

Result<Done> ReadOption(const std::string& key, const json& value, FitCall& call) {
  if (key == "replicas") return ReadReplicas(value, call);
  if (key == "compare") return ReadChanges(value, call);
  if (key == "config") {
    if (!value.is_object()) {
      return BadCall("options.config: is no object", "give a KubeletConfiguration");
    }
    call.config = value.dump();
    return Done{};
  }
  if (key != "score") {
    return BadCall("options: has no member \"" + key + "\"",
                   "the members are score, replicas, compare and config");
  }
  const auto strategy =
      value.is_string() ? placement::ScoreStrategyOf(value.get<std::string>()) : std::nullopt;
  if (!strategy) {
    std::string all;
    for (const placement::ScoreStrategy known : placement::AllScoreStrategies()) {
      all += (all.empty() ? "" : ", ") + std::string(ToString(known));
    }
    return BadCall("options.score: is not a strategy", "the strategies are " + all);
  }
  call.options.strategy = *strategy;
  return Done{};
}

Result<FitCall> ReadFitCall(std::string_view text) {
  FitCall call;
  const Result<json> options = CheckedJson(text, "options", kMaxOptionsBytes);
  if (!options.ok()) return options.error();
  if (!options->is_object()) {
    return BadCall("options: is no object", "write an object such as {\"replicas\": 3}");
  }
  for (const auto& [key, value] : options->items()) {
    const Result<Done> read = ReadOption(key, value, call);
    if (!read.ok()) return read.error();
  }
  return call;
}

Result<std::string> Fit(std::string_view nodes_text, std::string_view pods_text,
                        std::string_view options_text) {
  const Result<FitCall> call = ReadFitCall(options_text);
  if (!call.ok()) return call.error();
  const Result<json> nodes_json = CheckedJson(nodes_text, "nodes", kMaxNodesBytes);
  if (!nodes_json.ok()) return nodes_json.error();
  if (!nodes_json->is_array()) {
    return BadCall("nodes: is no array", "write an array of nodes, also for one node");
  }
  const Result<json> pods_json = CheckedJson(pods_text, "pods", kMaxPodsBytes);
  if (!pods_json.ok()) return pods_json.error();
  std::vector<placement::FleetNode> nodes;
  for (size_t i = 0; i < nodes_json->size(); ++i) {
    Result<placement::FleetNode> node = ReadNode((*nodes_json)[i], call->config);
    if (!node.ok()) return node.error().In("nodes[" + std::to_string(i) + "]");
    nodes.push_back(*std::move(node));
  }
  std::vector<std::string> skipped;
  const auto pods = ReadPods(*pods_json, call->replicas, skipped);
  if (!pods.ok()) return pods.error();
  Result<placement::FitResult> result =
      placement::FitFleet(nodes, *pods, call->options, placement::ForEachInTurn);
  if (!result.ok()) return result.error();
  result->skipped = std::move(skipped);
  return placement::FitJson(*result);
}

char* CopyOf(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

template <typename Call>
int Answer(char** result, const Call& call) noexcept {
  if (result == nullptr) return ALIGND_ERROR;
  *result = nullptr;
  try {
    const Result<std::string> answer = call();
    *result = CopyOf(answer.ok() ? *answer : ErrorJson(answer.error()));
    if (*result == nullptr) return ALIGND_NO_MEMORY;
    return answer.ok() ? ALIGND_OK : ALIGND_ERROR;
  } catch (const std::bad_alloc&) {
    return ALIGND_NO_MEMORY;
  } catch (...) {
    *result =
        strdup(R"({"error":{"code":"Internal","message":"a bug in alignd","remedy":"report it"}})");
    return *result == nullptr ? ALIGND_NO_MEMORY : ALIGND_ERROR;
  }
}

}  // namespace
}  // namespace alignd::library

unsigned alignd_api_version(void) { return ALIGND_API_VERSION; }

const char* alignd_version(void) { return ALIGND_VERSION; }

int alignd_simulate(const char* node, const char* pod, char** result) {
  return alignd::library::Answer(result, [&]() -> alignd::Result<std::string> {
    if (node == nullptr || pod == nullptr) {
      return alignd::library::BadCall("an argument is NULL", "give a node and a pod");
    }
    return alignd::library::Simulate(node, pod);
  });
}

int alignd_fit(const char* nodes, const char* pods, const char* options, char** result) {
  return alignd::library::Answer(result, [&]() -> alignd::Result<std::string> {
    if (nodes == nullptr || pods == nullptr) {
      return alignd::library::BadCall("an argument is NULL", "give nodes and pods");
    }
    return alignd::library::Fit(nodes, pods, options == nullptr ? "{}" : options);
  });
}

void alignd_free(char* result) { std::free(result); }
