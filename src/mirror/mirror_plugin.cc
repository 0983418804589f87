#include "mirror/mirror_plugin.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "mirror/marker.h"
#include "pluginregistration/v1/pluginregistration.pb.h"
#include "service/latest_message.h"
#include "sync/mutex.h"

namespace alignd::mirror {
namespace {

// For a preference, the kubelet sends the ids that it may choose and those that it must: each list
// is at most that of the devices, of 4 MiB.
constexpr size_t kMaxKubeletBytes = 8 << 20;

// Without topology: otherwise the kubelet's topology manager would align the pod itself, or refuse
// it.
v1beta1::ListAndWatchResponse ListOf(const Announcement& announced) {
  v1beta1::ListAndWatchResponse list;
  for (const auto& [id, device] : announced) {
    v1beta1::Device& entry = *list.add_devices();
    entry.set_id(id);
    entry.set_health(device.healthy ? "Healthy" : "Unhealthy");
  }
  return list;
}

}  // namespace

// Thread-safe. Its methods run on the loop's thread.
class MirrorPlugin::Service {
 public:
  Service(std::string resource, Preference preference, std::string socket)
      : resource_(std::move(resource)),
        preference_(std::move(preference)),
        socket_(std::move(socket)) {}
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void Announce(const Announcement& announced) {
    std::set<std::string> ids;
    for (const auto& [id, device] : announced) ids.insert(id);
    std::string text = ListOf(announced).SerializeAsString();
    const MutexLock lock(mutex_);
    ids_ = std::move(ids);
    if (applied_ == text) return;
    applied_ = text;
    lists_.Set(std::move(text));
  }

  // Whether the kubelet watches the lists, or has called since this was asked last.
  bool IsFollowed() { return called_.exchange(false) || lists_.IsWatched(); }

  service::Methods Methods() {
    using service::Computed;
    const std::string plugin = "/v1beta1.DevicePlugin/";
    const std::string registration = "/pluginregistration.Registration/";
    return {
        {plugin + "GetDevicePluginOptions",
         Computed<v1beta1::Empty, v1beta1::DevicePluginOptions>(
             [this](const auto&, v1beta1::DevicePluginOptions& options, const auto&) {
               options.set_get_preferred_allocation_available(static_cast<bool>(preference_));
               return grpc::Status();
             })},
        {plugin + "GetPreferredAllocation",
         [this](const service::Call& call) { GetPreferredAllocation(call); }},
        {plugin + "Allocate", Computed<v1beta1::AllocateRequest, v1beta1::AllocateResponse>(
                                  [this](const auto& request, v1beta1::AllocateResponse& response,
                                         const auto&) { return Allocate(request, response); })},
        // GetDevicePluginOptions does not ask for it. The real plugin is called before each start.
        {plugin + "PreStartContainer",
         Computed<v1beta1::PreStartContainerRequest, v1beta1::PreStartContainerResponse>(
             [](const auto&, auto&, const auto&) { return grpc::Status(); })},
        {registration + "GetInfo",
         Computed<pluginregistration::InfoRequest, pluginregistration::PluginInfo>(
             [this](const auto&, pluginregistration::PluginInfo& info, const auto&) {
               return GetInfo(info);
             })},
        {registration + "NotifyRegistrationStatus",
         Computed<pluginregistration::RegistrationStatus,
                  pluginregistration::RegistrationStatusResponse>(
             [this](const pluginregistration::RegistrationStatus& status, auto&, const auto&) {
               return NotifyRegistrationStatus(status);
             })},
    };
  }

  service::StreamMethods Streams() {
    return {{"/v1beta1.DevicePlugin/ListAndWatch", [this] { return lists_.Watch(); }}};
  }

 private:
  void GetPreferredAllocation(const service::Call& call) const {
    v1beta1::PreferredAllocationRequest request;
    if (!service::ReadRequest(call, request)) return;
    if (!preference_) {
      return call.answer(grpc::Status(
          grpc::StatusCode::UNIMPLEMENTED,
          resource_ + ": there is no preference, because its devices are chosen when the "
                      "container is created (--mirror=deferred)"));
    }
    if (request.container_requests_size() != 1) {
      return call.answer(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                      resource_ + ": GetPreferredAllocation for " +
                                          std::to_string(request.container_requests_size()) +
                                          " containers; ask for one at a time"));
    }
    const v1beta1::ContainerPreferredAllocationRequest& wanted = request.container_requests(0);
    Choice choice;
    choice.available.insert(wanted.available_deviceids().begin(),
                            wanted.available_deviceids().end());
    choice.must_include.insert(wanted.must_include_deviceids().begin(),
                               wanted.must_include_deviceids().end());
    choice.size = static_cast<size_t>(std::max(wanted.allocation_size(), 0));
    preference_(choice, [answer = call.answer](const std::set<std::string>& ids) {
      v1beta1::PreferredAllocationResponse response;
      auto& preferred = *response.add_container_responses()->mutable_deviceids();
      preferred.Add(ids.begin(), ids.end());
      answer(response.SerializeAsString());
    });
  }

  grpc::Status Allocate(const v1beta1::AllocateRequest& request,
                        v1beta1::AllocateResponse& response) const {
    for (const v1beta1::ContainerAllocateRequest& container : request.container_requests()) {
      Marker marker{resource_, {container.devices_ids().begin(), container.devices_ids().end()}};
      if (const grpc::Status known = Check(marker); !known.ok()) return known;
      Annotation annotation = FormatMarker(marker);
      auto& annotations = *response.add_container_responses()->mutable_annotations();
      annotations[annotation.key] = std::move(annotation.value);
    }
    return grpc::Status();
  }

  grpc::Status GetInfo(pluginregistration::PluginInfo& info) {
    info.set_type("DevicePlugin");
    info.set_name(resource_);
    info.set_endpoint(socket_);
    info.add_supported_versions("v1beta1");
    called_ = true;
    return grpc::Status();
  }

  grpc::Status NotifyRegistrationStatus(const pluginregistration::RegistrationStatus& status) {
    if (status.plugin_registered()) {
      spdlog::info("{}: the kubelet has registered the mirrored resource", resource_);
    } else {
      spdlog::error("{}: the kubelet does not register the mirrored resource: {}", resource_,
                    status.error());
    }
    called_ = true;
    return grpc::Status();
  }

  grpc::Status Check(const Marker& marker) const {
    const MutexLock lock(mutex_);
    for (const std::string& id : marker.ids) {
      if (ids_.contains(id)) continue;
      return {grpc::StatusCode::INVALID_ARGUMENT, resource_ + ": there is no device " + id};
    }
    return grpc::Status();
  }

  const std::string resource_;
  const Preference preference_;
  const std::string socket_;
  service::LatestMessage lists_;  // thread-safe
  std::atomic<bool> called_ = false;

  mutable Mutex mutex_;
  std::set<std::string> ids_ GUARDED_BY(mutex_);
  std::optional<std::string> applied_ GUARDED_BY(mutex_);  // the last list, serialised
};

Result<std::unique_ptr<MirrorPlugin>> MirrorPlugin::Start(std::shared_ptr<host::EventLoop> loop,
                                                          std::string resource,
                                                          const std::filesystem::path& socket,
                                                          Preference preference,
                                                          const Announcement& announced) {
  std::unique_ptr<MirrorPlugin> plugin(new MirrorPlugin(
      std::make_unique<Service>(resource, std::move(preference), socket.string())));
  plugin->Announce(announced);
  auto server =
      service::UnaryServer::Start(std::move(loop), socket.string(), plugin->service_->Methods(),
                                  plugin->service_->Streams(), kMaxKubeletBytes);
  if (!server.ok()) return server.error().In(resource);
  plugin->server_ = *std::move(server);
  return plugin;
}

MirrorPlugin::MirrorPlugin(std::unique_ptr<Service> service) : service_(std::move(service)) {}

MirrorPlugin::~MirrorPlugin() = default;

void MirrorPlugin::Announce(const Announcement& announced) { service_->Announce(announced); }

bool MirrorPlugin::IsFollowed() const { return service_->IsFollowed(); }

}  // namespace alignd::mirror
