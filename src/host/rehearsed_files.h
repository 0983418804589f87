// The system calls of durable_file.h, without their effects.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "host/durable_file.h"

namespace alignd::host {

// Changes nothing. A call fails as the real one would for a path, a permission or a file system
// that is mounted read-only; not for a disk that is full or broken. For one thread.
class RehearsedFiles final : public FileCalls {
 public:
  int Open(const char* path, int flags, mode_t mode) override;
  ssize_t Write(int fd, const void* data, size_t size) override;
  int Fsync(int fd) override;
  int Rename(const char* from, const char* to) override;
  int Unlink(const char* path) override;
  int Mkdir(const char* path, mode_t mode) override;
  int Fchmod(int fd, mode_t mode) override;
  int Fchown(int fd, uid_t user, gid_t group) override;

 private:
  // Whether an entry of the directory could be made or removed. Otherwise, errno is set.
  bool MayChange(const std::filesystem::path& directory) const;

  std::set<std::filesystem::path> made_;  // directories, by Mkdir
};

}  // namespace alignd::host
