#include "alignd/pod/shared_pool_handlers.h"

#include <algorithm>

namespace alignd {
namespace {

constexpr char kAnyText = '*';

}  // namespace

std::set<std::string> DefaultSharedPoolHandlers() {
  return {"gvisor", "gvisor-*", "kata", "kata-*", "runsc", "runsc-*"};
}

bool SharedPoolHandlers::Contains(std::string_view handler) const {
  if (handler.empty()) return false;
  return std::ranges::any_of(names_, [handler](std::string_view name) {
    if (!name.ends_with(kAnyText)) return name == handler;
    name.remove_suffix(1);
    return handler.starts_with(name);
  });
}

Result<Done> CheckHandlerName(std::string_view name) {
  const size_t star = name.find(kAnyText);
  if (star == std::string_view::npos || star + 1 == name.size()) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "\"" + std::string(name) + "\": a * may stand only at the end",
               "write a handler's name, or its beginning as kata-*"};
}

}  // namespace alignd
