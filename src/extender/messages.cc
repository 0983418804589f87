#include "extender/messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "alignd/base/json_depth.h"

namespace alignd::extender {
namespace {

using Json = nlohmann::json;

// The API server accepts requests of 3 MiB.
// Source: k8s.io/apiserver pkg/server/config.go, MaxRequestBodyBytes.
constexpr size_t kMaxPodBytes = size_t{4} << 20;
constexpr char kRemedy[] =
    "let kube-scheduler call the extender, with a filterVerb and a "
    "prioritizeVerb as in config/scheduler/kube-scheduler-config.yaml";

Error BadRequest(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), kRemedy};
}

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return text;
}

// Go's encoding/json compares names of fields without case. Null is as absent.
template <typename Object>  // Json or const Json
Object* MemberOf(Object& object, std::string_view lower) {
  for (auto member = object.begin(); member != object.end(); ++member) {
    if (Lower(member.key()) == lower && !member->is_null()) return &*member;
  }
  return nullptr;
}

std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<placement::PlannedPod> ReadPod(Json& args) {
  Json* const member = MemberOf(args, "pod");
  if (member == nullptr || !member->is_object()) return BadRequest("Pod: is no object");
  // Typed clients leave out what the type says.
  Json& pod = *member;
  pod["kind"] = "Pod";
  pod["apiVersion"] = "v1";
  const std::string text = Dumped(pod);
  if (text.size() > kMaxPodBytes) {
    return BadRequest("Pod: has " + std::to_string(text.size()) + " bytes, more than " +
                      std::to_string(kMaxPodBytes));
  }
  placement::Manifests manifests;
  const Result<Done> read = placement::ReadManifest(text, "the request", manifests,
                                                    placement::ManifestOrigin::kApiServer);
  if (!read.ok()) return read.error().In("Pod");
  Result<std::vector<placement::PlannedPod>> pods = placement::ExpandPods(manifests, std::nullopt);
  if (!pods.ok()) return pods.error().In("Pod");
  if (pods->size() != 1) return BadRequest("Pod: it has ended");
  return pods->front();
}

Result<Done> ReadNames(const Json& args, Request& request) {
  if (const Json* const names = MemberOf(args, "nodenames")) {
    if (!names->is_array()) return BadRequest("NodeNames: is no list");
    for (const Json& name : *names) {
      if (!name.is_string()) return BadRequest("NodeNames: " + Dumped(name) + " is no name");
      request.names.push_back(name.get<std::string>());
    }
    return Done{};
  }
  const Json* const list = MemberOf(args, "nodes");
  if (list == nullptr || !list->is_object()) return BadRequest("neither NodeNames nor Nodes");
  request.has_nodes = true;
  const Json* const items = MemberOf(*list, "items");
  if (items == nullptr) return Done{};
  if (!items->is_array()) return BadRequest("Nodes: items is no list");
  for (const Json& item : *items) {
    const Json* const metadata = item.is_object() ? MemberOf(item, "metadata") : nullptr;
    const Json* const name =
        metadata != nullptr && metadata->is_object() ? MemberOf(*metadata, "name") : nullptr;
    if (name == nullptr || !name->is_string()) return BadRequest("Nodes: a node has no name");
    request.names.push_back(name->get<std::string>());
    request.nodes.push_back(Dumped(item));
  }
  return Done{};
}

}  // namespace

Result<Request> ParseRequest(std::string_view text) {
  if (JsonDepthOf(text) > kMaxJsonDepth) {
    return BadRequest("the request has more than " + std::to_string(kMaxJsonDepth) + " levels");
  }
  Json args = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!args.is_object()) return BadRequest("the request is no JSON object");
  Result<placement::PlannedPod> pod = ReadPod(args);
  if (!pod.ok()) return pod.error();
  Request request{.pod = *std::move(pod), .names = {}};
  const Result<Done> read = ReadNames(args, request);
  if (!read.ok()) return read.error();
  const std::set<std::string> distinct(request.names.begin(), request.names.end());
  if (distinct.size() != request.names.size()) return BadRequest("a node occurs twice");
  return request;
}

std::string FilterResult(const Request& request, const Extender::Filtered& filtered) {
  Json result = {{"Nodes", nullptr},
                 {"NodeNames", nullptr},
                 {"FailedNodes", filtered.failed},
                 {"FailedAndUnresolvableNodes", filtered.unresolvable},
                 {"Error", ""}};
  if (!request.has_nodes) {
    result["NodeNames"] = filtered.nodes;
    return Dumped(result);
  }
  const std::set<std::string> fitting(filtered.nodes.begin(), filtered.nodes.end());
  Json items = Json::array();
  for (size_t i = 0; i < request.names.size(); ++i) {
    if (fitting.contains(request.names[i])) {
      items.push_back(Json::parse(request.nodes[i], nullptr, /*allow_exceptions=*/false));
    }
  }
  result["Nodes"] = {{"metadata", Json::object()}, {"items", std::move(items)}};
  return Dumped(result);
}

std::string FilterError(const Error& error) {
  return Dumped({{"Nodes", nullptr},
                 {"NodeNames", nullptr},
                 {"FailedNodes", nullptr},
                 {"FailedAndUnresolvableNodes", nullptr},
                 {"Error", "alignd-extender: " + error.Text()}});
}

std::string PriorityList(const std::vector<std::pair<std::string, int64_t>>& scores) {
  Json list = Json::array();
  for (const auto& [host, score] : scores) list.push_back({{"Host", host}, {"Score", score}});
  return Dumped(list);
}

}  // namespace alignd::extender
