// The NodeResourceTopology object as it is sent to the API server: with what others have written
// beside it.
#pragma once

#include <string>

#include "alignd/base/result.h"

namespace alignd::events {

// All texts are objects in JSON. `wanted`: as alignd makes it.

// The body that creates it. `node`: the Node object, which then owns it, so that it is deleted with
// the Node; empty: not known. Errors: kCorrupt if `wanted` is no object.
Result<std::string> CreationOf(const std::string& wanted, const std::string& node);

// The body that makes `existing`, the API server's object, the wanted one: it keeps the resource
// version, labels, owners, and the annotations of others. Koordinator's annotations are alignd's if
// one of the objects says so (noderesourcetopology::kKoordinatorAttribute): without the option,
// those that alignd has written go, and those of koordlet stay. `node`: as for CreationOf; it
// becomes one more owner. Errors: kCorrupt if one is no object.
Result<std::string> ReplacementOf(const std::string& wanted, const std::string& existing,
                                  const std::string& node = {});

// The wanted object as it can be written beside what others have written.
struct Writable {
  std::string object;
  // Why it is as alignd makes it without annotations for Koordinator: those of `wanted` and those
  // of others in `existing` are more than the API server takes. Empty: it is `wanted`.
  std::string left_out;
};
Writable WritableBeside(const std::string& wanted, const std::string& existing);

// Whether a Node is among its owners.
bool HasNodeAsOwner(const std::string& object);

// Whether both say the same: policies, attributes, zones, the fingerprint of the pods, and alignd's
// annotations for Koordinator.
bool SaysTheSame(const std::string& one, const std::string& other);

// The topology policy in its attributes; "none named" if there is none.
std::string PolicyIn(const std::string& object);

}  // namespace alignd::events
