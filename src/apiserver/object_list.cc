#include "apiserver/object_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/object_json.h"

namespace alignd::apiserver {
namespace {

constexpr char kSeeServer[] =
    "see whether the server of the kubeconfig is an API server of Kubernetes, and what changes its "
    "answers";

// One page of a list as text. Of a page that is too large, fewer objects are asked for, and so are
// of all later ones: Kubernetes allows any limit with a token.
std::optional<ApiFailure> GetPage(ApiReader& reader, ObjectKind kind, ListSettings& settings,
                                  const std::string& next, std::string& body) {
  constexpr int kLess = 8;
  for (;;) {
    std::string path = PathOf(kind, settings.pods) + ("limit=" + std::to_string(settings.page));
    if (!next.empty()) path += "&continue=" + UrlEncoded(next);
    body.clear();
    bool is_too_large = false;
    const Result<ApiAnswer> answer = reader.Get(path, [&](std::string_view part) {
      is_too_large = body.size() + part.size() > settings.max_page_bytes;
      if (!is_too_large) body += part;
      return !is_too_large;
    });
    if (!answer.ok()) return ApiFailure{answer.error().In(ToString(kind))};
    if (answer->status != 200) return FailureOf(kind, *answer, "list", settings.access);
    if (!is_too_large) return std::nullopt;
    if (settings.page <= 1) {
      return ApiFailure{NotRead(kind,
                                "an object of the list has more than " +
                                    std::to_string(settings.max_page_bytes) + " bytes",
                                "find the object that is so large")};
    }
    settings.page = std::max(1, settings.page / kLess);
  }
}

// One page into `use`. `next`: the token of the page, then of the next one; empty: there is none.
std::optional<ApiFailure> ListPage(ApiReader& reader, ObjectKind kind, ListSettings& settings,
                                   const UseObject& use, std::string& next, std::string& version) {
  std::string body;
  if (auto failure = GetPage(reader, kind, settings, next, body)) return failure;
  nlohmann::json list = ParsedObject(body);
  version = TextIn(list, "metadata", "resourceVersion");
  if (version.empty()) {
    return ApiFailure{NotRead(kind, "the list is no JSON list with a resourceVersion", kSeeServer)};
  }
  const std::string before = std::exchange(next, TextIn(list, "metadata", "continue"));
  if (!next.empty() && next == before) {
    return ApiFailure{NotRead(kind, "the list repeats a page", kSeeServer)};
  }
  // An empty list of Go can be null. Without items, the answer is no list.
  const auto items = list.find("items");
  if (items == list.end() || !(items->is_array() || items->is_null())) {
    return ApiFailure{NotRead(kind, "the list has no items", kSeeServer)};
  }
  const nlohmann::json* const more = MemberIn(list["metadata"], "remainingItemCount");
  if (next.empty() && more != nullptr && *more != 0) {
    return ApiFailure{NotRead(kind, "the list ends before its last object", kSeeServer)};
  }
  for (nlohmann::json& item : *items) {
    const std::string key = KeyOf(kind, item);
    if (key.empty()) {
      return ApiFailure{NotRead(kind, "an object of the list has no name", kSeeServer)};
    }
    const Result<Done> used = use(key, Pruned(kind, std::move(item)));
    if (!used.ok()) return ApiFailure{used.error()};
  }
  return std::nullopt;
}

}  // namespace

std::string_view ToString(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNode:
      return "nodes";
    case ObjectKind::kTopology:
      return "noderesourcetopologies";
    case ObjectKind::kPod:
      return "pods";
  }
  return "";
}

const char* PathOf(ObjectKind kind, PodSelection pods) {
  switch (kind) {
    case ObjectKind::kNode:
      return "/api/v1/nodes?";
    case ObjectKind::kTopology:
      return "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies?";
    // As kube-scheduler: a pod that ends is as deleted.
    case ObjectKind::kPod:
      return pods == PodSelection::kAll
                 ? "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2C"
                   "status.phase%21%3DFailed&"
                 : "/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2C"
                   "status.phase%21%3DFailed&";
  }
  return "";
}

std::string UrlEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (is_plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

Error NotRead(ObjectKind kind, const std::string& what, std::string remedy) {
  return {ErrorCode::kUnavailable, std::string(ToString(kind)) + ": " + what, std::move(remedy)};
}

ApiFailure FailureOf(ObjectKind kind, const ApiAnswer& answer, std::string_view verb,
                     const std::string& access) {
  // A list whose next page has expired begins again; so does a watch.
  if (answer.status == 410) {
    return {.error = NotRead(kind, std::string(verb) + ": expired", ""), .is_expired = true};
  }
  std::string remedy = StatusRemedy(answer);
  if (answer.status == 403) {
    remedy = access;
  } else if (answer.status == 404 && kind != ObjectKind::kTopology) {
    remedy = "correct the server of the kubeconfig: it does not serve the API of Kubernetes";
  } else if (answer.status == 404) {
    remedy = "install the CustomResourceDefinition of NodeResourceTopology, v1alpha2";
  }
  return {.error = NotRead(kind, std::string(verb) + ": " + StatusText(answer), remedy),
          .pause = answer.retry_after};
}

std::optional<ApiFailure> ListObjects(ApiReader& reader, ObjectKind kind, const ListSettings& given,
                                      const UseObject& use, std::string& version) {
  ListSettings settings = given;
  std::string next;
  do {
    std::optional<ApiFailure> failure = ListPage(reader, kind, settings, use, next, version);
    if (failure) return failure;
  } while (!next.empty());
  return std::nullopt;
}

}  // namespace alignd::apiserver
