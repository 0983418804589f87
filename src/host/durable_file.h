// Replaces files so that a crash leaves the old text or the new one, and locks a directory for one
// process at a time.
#pragma once

#include <sys/statvfs.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::host {

// The system calls of this file, one method each with the same meaning, result and errno; but Mkdir
// sets exactly `mode`, whatever the umask is. Tests derive from it to make any call fail.
// Thread-safe.
class FileCalls {
 public:
  virtual ~FileCalls() = default;

  virtual int Open(const char* path, int flags, mode_t mode);
  virtual ssize_t Write(int fd, const void* data, size_t size);
  virtual int Fsync(int fd);
  virtual int Close(int fd);
  virtual int Rename(const char* from, const char* to);
  virtual int Unlink(const char* path);
  virtual int Mkdir(const char* path, mode_t mode);
  virtual int Fchmod(int fd, mode_t mode);
  virtual int Fchown(int fd, uid_t user, gid_t group);
  virtual int Statvfs(const char* path, struct statvfs* status);

  // The real system calls.
  static FileCalls& System();
};

// Replaces `path`, or makes it, with mode 0600: writes a temporary in the same directory, syncs it,
// renames it, syncs the directory. `text` is the whole file. One caller per path at a time. Follows
// no symbolic link: a link at `path` is replaced.
// Errors: kIo with path and errno text. Then the old text is in place or, if only the directory
// could not be synced, the new one. Until a later call succeeds, a crash may leave either of them.
// Source: kubelet pkg/kubelet/util/store/filestore.go, writeFile.
// Differs: the directory is synced too, the kubelet's file may be the old one after a power loss.
Result<Done> ReplaceFile(const std::filesystem::path& path, std::string_view text,
                         FileCalls& calls = FileCalls::System());

// Mode and owner of a file.
struct FileOwner {
  mode_t mode = 0600;
  std::optional<std::pair<uid_t, gid_t>> ids;  // nullopt: this process
};

// The same, with this mode and owner. Errors: also kInvalidArgument, if this process may not give
// the file that owner.
Result<Done> ReplaceFile(const std::filesystem::path& path, std::string_view text,
                         const FileOwner& owner, FileCalls& calls = FileCalls::System());

// Whether the file system of the directory has this many free bytes that any user may use. True if
// the file system does not say so.
bool HasFreeBytes(const std::filesystem::path& directory, uint64_t bytes,
                  FileCalls& calls = FileCalls::System());

// Removes a file, and syncs its directory. A file that is not there is removed already.
// Errors: kIo with path and errno text.
Result<Done> RemoveFile(const std::filesystem::path& path, FileCalls& calls = FileCalls::System());

// Renames a file within its directory, which is synced. An existing `to` is replaced.
// Errors: kIo with path and errno text.
Result<Done> MoveFile(const std::filesystem::path& from, const std::filesystem::path& to,
                      FileCalls& calls = FileCalls::System());

// Removes the temporary that a crash in ReplaceFile(`path`) has left, if there is one.
// Errors: kIo with path and errno text.
Result<Done> RemoveTemporary(const std::filesystem::path& path,
                             FileCalls& calls = FileCalls::System());

// Makes the directory and its missing parents, mode 0755 whatever the umask is, each synced into
// its parent. A directory that exists keeps its mode. Errors: kIo with path and errno text.
Result<Done> MakeDirectory(const std::filesystem::path& path,
                           FileCalls& calls = FileCalls::System());

// Locks a directory for this process until it is destroyed. The kernel releases the lock when the
// process ends. Movable.
class DirectoryLock {
 private:
  friend Result<DirectoryLock> LockDirectory(const std::filesystem::path& directory);
  explicit DirectoryLock(Descriptor file) : file_(std::move(file)) {}

  Descriptor file_;  // the kernel ends the lock when it is closed
};

// Locks a directory by flock on the regular file `alignd.lock` in it; follows no symbolic link. The
// file has the owner's process id and is never removed.
// Errors: kUnavailable, naming the owner's process id, if another process has the lock; otherwise
// kIo.
Result<DirectoryLock> LockDirectory(const std::filesystem::path& directory);

}  // namespace alignd::host
