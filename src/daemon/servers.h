// What others call: alignd's sockets.
#pragma once

#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "control/control_server.h"
#include "control/reports.h"
#include "daemon/handover.h"
#include "daemon/options.h"
#include "daemon/parts.h"
#include "deviceplugin/plugin_watcher.h"
#include "deviceplugin/registration_server.h"
#include "host/descriptor.h"
#include "metrics/http_server.h"
#include "podresources/pod_resources_server.h"
#include "proxy/forwarder.h"

namespace alignd::daemon {

// Serves the parts, which outlive it. Start, leave and destroy it on the same thread.
class Servers {
 public:
  explicit Servers(Parts& parts) : parts_(parts) {}
  // Calls under way may end by themselves, for a short time. Afterwards no call reaches the parts.
  ~Servers();

  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Serves device plugins first, and CRI last. `changer`, if given, outlives this object. Errors:
  // the first that could not be served; what was served before it goes on until the destructor.
  Result<Done> Start(const Options& options, control::ConfigChanger* changer, Handover handover);

  // The CRI socket, which then stays open: see Daemon::Leave.
  Handover Leave();

 private:
  Result<Done> ServePlugins(const Options& options);
  Result<Done> ServeReports(const Options& options, const control::ReportSources& reports);
  Result<Done> ServeCri(const Options& options, Handover handover);

  Parts& parts_;
  std::unique_ptr<deviceplugin::RegistrationServer> registration_;
  std::unique_ptr<deviceplugin::PluginWatcher> watcher_;
  std::unique_ptr<metrics::HttpServer> monitoring_;  // null: off
  std::unique_ptr<control::ControlServer> control_;
  std::unique_ptr<podresources::PodResourcesServer> pod_resources_;
  std::unique_ptr<proxy::Forwarder> forwarder_;
  host::Descriptor kept_socket_;  // the same as the forwarder's
  std::string own_socket_;        // its path; empty for a socket of systemd, or one that is left
};

}  // namespace alignd::daemon
