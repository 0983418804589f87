// The runtime handlers whose containers do not run in cgroups of their own, so that no CPUs or
// memory can be theirs alone.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "alignd/base/result.h"

namespace alignd {

// gVisor and Kata, and all names that begin with one of their names and a hyphen.
std::set<std::string> DefaultSharedPoolHandlers();

// A value.
class SharedPoolHandlers {
 public:
  SharedPoolHandlers() = default;  // none
  // Names of handlers. A `*` at the end stands for any text, also none.
  explicit SharedPoolHandlers(std::set<std::string> names) : names_(std::move(names)) {}

  // False for the runtime's default handler, which has no name in CRI.
  bool Contains(std::string_view handler) const;

  const std::set<std::string>& names() const { return names_; }

  friend bool operator==(const SharedPoolHandlers&, const SharedPoolHandlers&) = default;

 private:
  std::set<std::string> names_;
};

// Whether SharedPoolHandlers understands the name. Errors: kInvalidArgument: a `*` before the end.
Result<Done> CheckHandlerName(std::string_view name);

}  // namespace alignd
