// One resource as the kubelet sees it: a device plugin of our own, which the kubelet's plugin
// watcher finds by its socket.
#pragma once

#include <grpcpp/server.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "alignd/base/result.h"
#include "mirror/announcement.h"

namespace alignd::mirror {

// Guides the kubelet: calls back once, on any thread, with the ids to prefer.
using Guide = std::function<void(const Choice&, std::function<void(std::set<std::string>)>)>;

// One resource that is offered to the kubelet for as long as this lives. Thread-safe.
class Offered {
 public:
  Offered() = default;
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;
  virtual ~Offered() = default;

  // Applies the kubelet, if anything has changed for it.
  virtual void Announce(const Announcement& announced) = 0;

  // Whether the kubelet has taken the offer and follows what is announced, or has begun to take it
  // since this was asked last.
  virtual bool IsFollowed() const = 0;
};

// Thread-safe.
class MirrorPlugin final : public Offered {
 public:
  // Serves `socket` at once, so that the kubelet finds it. `guide`: empty if the kubelet is to
  // choose for itself; what it uses outlives us.
  // Errors: as rpc::Listen.
  static Result<std::unique_ptr<MirrorPlugin>> Start(std::string resource,
                                                     std::filesystem::path socket, Guide guide,
                                                     const Announcement& announced);
  // Ends the kubelet's streams and removes the socket.
  ~MirrorPlugin() override;

  void Announce(const Announcement& announced) override;
  bool IsFollowed() const override;

  // How the kubelet's last attempt to register us ended: empty: well; nullopt: none yet.
  std::optional<std::string> registration() const;

 private:
  class Service;
  class OfferService;

  MirrorPlugin(std::unique_ptr<Service> service, std::unique_ptr<OfferService> offer);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<OfferService> offer_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace alignd::mirror
