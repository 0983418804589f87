#include "daemon/servers.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "cri/container_handlers.h"
#include "daemon/monitoring.h"
#include "mirror/mirror.h"
#include "rpc/unix_socket.h"

namespace alignd::daemon {
namespace {

// How long calls under way may take to end by themselves when alignd stops.
constexpr std::chrono::seconds kShutdownGrace{2};

}  // namespace

Servers::~Servers() {
  parts_.is_stopping = true;
  parts_.allocation.StopWaiting();
  if (forwarder_) forwarder_->Stop(kShutdownGrace);
  kept_socket_ = host::Descriptor();
  if (!own_socket_.empty()) unlink(own_socket_.c_str());
  monitoring_.reset();
  control_.reset();
  pod_resources_.reset();
  registration_.reset();
  watcher_.reset();
  forwarder_.reset();
  parts_.SetMirror(nullptr);
}

Result<Done> Servers::Start(const Options& options, control::ConfigChanger* changer,
                            Handover handover) {
  parts_.config_changer = changer;
  const control::ReportSources reports = parts_.ReportSourcesFor(options, changer);
  monitoring_ =
      StartMonitoring(options.metrics_address,
                      {parts_.node, parts_.allocation, parts_.conditions, parts_.reconciler,
                       parts_.metrics, parts_.background, parts_.io, parts_.is_stopping,
                       [reports] { return control::ReportStatus(reports, /*list_devices=*/true); },
                       [&plugins = parts_.plugins] {
                         std::set<std::string> names;
                         for (const auto& [name, since] : plugins.Disconnected())
                           names.insert(name);
                         return names;
                       },
                       options.node.empty() ? options.root : std::filesystem::path()},
                      parts_.WatchedThreads());
  const Result<Done> plugins = ServePlugins(options);
  if (!plugins.ok()) return plugins.error();
  const Result<Done> reporting = ServeReports(options, reports);
  if (!reporting.ok()) return reporting.error();
  return ServeCri(options, std::move(handover));
}

Handover Servers::Leave() {
  return {.lock = std::nullopt,
          .cri_socket = std::exchange(kept_socket_, host::Descriptor()),
          .own_socket = std::exchange(own_socket_, std::string()),
          .node = std::nullopt};
}

Result<Done> Servers::ServePlugins(const Options& options) {
  auto registration = deviceplugin::RegistrationServer::Start(
      parts_.services, std::filesystem::absolute(options.DevicePluginDir()), parts_.plugins);
  if (!registration.ok()) return registration.error();
  registration_ = *std::move(registration);
  deviceplugin::WatcherSettings watching;
  watching.deadlines.info = options.plugin_connect_timeout;
  auto watcher = deviceplugin::PluginWatcher::Start(options.PluginsRegistry(), parts_.plugins,
                                                    parts_.events, watching);
  if (!watcher.ok()) return watcher.error();
  watcher_ = *std::move(watcher);
  if (!options.mirror) return Done{};
  auto mirror = mirror::Mirror::Start(
      {.registry = options.kubelet_plugins_registry,
       .modes = *options.mirror,
       .kubelet_allocated_before = parts_.kubelet_allocated_before,
       .patience = options.mirror_patience},
      parts_.node, parts_.allocation, *parts_.bindings, parts_.background,
      [&plugins = parts_.plugins](const auto& query, auto done) {
        plugins.GetPreferredAllocation(query, mirror::kKubeletWaits, std::move(done));
      },
      mirror::ServePlugins(parts_.services));
  if (!mirror.ok()) return mirror.error();
  parts_.SetMirror(*std::move(mirror));
  return Done{};
}

Result<Done> Servers::ServeReports(const Options& options, const control::ReportSources& reports) {
  auto control = control::ControlServer::Start(
      parts_.services, options.ControlSocket(), reports,
      [&allocation = parts_.allocation](std::function<void()> changed) {
        allocation.OnChange([changed = std::move(changed)](const auto&) { changed(); });
      });
  if (!control.ok()) return control.error();
  control_ = *std::move(control);
  auto pod_resources = podresources::PodResourcesServer::Start(
      parts_.services, options.PodResourcesSocket(), parts_.node, parts_.allocation,
      parts_.registry, [this] { return parts_.Claims(); });
  if (!pod_resources.ok()) return pod_resources.error();
  pod_resources_ = *std::move(pod_resources);
  return Done{};
}

Result<Done> Servers::ServeCri(const Options& options, Handover handover) {
  const Result<std::string> runtime = rpc::SocketPath(options.runtime_endpoint);
  if (!runtime.ok()) return runtime.error().In("--runtime-endpoint");
  if (handover.cri_socket.fd() < 0) {
    Result<host::Descriptor> opened = rpc::OpenListening(options.listen);
    if (!opened.ok()) return opened.error();
    handover.cri_socket = *std::move(opened);
    handover.own_socket = *rpc::SocketPath(options.listen);
  } else if (handover.own_socket.empty()) {
    spdlog::info("serving CRI on the socket of systemd");
  }
  kept_socket_ = handover.Spare().cri_socket;
  auto forwarder = proxy::Forwarder::Start(
      parts_.events, std::move(handover.cri_socket),
      {.runtime_socket = *runtime,
       .handlers = parts_.Handlers(options),
       .parsed_bytes = cri::ParsedBytes,
       .events = &parts_.metrics.calls(),
       .runtime_lost = [&reconciler = parts_.reconciler] { reconciler.RuntimeLost(); }});
  if (!forwarder.ok()) return forwarder.error();
  forwarder_ = *std::move(forwarder);
  // Not before: after a failed start, a former configuration may be served on the socket again.
  own_socket_ = std::move(handover.own_socket);
  return Done{};
}

}  // namespace alignd::daemon
