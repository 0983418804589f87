// Lists the objects of the API server that describe nodes.
// Source: Kubernetes API concepts, "Retrieving large results sets in chunks".
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "apiserver/api_client.h"

namespace alignd::apiserver {

// Nodes, NodeResourceTopology objects, and pods that have not ended.
enum class ObjectKind { kNode, kTopology, kPod };

// Of the pods that have not ended: those that are bound to a node, or all.
enum class PodSelection { kBound, kAll };

// "nodes", "noderesourcetopologies", "pods".
std::string_view ToString(ObjectKind kind);

// The path of lists and watches, with '?' or '&' at its end.
const char* PathOf(ObjectKind kind, PodSelection pods);

// For a parameter of a path.
std::string UrlEncoded(std::string_view text);

// Why a call failed.
struct ApiFailure {
  Error error;
  std::optional<std::chrono::seconds> pause = {};  // Retry-After
  bool is_expired = false;  // 410: the version is too old; not a failure of anything
};

// What is wrong with an answer that has another status than 200. `verb`: "list" or "watch".
// `access`: what to do if the credential may not read the objects.
ApiFailure FailureOf(ObjectKind kind, const ApiAnswer& answer, std::string_view verb,
                     const std::string& access);

// `what` is wrong with the objects of the kind. kUnavailable.
Error NotRead(ObjectKind kind, const std::string& what, std::string remedy);

struct ListSettings {
  int page = 500;  // objects of one answer; of one that is too large, fewer are asked for
  std::string access;
  PodSelection pods = PodSelection::kBound;
  size_t max_page_bytes = size_t{256} << 20;
};

// The objects of a kind, as of one time, page by page. `use` gets the key of each and its JSON
// (KeyOf and Pruned in object_json.h); its error ends the list. `version`: of the list, from which
// a watch goes on. After a failure, what `use` got is not complete.
using UseObject = std::function<Result<Done>(const std::string& key, const std::string& json)>;
std::optional<ApiFailure> ListObjects(ApiReader& reader, ObjectKind kind,
                                      const ListSettings& settings, const UseObject& use,
                                      std::string& version);

}  // namespace alignd::apiserver
