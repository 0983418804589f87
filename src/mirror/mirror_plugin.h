// One resource as the kubelet sees it: a device plugin of the mirror, which the kubelet's plugin
// watcher finds by its socket.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "mirror/announcement.h"
#include "service/unary_server.h"

namespace alignd::mirror {

// Answers a request for a preference: calls back once, on any thread, with the ids to prefer.
using Preference = std::function<void(const Choice&, std::function<void(std::set<std::string>)>)>;

// Offers one resource to the kubelet until it is destroyed. Thread-safe.
class Offered {
 public:
  Offered() = default;
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;
  virtual ~Offered() = default;

  // Sends the announcement to the kubelet, if it has changed.
  virtual void Announce(const Announcement& announced) = 0;

  // Whether the kubelet watches the announcements, or has called since this was asked last.
  virtual bool IsFollowed() const = 0;
};

// Thread-safe.
class MirrorPlugin final : public Offered {
 public:
  // Serves `socket` at once, so that the kubelet finds it. `preference`: empty if the kubelet is to
  // choose by itself; what it uses outlives the plugin. `loop` runs until the plugin has been
  // destroyed; the preference is asked on its thread. Errors: as rpc::OpenListening.
  static Result<std::unique_ptr<MirrorPlugin>> Start(std::shared_ptr<host::EventLoop> loop,
                                                     std::string resource,
                                                     const std::filesystem::path& socket,
                                                     Preference preference,
                                                     const Announcement& announced);
  // Ends the kubelet's streams and removes the socket. Not on the loop's thread.
  ~MirrorPlugin() override;

  void Announce(const Announcement& announced) override;
  bool IsFollowed() const override;

 private:
  class Service;

  explicit MirrorPlugin(std::unique_ptr<Service> service);

  const std::unique_ptr<Service> service_;
  std::unique_ptr<service::UnaryServer> server_;
};

}  // namespace alignd::mirror
