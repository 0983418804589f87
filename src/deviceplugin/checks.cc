#include "deviceplugin/checks.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "alignd/base/counted.h"
#include "allocation/state_limits.h"

namespace alignd::deviceplugin {
namespace {

constexpr size_t kMaxNamePart = 63;
constexpr size_t kMaxDomain = 253;
constexpr size_t kShownIds = 3;
constexpr size_t kShownBytes = 128;  // of each

constexpr std::string_view kNameRule =
    "a resource is named DOMAIN/NAME, such as example.com/gpu: the domain in lower case, without "
    "\"kubernetes.io\" and not beginning with \"requests.\"; the name of letters, digits and .-_ "
    "inside, up to 63";

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAlphanumeric(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z') || IsDigit(c); }

// One part of a domain between dots: lower case, digits, and dashes inside.
bool IsDomainLabel(std::string_view label) {
  const auto inner = [](char c) { return IsLower(c) || IsDigit(c) || c == '-'; };
  return !label.empty() && label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), inner);
}

bool IsDomain(std::string_view domain) {
  if (domain.size() > kMaxDomain) return false;
  while (true) {
    const size_t dot = domain.find('.');
    if (!IsDomainLabel(domain.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    domain.remove_prefix(dot + 1);
  }
}

bool IsNamePart(std::string_view name) {
  const auto inner = [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNamePart && IsAlphanumeric(name.front()) &&
         IsAlphanumeric(name.back()) && std::all_of(name.begin(), name.end(), inner);
}

// `"a", "b", "c" and 7 more`.
std::string Some(const std::set<std::string>& ids) {
  std::string text;
  size_t shown = 0;
  for (const std::string& id : ids) {
    if (shown == kShownIds) break;
    text += (shown++ == 0 ? "" : ", ") + Quoted(std::string_view(id).substr(0, kShownBytes));
  }
  if (ids.size() > shown) text += " and " + std::to_string(ids.size() - shown) + " more";
  return text;
}

// The texts of a registration: a plugin's mistake must not fill the log.
Result<Done> RequireShort(std::string_view what, std::string_view text,
                          size_t max_bytes = kMaxPathBytes) {
  return allocation::RequireName(what, text, max_bytes);
}

Result<Done> CheckEndpoint(const std::string& endpoint) {
  const bool plain = !endpoint.empty() && endpoint != "." && endpoint != ".." &&
                     endpoint.find('/') == std::string::npos &&
                     endpoint.find('\0') == std::string::npos;
  if (plain) return Done{};
  return Error{
      ErrorCode::kInvalidArgument,
      "the endpoint " + Quoted(endpoint) + " is not a file name in the plugin directory",
      "the plugin must give the file name of its socket, which must be in the directory of "
      "kubelet.sock"};
}

devicemanager::Device ToCore(const v1beta1::Device& announced) {
  devicemanager::Device device{.healthy = announced.health() == "Healthy", .numa = {}};
  for (const v1beta1::NUMANode& node : announced.topology().nodes()) {
    device.numa.push_back(node.id());
  }
  return device;
}

}  // namespace

std::string Quoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool IsExtendedResourceName(std::string_view name) {
  constexpr std::string_view kQuotaPrefix = "requests.";
  if (name.find('/') == std::string_view::npos) return false;
  if (name.find("kubernetes.io/") != std::string_view::npos) return false;
  if (name.substr(0, kQuotaPrefix.size()) == kQuotaPrefix) return false;
  const size_t slash = name.find('/');
  const std::string domain = std::string(kQuotaPrefix) + std::string(name.substr(0, slash));
  return IsDomain(domain) && IsNamePart(name.substr(slash + 1));
}

Result<Done> CheckRegistration(const v1beta1::RegisterRequest& request) {
  Result<Done> is_short = RequireShort("an API version", request.version(), kMaxDomain);
  if (is_short.ok()) {
    is_short = RequireShort("a resource name", request.resource_name(), 2 * kMaxDomain);
  }
  if (is_short.ok()) is_short = RequireShort("an endpoint", request.endpoint());
  if (!is_short.ok()) return is_short;
  if (request.version() != kApiVersion) {
    return Error{ErrorCode::kInvalidArgument,
                 "requested API version " + Quoted(request.version()) +
                     " is not supported by kubelet. Supported version is [\"v1beta1\"]",
                 "use a release of the plugin that supports v1beta1"};
  }
  if (!IsExtendedResourceName(request.resource_name())) {
    return Error{ErrorCode::kInvalidArgument,
                 "the ResourceName " + Quoted(request.resource_name()) + " is invalid",
                 std::string(kNameRule)};
  }
  return CheckEndpoint(request.endpoint());
}

Result<Offer> CheckPluginInfo(const pluginregistration::PluginInfo& info,
                              const std::string& socket) {
  Result<Done> is_short = RequireShort("a plugin type", info.type(), kMaxDomain);
  if (is_short.ok()) is_short = RequireShort("a plugin name", info.name(), 2 * kMaxDomain);
  if (is_short.ok()) is_short = RequireShort("an endpoint", info.endpoint());
  size_t versions_bytes = 0;
  for (const std::string& version : info.supported_versions()) versions_bytes += version.size() + 1;
  if (is_short.ok() && versions_bytes > kMaxPathBytes) {
    is_short =
        Error{ErrorCode::kInvalidArgument,
              "supported versions of " + std::to_string(versions_bytes) + " bytes, more than the " +
                  std::to_string(kMaxPathBytes) + " that alignd keeps",
              "report this to the maintainers of the plugin"};
  }
  if (!is_short.ok()) return is_short.error();
  if (info.type() != "DevicePlugin") {
    return Error{ErrorCode::kInvalidArgument,
                 "RegisterPlugin error -- no handler registered for plugin type: " +
                     Quoted(info.type()) + " at socket " + socket,
                 "nothing, if the plugin is for the kubelet; give device plugins a directory of "
                 "their own to avoid this message"};
  }
  const auto invalid = [](const std::string& why, std::string_view rule) {
    return Error{ErrorCode::kInvalidArgument,
                 "RegisterPlugin error -- plugin validation failed with err: " + why,
                 std::string(rule)};
  };
  const auto& versions = info.supported_versions();
  if (std::find(versions.begin(), versions.end(), kApiVersion) == versions.end()) {
    std::string listed;
    for (const std::string& version : versions) {
      listed += (listed.empty() ? "" : " ") + Quoted(version);
    }
    return invalid("manager version, " + std::string(kApiVersion) +
                       ", is not among plugin supported versions [" + listed + "]",
                   "use a release of the plugin that supports v1beta1");
  }
  if (!IsExtendedResourceName(info.name())) {
    return invalid("invalid name of device plugin socket: the ResourceName " + Quoted(info.name()) +
                       " is invalid",
                   kNameRule);
  }
  const std::string& endpoint = info.endpoint().empty() ? socket : info.endpoint();
  if (endpoint.front() != '/' || endpoint.find('\0') != std::string::npos) {
    return invalid("the endpoint " + Quoted(endpoint) + " is not an absolute path",
                   "the plugin must give the path of its socket on the node, or no endpoint");
  }
  return Offer{info.name(), endpoint};
}

Result<DeviceList> CheckDevices(const v1beta1::ListAndWatchResponse& list) {
  if (list.devices_size() > kMaxDevices) {
    return Error{ErrorCode::kInvalidArgument,
                 "a list of " + std::to_string(list.devices_size()) + " devices, more than " +
                     std::to_string(kMaxDevices),
                 "configure the plugin to offer fewer devices"};
  }
  if (list.ByteSizeLong() > kMaxListBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "a device list of " + std::to_string(list.ByteSizeLong()) +
                     " bytes, more than the " + std::to_string(kMaxListBytes) +
                     " that a kubelet reads",
                 "configure the plugin to offer fewer devices, or shorter ids"};
  }
  DeviceList checked;
  int without_id = 0;
  int too_long = 0;
  size_t longest = 0;
  std::set<std::string> too_wide;
  std::set<std::string> doubled;
  std::set<std::string> odd_health;
  std::set<std::string> odd_numa;
  for (const v1beta1::Device& announced : list.devices()) {
    if (announced.id().empty()) {
      ++without_id;
      continue;
    }
    if (announced.id().size() > allocation::kMaxDeviceIdBytes) {
      ++too_long;
      longest = std::max(longest, announced.id().size());
      continue;
    }
    if (announced.topology().nodes_size() > kMaxDeviceNodes) {
      too_wide.insert(announced.id());
      continue;
    }
    devicemanager::Device device = ToCore(announced);
    if (!device.healthy && announced.health() != "Unhealthy") odd_health.insert(announced.id());
    const auto negative = [](int64_t id) { return id < 0; };
    if (std::any_of(device.numa.begin(), device.numa.end(), negative)) {
      odd_numa.insert(announced.id());
    }
    const auto [place, is_new] = checked.devices.try_emplace(announced.id(), device);
    if (is_new) continue;
    doubled.insert(announced.id());
    device.healthy = device.healthy && place->second.healthy;
    place->second = device;
  }
  if (without_id > 0) {
    checked.complaints.push_back(Counted(without_id, "device") + " without id, which " +
                                 std::string(IsOrAre(without_id)) + " ignored");
  }
  if (too_long > 0) {
    checked.complaints.push_back(Counted(too_long, "device") + " with an id of more than " +
                                 std::to_string(allocation::kMaxDeviceIdBytes) + " bytes, which " +
                                 std::string(IsOrAre(too_long)) + " ignored; the longest has " +
                                 std::to_string(longest));
  }
  if (!too_wide.empty()) {
    checked.complaints.push_back("more than " + std::to_string(kMaxDeviceNodes) +
                                 " NUMA nodes, these devices are ignored: " + Some(too_wide));
  }
  if (!doubled.empty()) {
    checked.complaints.push_back("the same id more than once, the last one is used: " +
                                 Some(doubled));
  }
  if (!odd_health.empty()) {
    checked.complaints.push_back("health neither Healthy nor Unhealthy, treated as unhealthy: " +
                                 Some(odd_health));
  }
  if (!odd_numa.empty()) {
    checked.complaints.push_back("a negative NUMA node, these devices cannot be aligned: " +
                                 Some(odd_numa));
  }
  return checked;
}

Result<std::string> CheckAllocateResponse(const v1beta1::AllocateResponse& response,
                                          std::string& complaint) {
  const int answers = response.container_responses_size();
  if (answers == 0) {
    return Error{ErrorCode::kInvalidArgument, "no containers return in allocation response",
                 "report this to the maintainers of the device plugin"};
  }
  if (answers > 1) {
    complaint = std::to_string(answers) + " answers for one container, the first one is used";
  }
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!response.container_responses(0).SerializeToCodedStream(&coded)) {
      return Error{ErrorCode::kInvalidArgument, "the answer cannot be serialised",
                   "report this to the maintainers of the device plugin"};
    }
  }
  if (bytes.size() > allocation::kMaxAnswerBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "an answer of " + std::to_string(bytes.size()) + " bytes to Allocate, more than " +
                     "the " + std::to_string(allocation::kMaxAnswerBytes) + " that alignd keeps",
                 "configure the plugin to return fewer variables, mounts and annotations"};
  }
  return bytes;
}

std::vector<std::string> CheckPreferred(const devicemanager::PreferenceQuery& query,
                                        const v1beta1::PreferredAllocationResponse& response,
                                        std::string& complaint) {
  if (response.container_responses_size() == 0) {
    complaint = "no answer for a container";
    return {};
  }
  const std::set<std::string> available(query.available.begin(), query.available.end());
  std::set<std::string> wanted;
  std::set<std::string> unavailable;
  for (const std::string& id : response.container_responses(0).deviceids()) {
    (available.contains(id) ? wanted : unavailable).insert(id);
  }
  if (!unavailable.empty()) {
    complaint = "ids that were not available: " + Some(unavailable);
  } else if (std::ssize(wanted) != query.size) {
    complaint =
        Counted(wanted.size(), "id") + " in place of the requested " + std::to_string(query.size);
  }
  return {wanted.begin(), wanted.end()};
}

}  // namespace alignd::deviceplugin
