#include "mirror/mirror_plugin.h"

#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "deviceplugin/v1beta1/deviceplugin.grpc.pb.h"
#include "mirror/marker.h"
#include "pluginregistration/v1/pluginregistration.grpc.pb.h"
#include "rpc/latest_stream.h"
#include "rpc/limits.h"
#include "rpc/pending_answer.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"

namespace alignd::mirror {
namespace {

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

// Thread-safe.
class MirrorPlugin::Service : public v1beta1::DevicePlugin::CallbackService {
 public:
  Service(std::string resource, Preference preference)
      : resource_(std::move(resource)), preference_(std::move(preference)) {}

  const std::string& resource() const { return resource_; }

  void Announce(const Announcement& announced) {
    std::set<std::string> ids;
    for (const auto& [id, device] : announced) ids.insert(id);
    v1beta1::ListAndWatchResponse list = ListOf(announced);
    std::string text = list.SerializeAsString();
    const MutexLock lock(mutex_);
    ids_ = std::move(ids);
    if (applied_ == text) return;
    applied_ = std::move(text);
    lists_.Set(std::move(list));
  }

  bool IsFollowed() const { return lists_.IsWatched(); }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(
      grpc::CallbackServerContext* context, const v1beta1::Empty* /*request*/,
      v1beta1::DevicePluginOptions* response) override {
    response->set_get_preferred_allocation_available(static_cast<bool>(preference_));
    return Answer(context, grpc::Status::OK);
  }

  grpc::ServerWriteReactor<v1beta1::ListAndWatchResponse>* ListAndWatch(
      grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) override {
    return lists_.Watch();
  }

  grpc::ServerUnaryReactor* GetPreferredAllocation(
      grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
      v1beta1::PreferredAllocationResponse* response) override {
    if (!preference_) {
      return Answer(context,
                    {grpc::StatusCode::UNIMPLEMENTED,
                     resource_ + ": there is no preference, because its devices are chosen when "
                                 "the container is created (--mirror=deferred)"});
    }
    if (request->container_requests_size() != 1) {
      return Answer(context, {grpc::StatusCode::INVALID_ARGUMENT,
                              resource_ + ": GetPreferredAllocation for " +
                                  std::to_string(request->container_requests_size()) +
                                  " containers; ask for one at a time"});
    }
    const v1beta1::ContainerPreferredAllocationRequest& wanted = request->container_requests(0);
    Choice choice;
    choice.available.insert(wanted.available_deviceids().begin(),
                            wanted.available_deviceids().end());
    choice.must_include.insert(wanted.must_include_deviceids().begin(),
                               wanted.must_include_deviceids().end());
    choice.size = static_cast<size_t>(std::max(wanted.allocation_size(), 0));
    auto* reactor = new rpc::PendingReactor;  // deletes itself
    preference_(choice, [answer = reactor->answer(), response](const std::set<std::string>& ids) {
      answer->Finish(grpc::Status::OK, [&] {
        auto& preferred = *response->add_container_responses()->mutable_deviceids();
        preferred.Add(ids.begin(), ids.end());
      });
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* response) override {
    for (const v1beta1::ContainerAllocateRequest& container : request->container_requests()) {
      Marker marker{resource_, {container.devices_ids().begin(), container.devices_ids().end()}};
      if (const grpc::Status known = Check(marker); !known.ok()) return Answer(context, known);
      Annotation annotation = FormatMarker(marker);
      auto& annotations = *response->add_container_responses()->mutable_annotations();
      annotations[annotation.key] = std::move(annotation.value);
    }
    return Answer(context, grpc::Status::OK);
  }

  // GetDevicePluginOptions does not ask for it. The real plugin is called before each start.
  grpc::ServerUnaryReactor* PreStartContainer(
      grpc::CallbackServerContext* context, const v1beta1::PreStartContainerRequest* /*request*/,
      v1beta1::PreStartContainerResponse* /*response*/) override {
    return Answer(context, grpc::Status::OK);
  }

 private:
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                          const grpc::Status& status) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  grpc::Status Check(const Marker& marker) const {
    const MutexLock lock(mutex_);
    for (const std::string& id : marker.ids) {
      if (ids_.contains(id)) continue;
      return {grpc::StatusCode::INVALID_ARGUMENT, resource_ + ": there is no device " + id};
    }
    return grpc::Status::OK;
  }

  const std::string resource_;
  const Preference preference_;
  rpc::LatestStream<v1beta1::ListAndWatchResponse> lists_;  // thread-safe

  mutable Mutex mutex_;
  std::set<std::string> ids_ GUARDED_BY(mutex_);
  std::optional<std::string> applied_ GUARDED_BY(mutex_);  // the last list, serialised
};

// Thread-safe.
class MirrorPlugin::OfferService : public pluginregistration::Registration::CallbackService {
 public:
  OfferService(std::string resource, std::string socket)
      : resource_(std::move(resource)), socket_(std::move(socket)) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const pluginregistration::InfoRequest* /*request*/,
                                    pluginregistration::PluginInfo* info) override {
    info->set_type("DevicePlugin");
    info->set_name(resource_);
    info->set_endpoint(socket_);
    info->add_supported_versions("v1beta1");
    called_ = true;
    return Ok(context);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(
      grpc::CallbackServerContext* context, const pluginregistration::RegistrationStatus* status,
      pluginregistration::RegistrationStatusResponse* /*response*/) override {
    if (status->plugin_registered()) {
      spdlog::info("{}: the kubelet has registered the mirrored resource", resource_);
    } else {
      spdlog::error("{}: the kubelet does not register the mirrored resource: {}", resource_,
                    status->error());
    }
    called_ = true;
    return Ok(context);
  }

  // Whether the kubelet has called since this was asked last.
  bool WasCalled() { return called_.exchange(false); }

 private:
  static grpc::ServerUnaryReactor* Ok(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const std::string resource_;
  const std::string socket_;
  std::atomic<bool> called_ = false;
};

Result<std::unique_ptr<MirrorPlugin>> MirrorPlugin::Start(std::string resource,
                                                          std::filesystem::path socket,
                                                          Preference preference,
                                                          const Announcement& announced) {
  std::unique_ptr<MirrorPlugin> plugin(
      new MirrorPlugin(std::make_unique<Service>(resource, std::move(preference)),
                       std::make_unique<OfferService>(resource, socket.string())));
  plugin->Announce(announced);
  grpc::ServerBuilder builder;
  builder.RegisterService(plugin->service_.get());
  builder.RegisterService(plugin->offer_.get());
  rpc::LimitCallers(builder);
  Result<std::unique_ptr<grpc::Server>> server = rpc::Listen(socket.string(), builder);
  if (!server.ok()) return server.error().In(resource);
  plugin->server_ = *std::move(server);
  return plugin;
}

MirrorPlugin::MirrorPlugin(std::unique_ptr<Service> service, std::unique_ptr<OfferService> offer)
    : service_(std::move(service)), offer_(std::move(offer)) {}

MirrorPlugin::~MirrorPlugin() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

void MirrorPlugin::Announce(const Announcement& announced) { service_->Announce(announced); }

bool MirrorPlugin::IsFollowed() const { return offer_->WasCalled() || service_->IsFollowed(); }

}  // namespace alignd::mirror
