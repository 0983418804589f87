// Checks of what device plugins say: their registration, their device lists and their answers. Pure
// functions, so that every odd plugin is a line in a table of cases.
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

// More devices in one list are a mistake of the plugin.
inline constexpr int kMaxDevices = 100'000;

// Longer lists break a kubelet's connection to its plugin, and would break ours to the kubelet that
// is told of them. Source: google.golang.org/grpc, defaultClientMaxReceiveMessageSize.
inline constexpr size_t kMaxListBytes = 4 * 1024 * 1024;

// In quotes and with everything escaped that could spoil a log line.
std::string Quoted(std::string_view text);

// Whether a device plugin may have this name: "domain/name", not of kubernetes.io, without the
// prefix "requests.", and a qualified name with that prefix put in front.
// Source: Kubernetes pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName.
bool IsExtendedResourceName(std::string_view name);

// Errors: kInvalidArgument with the kubelet's text for a wrong version or name, and the rule as
// remedy. Source: kubelet pkg/kubelet/cm/devicemanager/plugin/v1beta1/server.go, Register. Differs:
// the endpoint must be a plain file name; the kubelet also takes `../` and folders.
Result<Done> CheckRegistration(const v1beta1::RegisterRequest& request);

// What a plugin that was found by its socket serves, and where.
struct Offer {
  std::string resource;
  std::string endpoint;  // absolute path of its socket

  friend bool operator==(const Offer&, const Offer&) = default;
};

// `socket`: where the plugin was found, which is its endpoint too if it names none.
// Errors: kInvalidArgument with the kubelet's text for another type of plugin, no version that we
// speak, or a wrong name, and the rule as remedy.
// Source: kubelet pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go,
// GenerateRegisterPluginFunc; cm/devicemanager/plugin/v1beta1/handler.go, ValidatePlugin.
// Differs: the endpoint must be an absolute path; the kubelet fails to dial any other one.
Result<Offer> CheckPluginInfo(const pluginregistration::PluginInfo& info,
                              const std::string& socket);

// One list of devices, as the core wants it.
struct DeviceList {
  std::map<std::string, devicemanager::Device> devices;  // by id
  std::vector<std::string> complaints;                   // what is odd, one line each kind

  friend bool operator==(const DeviceList&, const DeviceList&) = default;
};

// Devices with an empty id are left out. Of a doubled id the last one counts, but it is unhealthy
// if any of them is. Exactly "Healthy" is healthy. NUMA ids are handed on as they are, also those
// that no machine has: the kubelet then finds no hint, and so do we.
// Errors: kInvalidArgument if there are more than kMaxDevices, or kMaxListBytes.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, genericDeviceUpdateCallback.
Result<DeviceList> CheckDevices(const v1beta1::ListAndWatchResponse& list);

// The answer for the one container that was asked for, serialised (the same bytes for the same
// answer). `complaint` is set to what is odd but tolerated.
// Errors: kInvalidArgument if there is no answer for a container.
// Source: manager.go, allocateContainerResources.
Result<std::string> CheckAllocateResponse(const v1beta1::AllocateResponse& response,
                                          std::string& complaint);

// The preferred ids that are available, sorted, each once; more or fewer than wanted are handed on,
// as the kubelet uses what it can of them. `complaint` is set to what is odd.
// Source: manager.go, callGetPreferredAllocationIfAvailable, devicesToAllocate.
std::vector<std::string> CheckPreferred(const devicemanager::PreferenceQuery& query,
                                        const v1beta1::PreferredAllocationResponse& response,
                                        std::string& complaint);

}  // namespace alignd::deviceplugin
