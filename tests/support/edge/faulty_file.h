// A disk that fails at a chosen system call, or dies at it and then shows what a power loss leaves.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/durable_file.h"
#include "sync/mutex.h"

namespace alignd::testing {

// Passes every call on to the real files and counts them. For one thread, except SetFree, Hold,
// AwaitHeld and LetGo, and what is called between the latter two.
class FaultyFile final : public host::FileCalls {
 public:
  // The `index`th call from now (0: the next) fails with `error`; those after it work again.
  void FailAt(int index, int error = EIO) { Arm(index, error, false); }
  // That call and all after it fail, as if the process were gone; see LosePower.
  void DieAt(int index) { Arm(index, EIO, true); }
  // No more failures.
  void Repair() { fail_at_.reset(); }
  // At most this many bytes per write.
  void WriteInPiecesOf(size_t bytes) { piece_ = bytes; }
  // The number of free bytes of the disk; nullopt: as it is.
  void SetFree(std::optional<uint64_t> bytes) {
    const MutexLock lock(mutex_);
    free_ = bytes;
  }
  // Every call is interrupted once before it is done.
  void InterruptOnce() { interrupt_ = true; }

  // Every fsync waits until LetGo.
  void Hold() {
    const MutexLock lock(mutex_);
    holds_ = true;
  }
  // Returns when an fsync waits.
  void AwaitHeld() {
    const MutexLock lock(mutex_);
    while (held_ == 0) changed_.Wait(mutex_);
  }
  void LetGo() {
    const MutexLock lock(mutex_);
    holds_ = false;
    changed_.NotifyAll();
  }

  int calls() const { return calls_; }
  // Whether a failure that was asked for has happened.
  bool failed() const { return failed_; }
  // The names of all calls, in order.
  const std::vector<std::string>& log() const { return log_; }

  // The content of the disk after a power failure: text that was not synced is half gone and, with
  // `undo_renames`, names that were not synced with their directory are the old ones.
  void LosePower(bool undo_renames) {
    for (const std::string& path : unsynced_) Halve(path);
    if (undo_renames) {
      for (const auto& [path, old] : unsynced_renames_) {
        if (old) {
          std::ofstream(path, std::ios::binary) << *old;
        } else {
          std::filesystem::remove(path);
        }
      }
    }
    unsynced_.clear();
    unsynced_renames_.clear();
    open_.clear();
    Repair();
  }

  int Open(const char* path, int flags, mode_t mode) override {
    if (Fails("open")) return -1;
    const int fd = FileCalls::Open(path, flags, mode);
    if (fd >= 0) open_[fd] = path;
    return fd;
  }
  ssize_t Write(int fd, const void* data, size_t size) override {
    if (Fails("write")) return -1;
    unsynced_.insert(open_[fd]);
    return FileCalls::Write(fd, data, piece_ ? std::min(size, piece_) : size);
  }
  int Fsync(int fd) override {
    {
      const MutexLock lock(mutex_);
      ++held_;
      changed_.NotifyAll();
      while (holds_) changed_.Wait(mutex_);
      --held_;
    }
    if (Fails("fsync")) return -1;
    const std::string path = open_[fd];
    unsynced_.erase(path);
    std::erase_if(unsynced_renames_, [&path](const auto& entry) {
      return std::filesystem::path(entry.first).parent_path() == path;
    });
    return 0;  // the real one costs time and proves nothing here
  }
  int Close(int fd) override {
    // The descriptor is gone in any case, as on Linux.
    const int result = FileCalls::Close(fd);
    open_.erase(fd);
    return Fails("close") ? -1 : result;
  }
  int Rename(const char* from, const char* to) override {
    if (Fails("rename")) return -1;
    // Of several unsynced renames the power loss undoes all.
    unsynced_renames_.try_emplace(to, ReadIfThere(to));
    const int result = FileCalls::Rename(from, to);
    if (unsynced_.erase(from) > 0) unsynced_.insert(to);
    return result;
  }
  int Unlink(const char* path) override {
    if (Fails("unlink")) return -1;
    unsynced_.erase(path);
    return FileCalls::Unlink(path);
  }
  int Mkdir(const char* path, mode_t mode) override {
    if (Fails("mkdir")) return -1;
    return FileCalls::Mkdir(path, mode);
  }
  int Statvfs(const char* path, struct statvfs* status) override {
    const int result = FileCalls::Statvfs(path, status);
    const MutexLock lock(mutex_);
    if (result == 0 && free_) status->f_bavail = *free_ / status->f_frsize;
    return result;
  }

 private:
  void Arm(int index, int error, bool for_good) {
    fail_at_ = calls_ + index;
    error_ = error;
    for_good_ = for_good;
    failed_ = false;
  }

  bool Fails(const char* name) {
    if (interrupt_ && !interrupted_ && name != std::string_view("rename") &&
        name != std::string_view("unlink")) {
      interrupted_ = true;
      errno = EINTR;
      return true;
    }
    interrupted_ = false;
    const int call = calls_++;
    log_.emplace_back(name);
    if (!fail_at_ || call < *fail_at_ || (call > *fail_at_ && !for_good_)) return false;
    failed_ = true;
    errno = error_;
    return true;
  }

  static std::optional<std::string> ReadIfThere(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  static void Halve(const std::string& path) {
    std::error_code gone;  // a temporary that has been removed loses nothing
    const auto size = std::filesystem::file_size(path, gone);
    if (!gone) std::filesystem::resize_file(path, size / 2);
  }

  Mutex mutex_;
  CondVar changed_;
  bool holds_ GUARDED_BY(mutex_) = false;
  int held_ GUARDED_BY(mutex_) = 0;
  std::optional<uint64_t> free_ GUARDED_BY(mutex_);

  int calls_ = 0;
  std::optional<int> fail_at_;
  int error_ = EIO;
  bool for_good_ = false;
  bool failed_ = false;
  size_t piece_ = 0;
  bool interrupt_ = false;
  bool interrupted_ = false;
  std::vector<std::string> log_;
  std::map<int, std::string> open_;  // descriptor -> path
  std::set<std::string> unsynced_;   // paths with text that is not synced
  std::map<std::string, std::optional<std::string>> unsynced_renames_;  // path -> text before
};

}  // namespace alignd::testing
