#include "reconcile/verbose_status.h"

#include <nlohmann/json.hpp>

#include "alignd/checkpoint/utf8.h"
#include "cgroup/cgroup_path.h"

namespace alignd::reconcile {
namespace {

using nlohmann::json;

int64_t NumberAt(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  if (!object.contains(place) || !object[place].is_number_integer()) return 0;
  return object[place].get<int64_t>();
}

}  // namespace

Result<ContainerSpec> SpecInStatus(const std::string& info) {
  // An argument or an annotation in the spec need not be UTF-8, which JSON requires.
  const json parsed =
      json::parse(checkpoint::ToValidUtf8(info), nullptr, /*allow_exceptions=*/false);
  static const json::json_pointer kPath("/runtimeSpec/linux/cgroupsPath");
  if (!parsed.is_object() || !parsed.contains(kPath) || !parsed[kPath].is_string()) {
    return Error{ErrorCode::kNotFound, "the runtime does not report the container's cgroup",
                 "use a runtime whose verbose ContainerStatus has the runtime spec"};
  }
  Result<std::string> path = cgroup::PathOfContainer(parsed[kPath].get<std::string>());
  if (!path.ok()) return path.error();
  return ContainerSpec{*std::move(path),
                       NumberAt(parsed, "/runtimeSpec/linux/resources/cpu/shares"),
                       NumberAt(parsed, "/runtimeSpec/linux/resources/cpu/quota"),
                       NumberAt(parsed, "/runtimeSpec/linux/resources/cpu/period")};
}

}  // namespace alignd::reconcile
