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

CpuSet CpusAt(const json& object, const char* pointer) {
  const json::json_pointer place(pointer);
  if (!object.contains(place) || !object[place].is_string()) return {};
  const Result<CpuSet> cpus = CpuSet::Parse(object[place].get<std::string>());
  return cpus.ok() ? *cpus : CpuSet();
}

// An argument or an annotation in the spec need not be UTF-8, which JSON requires.
json Parsed(const std::string& text) {
  return json::parse(checkpoint::ToValidUtf8(text), nullptr, /*allow_exceptions=*/false);
}

}  // namespace

Result<ContainerSpec> SpecInStatus(const std::string& info) {
  const json parsed = Parsed(info);
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
                       NumberAt(parsed, "/runtimeSpec/linux/resources/cpu/period"),
                       CpusAt(parsed, "/runtimeSpec/linux/resources/cpu/cpus"),
                       NumberAt(parsed, "/runtimeSpec/linux/resources/memory/limit")};
}

// Source: containerd pkg/cri/sbserver/container_status.go (ContainerInfo); the names of the fields
// are those of the generated code of cri-api, which leaves out an empty list.
std::optional<std::set<std::string>> CdiNamesInStatus(const std::string& info) {
  static const json::json_pointer kMetadata("/config/metadata/name");
  static const json::json_pointer kDevices("/config/CDI_devices");
  const json parsed = Parsed(info);
  if (!parsed.is_object() || !parsed.contains(kMetadata)) return std::nullopt;
  std::set<std::string> names;
  if (!parsed.contains(kDevices)) return names;
  for (const json& device : parsed[kDevices]) {
    if (!device.is_object() || !device.contains("name") || !device["name"].is_string()) {
      return std::nullopt;
    }
    names.insert(device["name"].get<std::string>());
  }
  return names;
}

std::string_view ToString(CgroupDriver driver) {
  return driver == CgroupDriver::kSystemd ? "systemd" : "cgroupfs";
}

Result<CgroupDriver> CgroupDriverInStatus(const std::string& config) {
  const json parsed = Parsed(config);
  static const json::json_pointer kRuntimes("/containerd/runtimes");
  static const json::json_pointer kSystemdCgroup("/options/SystemdCgroup");
  static const json::json_pointer kType("/runtimeType");
  static const json::json_pointer kDefault("/containerd/defaultRuntimeName");
  const Error unknown{ErrorCode::kNotFound, "the runtime does not report its cgroup driver",
                      "update the runtime to one that implements RuntimeConfig"};
  if (!parsed.is_object() || !parsed.contains(kRuntimes) || !parsed[kRuntimes].is_object()) {
    return unknown;
  }
  const std::string standard = parsed.contains(kDefault) && parsed[kDefault].is_string()
                                   ? parsed[kDefault].get<std::string>()
                                   : std::string();
  std::optional<CgroupDriver> driver;
  std::optional<CgroupDriver> of_default;
  std::optional<Error> contradiction;
  std::string first;
  for (const auto& [name, runtime] : parsed[kRuntimes].items()) {
    // Other shims have options of their own.
    if (!runtime.is_object() || !runtime.contains(kType) || !runtime[kType].is_string() ||
        !runtime[kType].get<std::string>().starts_with("io.containerd.runc.")) {
      continue;
    }
    const bool stated = runtime.contains(kSystemdCgroup);
    if (stated && !runtime[kSystemdCgroup].is_boolean()) return unknown;
    const CgroupDriver own = stated && runtime[kSystemdCgroup].get<bool>()
                                 ? CgroupDriver::kSystemd
                                 : CgroupDriver::kCgroupfs;
    if (name == standard) of_default = own;
    if (driver && own != *driver && !contradiction) {
      contradiction =
          Error{ErrorCode::kInvalidArgument,
                "the runtime handlers " + first + " and " + name +
                    " have different cgroup drivers: " + std::string(ToString(*driver)) + " and " +
                    std::string(ToString(own)),
                "set SystemdCgroup to the same value in all runtimes of the runtime's "
                "configuration"};
    }
    if (!driver) driver = own;
    if (first.empty()) first = name;
  }
  if (!driver) return unknown;
  if (of_default) return *of_default;
  if (contradiction) return *std::move(contradiction);
  return *driver;
}

std::optional<CgroupDriver> DriverOfCgroup(std::string_view path) {
  if (path.find("kubepods") == std::string_view::npos) return std::nullopt;
  return path.ends_with(".scope") ? CgroupDriver::kSystemd : CgroupDriver::kCgroupfs;
}

}  // namespace alignd::reconcile
