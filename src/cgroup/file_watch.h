// Applies which of many files were written to, at no cost while nobody writes.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::cgroup {

// One thread at a time, but for `Wake`. Works on cgroup files for what processes write; what the
// kernel changes by itself (a CPU goes offline, a parent cgroup gets narrower) is not seen. Where
// the kernel gives us no inotify instance nothing is ever seen, and Add says so.
// Source: inotify(7).
class FileWatch {
 public:
  using Clock = std::chrono::steady_clock;

  FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;
  ~FileWatch();

  // Watches files under one key. Errors: kNotFound if one is not there; kIo, for example when the
  // user's watches are used up. Nothing is watched under the key then.
  Result<Done> Add(const std::string& key, const std::vector<std::filesystem::path>& files);
  void Remove(const std::string& key);

  // Returns once files were written to, someone called Wake, or `deadline` has come. The keys of
  // the files that were; all keys if the kernel has lost count.
  std::set<std::string> Wait(Clock::time_point deadline);

  // Thread-safe.
  void Wake();

 private:
  std::set<std::string> ReadEvents();

  const int inotify_;                             // < 0: none
  const int wake_;                                // an eventfd
  std::map<int, std::string> keys_;               // by watch descriptor
  std::map<std::string, std::set<int>> watches_;  // by key
};

}  // namespace alignd::cgroup
