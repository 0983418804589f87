// Finds the container or sandbox that a request changes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cri/handlers.h"

namespace alignd::cri {

struct NamedSearch {
  std::string what;  // "container ID", for refusals
  // Looks in the registry. Answers whether it has been found.
  std::function<bool()> find;
  bool sets_assigned = false;  // as SetsAssigned: not for a container that alignd does not know
  std::optional<std::chrono::steady_clock::time_point> deadline;  // the caller's
  std::shared_ptr<const std::atomic<bool>> cancelled;             // the caller has gone
  std::function<void(bool found, Decide)> next;
};

// Calls `next`, or `decide` with a refusal; at once, or later on the events thread. What is not
// known may have been created at the runtime's own socket, or through alignd with an answer that
// could not be read. So the runtime is listed anew, unless this node assigns neither CPUs nor
// memory nodes. The refusals: UNAVAILABLE without a listing; NOT_FOUND if the request sets what
// alignd assigns, and the listing does not have what it names.
void FindNamed(const HandlerContext& context, NamedSearch search, Decide decide);

}  // namespace alignd::cri
