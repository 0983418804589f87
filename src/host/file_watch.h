// Reports changes of files and directories, at no cost while nothing changes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "alignd/base/result.h"
#include "host/event_loop.h"

namespace alignd::host {

// Thread-safe. The inotify instances of a user are few: a container runtime needs one for each
// container with cgroup v2. If none is available, Add fails, and the next Add tries again.
// On cgroup files it sees what processes write; it does not see what the kernel changes by itself
// (a CPU goes offline, a parent cgroup gets narrower).
// Source: inotify(7).
class FileWatch {
 public:
  struct Change {
    std::string key;      // as given to Add
    std::string name;     // of the changed entry, if a directory is watched
    uint32_t events = 0;  // as of inotify; IN_Q_OVERFLOW: any number of changes of that key
  };
  // On the loop's thread; must not block.
  using OnChange = std::function<void(const Change&)>;

  FileWatch(std::shared_ptr<EventLoop> loop, OnChange on_change);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  // No callback is under way when it returns, unless it runs in that callback, and none follows.
  ~FileWatch();

  // Watches a file or a directory for `events` (IN_MODIFY, IN_CREATE, ...). A key may have several
  // files; a file has one key. The watch ends when the file is removed, which is reported as
  // IN_IGNORED. Errors: kNotFound if the file does not exist; kUnavailable if all instances or
  // watches of the user are in use: a later call may succeed; kIo.
  Result<Done> Add(const std::string& key, const std::filesystem::path& file, uint32_t events);
  void Remove(const std::string& key);

 private:
  class State;

  // Makes the inotify instance and has it watched, unless there is one.
  void Open();

  const std::shared_ptr<EventLoop> loop_;
  const std::shared_ptr<State> state_;
};

}  // namespace alignd::host
