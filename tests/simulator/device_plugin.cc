#include "simulator/device_plugin.h"

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "pluginregistration/v1/pluginregistration.grpc.pb.h"
#include "simulator/device_service.h"
#include "simulator/grpc_socket.h"
#include "simulator/system_error.h"

namespace alignd::simulator {
namespace {

constexpr char kKubeletSocket[] = "kubelet.sock";
constexpr std::chrono::seconds kRegisterDeadline{
    15};  // longer than the 10 s in which the kubelet dials the plugin
constexpr int kRetryMs = 500;
constexpr int kForever = -1;

}  // namespace

// The registration service for plugin watchers. Thread-safe.
class DevicePlugin::OfferService : public pluginregistration::Registration::Service {
 public:
  explicit OfferService(DevicePlugin& plugin) : plugin_(plugin) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/,
                       const pluginregistration::InfoRequest* /*request*/,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("DevicePlugin");
    info->set_name(plugin_.profile_.resource);
    info->set_endpoint(plugin_.socket_.string());
    info->add_supported_versions(plugin_.profile_.version);
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(
      grpc::ServerContext* /*context*/, const pluginregistration::RegistrationStatus* status,
      pluginregistration::RegistrationStatusResponse* /*response*/) override {
    plugin_.NoteStatus(status->plugin_registered(), status->error());
    return grpc::Status::OK;
  }

 private:
  DevicePlugin& plugin_;
};

Result<std::unique_ptr<DevicePlugin>> DevicePlugin::Start(
    DeviceProfile profile, std::function<void(const Result<Done>&)> on_registration) {
  if (profile.resource.empty()) {
    return Error{ErrorCode::kInvalidArgument, "a device plugin without resource name"};
  }
  std::unique_ptr<DevicePlugin> plugin(
      new DevicePlugin(std::move(profile), std::move(on_registration)));
  const bool waits_to_be_found = !plugin->profile_.registry.empty();
  // The watch starts before the first look, so that no new kubelet.sock is missed.
  Result<Done> opened = waits_to_be_found ? Result<Done>(Done{}) : plugin->Open();
  if (!opened.ok()) return opened.error();
  Result<Done> serving = plugin->Serve();
  // The kubelet, or alignd, clears the directory when it starts, perhaps at this moment.
  for (int more = 3; !serving.ok() && more > 0; --more) serving = plugin->Serve();
  if (!serving.ok()) return serving.error();
  if (waits_to_be_found) return plugin;
  plugin->thread_ = std::thread([self = plugin.get()] { self->Run(); });
  return plugin;
}

DevicePlugin::DevicePlugin(DeviceProfile profile,
                           std::function<void(const Result<Done>&)> on_registration)
    : profile_(std::move(profile)),
      on_registration_(std::move(on_registration)),
      kubelet_socket_(profile_.directory / kKubeletSocket),
      socket_((profile_.registry.empty() ? profile_.directory : profile_.registry) /
              profile_.SocketName()),
      service_(std::make_unique<Service>(profile_)),
      offer_service_(std::make_unique<OfferService>(*this)) {}

DevicePlugin::~DevicePlugin() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (registering_ != nullptr) registering_->TryCancel();
  }
  if (thread_.joinable()) {
    // Cannot fail: the counter of a fresh eventfd takes a one.
    (void)eventfd_write(stop_event_, 1);
    thread_.join();
  }
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  if (inotify_ >= 0) close(inotify_);
  if (stop_event_ >= 0) close(stop_event_);
}

Result<Done> DevicePlugin::Open() {
  stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_event_ < 0) return SystemError("eventfd");
  inotify_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify_ < 0) return SystemError("inotify_init1");
  if (inotify_add_watch(inotify_, profile_.directory.c_str(), IN_CREATE | IN_MOVED_TO) < 0) {
    return SystemError("watch " + profile_.directory.string());
  }
  return Done{};
}

Result<Done> DevicePlugin::Serve() {
  // The old server goes first: it removes its socket when it ends.
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  if (!profile_.registry.empty()) builder.RegisterService(offer_service_.get());
  Result<std::unique_ptr<grpc::Server>> server = Listen(socket_.string(), builder);
  if (!server.ok()) return server.error();
  server_ = *std::move(server);
  return Done{};
}

void DevicePlugin::Run() {
  std::error_code ignored;  // a socket that cannot be seen is treated as missing
  bool unregistered = std::filesystem::exists(kubelet_socket_, ignored);
  while (true) {
    if (unregistered) {
      const Result<Done> registered = server_ == nullptr ? Serve() : Result<Done>(Done{});
      const Result<Done> outcome = registered.ok() ? Register() : registered;
      unregistered = !outcome.ok();
      if (on_registration_) on_registration_(outcome);
    }
    std::array<pollfd, 2> events{pollfd{stop_event_, POLLIN, 0}, pollfd{inotify_, POLLIN, 0}};
    if (poll(events.data(), events.size(), unregistered ? kRetryMs : kForever) < 0 &&
        errno != EINTR) {
      std::perror("device plugin: poll");
      return;
    }
    if (events[0].revents != 0) return;
    if (!ReadEvents()) continue;
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
    unregistered = true;
  }
}

bool DevicePlugin::ReadEvents() {
  alignas(inotify_event) std::array<char, 4096> buffer{};
  bool made_anew = false;
  while (true) {
    const ssize_t length = read(inotify_, buffer.data(), buffer.size());
    if (length <= 0) return made_anew;  // EAGAIN: all read
    for (size_t at = 0; at < static_cast<size_t>(length);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = buffer.data() + at + sizeof event;
      if (event.len > 0 && std::strcmp(name, kKubeletSocket) == 0) made_anew = true;
      if ((event.mask & IN_Q_OVERFLOW) != 0) made_anew = true;  // events were lost
      at += sizeof event + event.len;
    }
  }
}

Result<Done> DevicePlugin::Register() {
  const Result<std::shared_ptr<grpc::Channel>> channel = Dial(kubelet_socket_.string());
  if (!channel.ok()) return channel.error();
  const auto stub = v1beta1::Registration::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegisterDeadline);
  v1beta1::RegisterRequest request;
  request.set_version(profile_.version);
  request.set_endpoint(profile_.SocketName());
  request.set_resource_name(profile_.resource);
  request.mutable_options()->set_pre_start_required(profile_.pre_start_required);
  request.mutable_options()->set_get_preferred_allocation_available(profile_.prefers_allocation);
  {
    const MutexLock lock(mutex_);
    if (stopping_) return Error{ErrorCode::kUnavailable, "register: stopping"};
    registering_ = &context;
  }
  v1beta1::Empty answer;
  const grpc::Status status = stub->Register(&context, request, &answer);
  const MutexLock lock(mutex_);
  registering_ = nullptr;
  if (!status.ok()) {
    return Error{ErrorCode::kUnavailable, "register: " + status.error_message()};
  }
  ++registrations_;
  registered_.NotifyAll();
  return Done{};
}

void DevicePlugin::NoteStatus(bool registered, const std::string& error) {
  {
    const MutexLock lock(mutex_);
    refusal_ = error;
    if (registered) ++registrations_;
    registered_.NotifyAll();
  }
  if (!on_registration_) return;
  on_registration_(registered ? Result<Done>(Done{})
                              : Error{ErrorCode::kUnavailable, "register: " + error});
}

std::string DevicePlugin::refusal() const {
  const MutexLock lock(mutex_);
  return refusal_;
}

Result<Done> DevicePlugin::SetHealth(const std::string& id, bool healthy) {
  bool found = false;
  service_->ChangeDevices([&](std::vector<SimulatedDevice>& devices) {
    for (SimulatedDevice& device : devices) {
      if (device.id != id) continue;
      device.healthy = healthy;
      found = true;
    }
  });
  if (!found) return Error{ErrorCode::kNotFound, "no device \"" + id + "\""};
  return Done{};
}

void DevicePlugin::SetAllHealth(bool healthy) {
  service_->ChangeDevices([&](std::vector<SimulatedDevice>& devices) {
    for (SimulatedDevice& device : devices) device.healthy = healthy;
  });
}

void DevicePlugin::SetDevices(std::vector<SimulatedDevice> devices) {
  service_->ChangeDevices(
      [&](std::vector<SimulatedDevice>& present) { present = std::move(devices); });
}

void DevicePlugin::SetManner(Manner manner) { service_->SetManner(manner); }

void DevicePlugin::EndLists() { service_->EndLists(); }

std::vector<std::vector<std::string>> DevicePlugin::allocations() const {
  return service_->allocations();
}

std::vector<std::vector<std::string>> DevicePlugin::pre_starts() const {
  return service_->pre_starts();
}

int DevicePlugin::registrations() const {
  const MutexLock lock(mutex_);
  return registrations_;
}

bool DevicePlugin::WaitForRegistrations(int count, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const MutexLock lock(mutex_);
  while (registrations_ < count) {
    if (!registered_.WaitUntil(mutex_, deadline)) return registrations_ >= count;
  }
  return true;
}

}  // namespace alignd::simulator
