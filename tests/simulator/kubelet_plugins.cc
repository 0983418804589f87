#include "simulator/kubelet_plugins.h"

#include <algorithm>
#include <utility>

#include "deviceplugin/checks.h"
#include "pluginregistration/v1/pluginregistration.grpc.pb.h"

namespace alignd::simulator {
namespace {

using pluginregistration::PluginInfo;
using pluginregistration::Registration;

std::chrono::system_clock::time_point In(std::chrono::milliseconds pause) {
  return std::chrono::system_clock::now() + pause;
}

Error Failed(const std::string& what) { return {ErrorCode::kUnavailable, what}; }

// Why a plugin with this PluginInfo is not registered; empty if it is.
// Source: operation_generator.go, GenerateRegisterPluginFunc; handler.go, ValidatePlugin.
std::string WhyNot(const PluginInfo& info) {
  if (info.type() != "DevicePlugin") {
    return "RegisterPlugin error -- no handler registered for plugin type: " + info.type();
  }
  const auto& versions = info.supported_versions();
  if (std::ranges::find(versions, "v1beta1") == versions.end()) {
    return "RegisterPlugin error -- plugin validation failed with err: manager version, v1beta1, "
           "is not among plugin supported versions";
  }
  if (!deviceplugin::IsExtendedResourceName(info.name())) {
    return "RegisterPlugin error -- plugin validation failed with err: invalid name of device "
           "plugin socket: the ResourceName \"" +
           info.name() + "\" is invalid";
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<KubeletPlugins>> KubeletPlugins::Start(const std::filesystem::path& registry,
                                                              KubeletTiming timing,
                                                              PluginListener& listener) {
  auto watch = SocketWatch::Start(registry);
  if (!watch.ok()) return watch.error();
  std::unique_ptr<KubeletPlugins> plugins(new KubeletPlugins(timing, listener));
  plugins->watch_ = *std::move(watch);
  plugins->reconciler_ = std::thread([self = plugins.get()] { self->Reconcile(); });
  return plugins;
}

KubeletPlugins::KubeletPlugins(KubeletTiming timing, PluginListener& listener)
    : timing_(timing), listener_(listener) {}

KubeletPlugins::~KubeletPlugins() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
    for (const Follower& follower : followers_) follower.client->Close();
    for (const auto& [resource, client] : clients_) client->Close();
    wake_.NotifyAll();
  }
  if (reconciler_.joinable()) reconciler_.join();
  std::map<std::string, Operation> operations;
  {
    const MutexLock lock(mutex_);
    operations.swap(operations_);
  }
  for (auto& [socket, operation] : operations) {
    if (operation.thread.joinable()) operation.thread.join();
  }
  std::list<Follower> followers;
  {
    const MutexLock lock(mutex_);
    followers.swap(followers_);
  }
  for (Follower& follower : followers) follower.thread.join();
}

bool KubeletPlugins::stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

// Source: reconciler.go, reconcile.
void KubeletPlugins::Reconcile() {
  while (true) {
    const std::map<std::string, uint64_t> wanted = watch_->Sockets();
    std::list<Follower> ended;
    {
      const MutexLock lock(mutex_);
      if (stopping_) return;
      const auto registered = registered_;
      for (const auto& [socket, plugin] : registered) {
        const auto now = wanted.find(socket);
        if (now != wanted.end() && now->second == plugin.identity) continue;
        RunOperation(socket, [this, socket = socket, resource = plugin.resource] {
          return Unregister(socket, resource);
        });
      }
      for (const auto& [socket, identity] : wanted) {
        const auto now = registered_.find(socket);
        if (now != registered_.end() && now->second.identity == identity) continue;
        RunOperation(socket, [this, socket = socket, identity = identity] {
          return Register(socket, identity);
        });
      }
      for (auto follower = followers_.begin(); follower != followers_.end();) {
        const auto next = std::next(follower);
        if (follower->ended) ended.splice(ended.end(), followers_, follower);
        follower = next;
      }
      wake_.WaitUntil(mutex_, Clock::now() + timing_.period);
    }
    for (Follower& follower : ended) follower.thread.join();
  }
}

// Source: pkg/util/goroutinemap; exponentialbackoff.
void KubeletPlugins::RunOperation(const std::string& socket, std::function<Result<Done>()> work) {
  Operation& operation = operations_[socket];
  if (operation.pending) return;
  if (operation.backoff.count() > 0 && Clock::now() < operation.failed_at + operation.backoff) {
    return;
  }
  if (operation.thread.joinable()) operation.thread.join();  // has ended
  operation.pending = true;
  operation.thread = std::thread([this, socket, work = std::move(work)] {
    const bool ok = work().ok();
    const MutexLock lock(mutex_);
    const auto self = operations_.find(socket);
    if (self == operations_.end()) return;  // the plugin manager stops
    Operation& ended = self->second;
    ended.pending = false;
    ended.failed_at = Clock::now();
    ended.backoff = ok ? std::chrono::milliseconds(0)
                       : std::clamp(ended.backoff * 2, timing_.first_backoff, timing_.last_backoff);
    wake_.NotifyAll();
  });
}

Result<Done> KubeletPlugins::Register(const std::string& socket, uint64_t identity) {
  const auto channel =
      DialAsKubelet(socket, Clock::now() + timing_.dial, [this] { return stopping(); });
  if (channel == nullptr) return Failed("RegisterPlugin error -- dial failed at socket " + socket);
  const auto stub = Registration::NewStub(channel);
  const auto call = [&](std::chrono::milliseconds deadline, const auto& method) {
    grpc::ClientContext context;
    context.set_deadline(In(deadline));
    {
      const MutexLock lock(mutex_);
      if (stopping_) return grpc::Status::CANCELLED;
      calls_.insert(&context);
    }
    const grpc::Status status = method(context);
    const MutexLock lock(mutex_);
    calls_.erase(&context);
    return status;
  };
  const auto notify = [&](const std::string& error) {
    pluginregistration::RegistrationStatus status;
    status.set_plugin_registered(error.empty());
    status.set_error(error);
    pluginregistration::RegistrationStatusResponse nothing;
    return call(timing_.notify,
                [&](grpc::ClientContext& context) {
                  return stub->NotifyRegistrationStatus(&context, status, &nothing);
                })
        .ok();
  };

  PluginInfo info;
  const grpc::Status asked = call(timing_.info, [&](grpc::ClientContext& context) {
    return stub->GetInfo(&context, {}, &info);
  });
  if (!asked.ok()) return Failed("RegisterPlugin error -- GetInfo: " + asked.error_message());
  if (const std::string why = WhyNot(info); !why.empty()) {
    (void)notify(why);
    return Failed(why);
  }
  {
    const MutexLock lock(mutex_);
    registered_[socket] = {identity, info.name()};
  }
  const auto forget = [&] {
    const MutexLock lock(mutex_);
    registered_.erase(socket);
  };
  const Result<Done> connected =
      Connect(info.name(), info.endpoint().empty() ? socket : info.endpoint());
  if (!connected.ok()) {
    forget();
    (void)notify("RegisterPlugin error -- plugin registration failed with err: " +
                 connected.error().message);
    return connected;
  }
  if (!notify("")) {
    forget();
    Disconnect(info.name());
    return Failed("RegisterPlugin error -- failed to send registration status");
  }
  return Done{};
}

Result<Done> KubeletPlugins::Unregister(const std::string& socket, const std::string& resource) {
  {
    const MutexLock lock(mutex_);
    registered_.erase(socket);
  }
  Disconnect(resource);
  return Done{};
}

// Source: handler.go, connectClient.
Result<Done> KubeletPlugins::Connect(const std::string& resource, const std::string& endpoint) {
  const auto client = std::make_shared<PluginClient>(resource, endpoint);
  {
    const MutexLock lock(mutex_);
    if (stopping_) return Failed("a kubelet that is down");
    clients_[resource] = client;
  }
  const Result<v1beta1::DevicePluginOptions> options = client->Connect(timing_.dial);
  if (!options.ok()) {
    const MutexLock lock(mutex_);
    clients_.erase(resource);
    return options.error();
  }
  const MutexLock lock(mutex_);
  if (stopping_) {
    client->Close();
    return Failed("a kubelet that is down");
  }
  listener_.Connected(resource, client, *options);
  Follower& follower = followers_.emplace_back();
  follower.client = client;
  follower.thread = std::thread([this, client, &follower] {
    Follow(client);
    const MutexLock ended(mutex_);
    follower.ended = true;
  });
  return Done{};
}

// Source: handler.go, runClient.
void KubeletPlugins::Follow(const std::shared_ptr<PluginClient>& client) {
  client->Run([&](const v1beta1::ListAndWatchResponse& list) {
    if (!stopping()) listener_.Listed(client->resource(), list);
  });
  Disconnect(client->resource());  // whichever plugin serves it now
}

// Source: handler.go, disconnectClient; DeRegisterPlugin.
void KubeletPlugins::Disconnect(const std::string& resource) {
  std::shared_ptr<PluginClient> client;
  {
    const MutexLock lock(mutex_);
    const auto known = clients_.find(resource);
    if (stopping_ || known == clients_.end()) return;
    client = std::move(known->second);
    clients_.erase(known);
  }
  client->Close();
  listener_.Disconnected(resource);
}

}  // namespace alignd::simulator
