// The sockets in a directory tree, as the kubelet's plugin watcher sees them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "host/file_watch.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// Thread-safe. Every creation gives a path a new identity. A socket that is moved away is still
// listed, as the kubelet watches creation and removal only.
// Source: kubelet 1.36 pkg/kubelet/pluginmanager/pluginwatcher/plugin_watcher.go; cache,
// desired_state_of_world.go.
class SocketWatch {
 public:
  // Creates a missing directory. Errors: kIo, kNotFound.
  static Result<std::unique_ptr<SocketWatch>> Start(const std::filesystem::path& directory);
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;
  ~SocketWatch();

  // Identities by path.
  std::map<std::string, uint64_t> Sockets() const;

 private:
  explicit SocketWatch(std::shared_ptr<host::EventLoop> loop);

  void OnChange(const host::FileWatch::Change& change);
  Result<Done> Traverse(const std::filesystem::path& directory);
  void Created(const std::filesystem::path& path);

  mutable Mutex mutex_;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> sockets_ GUARDED_BY(mutex_);

  const std::shared_ptr<host::EventLoop> loop_;
  host::FileWatch directories_;
};

}  // namespace alignd::simulator
