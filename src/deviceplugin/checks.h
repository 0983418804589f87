// Checks of the messages of device plugins: registrations, device lists and answers. Pure
// functions, so that tests can list cases in a table.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/devicemanager/device_state.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "pluginregistration/v1/pluginregistration.pb.h"

namespace alignd::deviceplugin {

inline constexpr std::string_view kApiVersion = "v1beta1";

// A list with more devices is refused.
inline constexpr int kMaxDevices = 100'000;

// A device on more NUMA nodes is ignored. Source: Linux, CONFIG_NODES_SHIFT is at most 10.
inline constexpr int kMaxDeviceNodes = 1024;

// Plugins that are registered or are being registered, by resource.
inline constexpr size_t kMaxPlugins = 256;

// A path. Source: Linux, PATH_MAX.
inline constexpr size_t kMaxPathBytes = 4096;

// Longer lists break a kubelet's connection to its plugin, and would also break alignd's connection
// to a kubelet that gets them from alignd. Source: google.golang.org/grpc,
// defaultClientMaxReceiveMessageSize.
// It is also the limit of a plugin's other messages, but for the answer to Allocate.
inline constexpr size_t kMaxListBytes = 4 * 1024 * 1024;

// In quotes, with control characters escaped, for log lines.
std::string Quoted(std::string_view text);

// Whether a device plugin may have this name: "domain/name", not of kubernetes.io, without the
// prefix "requests.", and a qualified name with that prefix put in front.
// Source: Kubernetes pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName.
bool IsExtendedResourceName(std::string_view name);

// Errors: kInvalidArgument with the kubelet's text for a wrong version or name, and the rule as
// remedy. Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Register. Differs:
// the endpoint must be a plain file name; the kubelet also takes `../` and folders.
Result<Done> CheckRegistration(const v1beta1::RegisterRequest& request);

// The resource of a plugin that was found by its socket, and its endpoint.
struct Offer {
  std::string resource;
  std::string endpoint;  // absolute path of its socket

  friend bool operator==(const Offer&, const Offer&) = default;
};

// `socket`: where the plugin was found, which is its endpoint too if it names none.
// Errors: kInvalidArgument with the kubelet's text for another type of plugin, no supported
// version, or a wrong name, and the rule as remedy.
// Source: kubelet pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go,
// GenerateRegisterPluginFunc; cm/devicemanager/plugin/v1beta1/handler.go, ValidatePlugin.
// Differs: the endpoint must be an absolute path; the kubelet fails to dial any other one.
Result<Offer> CheckPluginInfo(const pluginregistration::PluginInfo& info,
                              const std::string& socket);

// One list of devices, in the core's form.
struct DeviceList {
  std::map<std::string, devicemanager::Device> devices;  // by id
  std::vector<std::string> complaints;                   // tolerated faults, one line each kind

  friend bool operator==(const DeviceList&, const DeviceList&) = default;
};

// Devices with an empty id, an id longer than allocation::kMaxDeviceIdBytes, or more than
// kMaxDeviceNodes NUMA nodes are omitted. Of several devices with one id, the last is used; it is
// unhealthy if any of them is. Only "Healthy" is healthy. NUMA ids are not checked: for an id that
// the machine does not have there is no hint, as in the kubelet.
// Errors: kInvalidArgument if there are more than kMaxDevices, or kMaxListBytes.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, genericDeviceUpdateCallback.
Result<DeviceList> CheckDevices(const v1beta1::ListAndWatchResponse& list);

// The answer for the one container of the request, serialised (equal answers give equal bytes).
// `complaint` is set to a tolerated fault.
// Errors: kInvalidArgument if there is no answer for a container, or it is longer than
// allocation::kMaxAnswerBytes.
// Source: manager.go, allocateContainerResources.
Result<std::string> CheckAllocateResponse(const v1beta1::AllocateResponse& response,
                                          std::string& complaint);

// The preferred ids that are available, sorted, each once. There may be more or fewer than
// requested, as in the kubelet. `complaint` is set to a tolerated fault.
// Source: manager.go, callGetPreferredAllocationIfAvailable, devicesToAllocate.
std::vector<std::string> CheckPreferred(const devicemanager::PreferenceQuery& query,
                                        const v1beta1::PreferredAllocationResponse& response,
                                        std::string& complaint);

}  // namespace alignd::deviceplugin
