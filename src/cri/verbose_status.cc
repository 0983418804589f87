#include "cri/verbose_status.h"

#include <nlohmann/json.hpp>

#include "cgroup/cgroup_path.h"

namespace alignd::cri {

Result<std::string> CgroupInStatus(const std::string& info) {
  using nlohmann::json;
  const json parsed = json::parse(info, nullptr, /*allow_exceptions=*/false);
  static const json::json_pointer kPath("/runtimeSpec/linux/cgroupsPath");
  if (!parsed.is_object() || !parsed.contains(kPath) || !parsed[kPath].is_string()) {
    return Error{ErrorCode::kNotFound, "the runtime does not tell the container's cgroup"};
  }
  return cgroup::PathOfContainer(parsed[kPath].get<std::string>());
}

}  // namespace alignd::cri
