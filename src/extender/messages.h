// kube-scheduler's requests and the answers to them, as JSON.
// Source: k8s.io/kube-scheduler extender/v1, types.go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/placement/manifest.h"
#include "extender/extender.h"

namespace alignd::extender {

// ExtenderArgs.
struct Request {
  placement::PlannedPod pod;
  std::vector<std::string> names;  // of the candidates
  // Without nodeCacheCapable: the Node objects, as they came, in the order of `names`.
  std::vector<std::string> nodes = {};
  bool has_nodes = false;
};

// Errors: kInvalidArgument: not JSON, more than 100 levels, no Pod that can be read, neither
// NodeNames nor Nodes, a node without a name, a name that occurs twice.
Result<Request> ParseRequest(std::string_view text);

// ExtenderFilterResult.
std::string FilterResult(const Request& request, const Extender::Filtered& filtered);
std::string FilterError(const Error& error);

// HostPriorityList.
std::string PriorityList(const std::vector<std::pair<std::string, int64_t>>& scores);

}  // namespace alignd::extender
