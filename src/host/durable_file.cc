#include "host/durable_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "host/file.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;

constexpr char kLockName[] = "alignd.lock";

std::string RemedyOf(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
      return "free space on this file system";
    case EROFS:
      return "mount this file system writable, or use another directory";
    case EACCES:
    case EPERM:
      return "run as root, or allow this user to write there";
    case ENOTDIR:
    case EEXIST:
      return "remove the file that is in the place of the directory";
    case EISDIR:
      return "remove the directory that is in the place of the file";
    case ELOOP:
      return "replace the symbolic link with a regular file";
    case ENOENT:
      return "make the directory";
    default:
      return "check the disk and the kernel's log";
  }
}

Error ErrnoError(std::string_view verb, const fs::path& path) {
  const Error error{ErrorCode::kIo, std::generic_category().message(errno), RemedyOf(errno)};
  return error.In(std::string(verb) + " " + path.string());
}

// Repeats a call that a signal has interrupted.
template <typename Call>
auto Retry(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Always the same name, so that leftovers of crashes are overwritten and do not accumulate.
fs::path TemporaryOf(const fs::path& path) {
  return path.parent_path() / ("." + path.filename().string() + ".alignd-new");
}

Result<Done> UnlinkIfThere(const fs::path& path, FileCalls& calls) {
  if (calls.Unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError("remove", path);
  return Done{};
}

Result<Done> WriteAll(int fd, std::string_view text, const fs::path& path, FileCalls& calls) {
  while (!text.empty()) {
    const ssize_t written = Retry([&] { return calls.Write(fd, text.data(), text.size()); });
    if (written < 0) return ErrnoError("write", path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Done{};
}

// Changes the owner of the open file, which is to become `target`, unless it has that owner:
// alignd's unit lacks the right. Errors: kInvalidArgument without the right.
Result<Done> GiveTo(int fd, const std::pair<uid_t, gid_t>& ids, const fs::path& target,
                    FileCalls& calls) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && status.st_uid == ids.first && status.st_gid == ids.second) {
    return Done{};
  }
  if (calls.Fchown(fd, ids.first, ids.second) == 0) return Done{};
  if (errno != EPERM) return ErrnoError("change the owner of", target);
  return Error{ErrorCode::kInvalidArgument,
               target.string() + " belongs to user " + std::to_string(ids.first) + ", group " +
                   std::to_string(ids.second) +
                   ", and this process may not make a new file that does",
               "run chown root:root " + target.string() +
                   "; or permit it to alignd in a drop-in of its unit: "
                   "CapabilityBoundingSet=CAP_CHOWN and SystemCallFilter=@chown"};
}

// Writes the temporary at `path` for `target`. The text is on the disk when this returns without an
// error.
Result<Done> WriteSynced(const fs::path& path, const fs::path& target, std::string_view text,
                         const FileOwner& owner, FileCalls& calls) {
  const int fd = Retry([&] {
    return calls.Open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  });
  if (fd < 0) return ErrnoError("create", path);
  Result<Done> result = WriteAll(fd, text, path, calls);
  // Before the owner: the mode of another's file needs one more right.
  if (owner.mode != FileOwner().mode && result.ok() && calls.Fchmod(fd, owner.mode) != 0) {
    result = ErrnoError("change the mode of", path);
  }
  if (owner.ids && result.ok()) result = GiveTo(fd, *owner.ids, target, calls);
  if (result.ok() && Retry([&] { return calls.Fsync(fd); }) != 0) result = ErrnoError("sync", path);
  // Linux closes the descriptor even if it reports EINTR.
  if (calls.Close(fd) != 0 && errno != EINTR && result.ok()) result = ErrnoError("close", path);
  return result;
}

// Empty: the current directory, which is that of a relative path.
Result<Done> SyncDirectory(const fs::path& directory, FileCalls& calls) {
  const fs::path path = directory.empty() ? fs::path(".") : directory;
  const int fd =
      Retry([&] { return calls.Open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); });
  if (fd < 0) return ErrnoError("open", path);
  Result<Done> result = Done{};
  if (Retry([&] { return calls.Fsync(fd); }) != 0) result = ErrnoError("sync", path);
  if (calls.Close(fd) != 0 && errno != EINTR && result.ok()) result = ErrnoError("close", path);
  return result;
}

}  // namespace

int FileCalls::Open(const char* path, int flags, mode_t mode) { return open(path, flags, mode); }
ssize_t FileCalls::Write(int fd, const void* data, size_t size) { return write(fd, data, size); }
int FileCalls::Fsync(int fd) { return fsync(fd); }
int FileCalls::Close(int fd) { return close(fd); }
int FileCalls::Rename(const char* from, const char* to) { return rename(from, to); }
int FileCalls::Unlink(const char* path) { return unlink(path); }
int FileCalls::Fchmod(int fd, mode_t mode) { return fchmod(fd, mode); }
int FileCalls::Fchown(int fd, uid_t user, gid_t group) { return fchown(fd, user, group); }
int FileCalls::Statvfs(const char* path, struct statvfs* status) { return statvfs(path, status); }
int FileCalls::Mkdir(const char* path, mode_t mode) {
  if (mkdir(path, mode) != 0) return -1;
  if (chmod(path, mode) == 0) return 0;
  const int error = errno;
  (void)rmdir(path);  // the next attempt makes it again
  errno = error;
  return -1;
}

FileCalls& FileCalls::System() {
  static FileCalls calls;
  return calls;
}

Result<Done> ReplaceFile(const fs::path& path, std::string_view text, FileCalls& calls) {
  return ReplaceFile(path, text, FileOwner(), calls);
}

Result<Done> ReplaceFile(const fs::path& path, std::string_view text, const FileOwner& owner,
                         FileCalls& calls) {
  const fs::path temporary = TemporaryOf(path);
  if (Result<Done> clean = UnlinkIfThere(temporary, calls); !clean.ok()) return clean;
  Result<Done> written = WriteSynced(temporary, path, text, owner, calls);
  if (written.ok() && calls.Rename(temporary.c_str(), path.c_str()) != 0) {
    written = ErrnoError("rename to", path);
  }
  if (!written.ok()) {
    // The first error is reported. The next call removes a leftover.
    (void)UnlinkIfThere(temporary, calls);
    return written;
  }
  return SyncDirectory(path.parent_path(), calls);
}

bool HasFreeBytes(const fs::path& directory, uint64_t bytes, FileCalls& calls) {
  struct statvfs status {};
  if (Retry([&] { return calls.Statvfs(directory.c_str(), &status); }) != 0) return true;
  if (status.f_blocks == 0 || status.f_frsize == 0) return true;  // it has no limit
  return status.f_bavail >= bytes / status.f_frsize + 1;
}

Result<Done> RemoveFile(const fs::path& path, FileCalls& calls) {
  std::error_code code;
  if (!fs::exists(fs::symlink_status(path, code))) return Done{};
  if (Result<Done> removed = UnlinkIfThere(path, calls); !removed.ok()) return removed;
  return SyncDirectory(path.parent_path(), calls);
}

Result<Done> MoveFile(const fs::path& from, const fs::path& to, FileCalls& calls) {
  if (calls.Rename(from.c_str(), to.c_str()) != 0) return ErrnoError("rename to", to);
  return SyncDirectory(to.parent_path(), calls);
}

Result<Done> RemoveTemporary(const fs::path& path, FileCalls& calls) {
  return UnlinkIfThere(TemporaryOf(path), calls);
}

Result<Done> MakeDirectory(const fs::path& path, FileCalls& calls) {
  std::error_code code;
  if (fs::is_directory(path, code)) return Done{};
  const fs::path parent =
      path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  if (!parent.empty() && parent != path) {
    if (Result<Done> made = MakeDirectory(parent, calls); !made.ok()) return made;
  }
  constexpr mode_t kMode = S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH;
  if (calls.Mkdir(path.c_str(), kMode) != 0) return ErrnoError("make directory", path);
  return SyncDirectory(parent, calls);
}

Result<DirectoryLock> LockDirectory(const fs::path& directory) {
  const fs::path path = directory / kLockName;
  // A link could lead to any file, which would be overwritten below. To open a FIFO could wait.
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int fd = Retry([&] { return open(path.c_str(), kFlags, S_IRUSR | S_IWUSR); });
  if (fd < 0 && errno != ENXIO) return ErrnoError("lock", path);  // ENXIO: a socket
  DirectoryLock lock{Descriptor(fd)};
  struct stat status {};
  if (fd >= 0 && fstat(fd, &status) != 0) return ErrnoError("lock", path);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kIo, "lock " + path.string() + ": not a regular file",
                 "remove the FIFO, socket or device"};
  }
  if (Retry([&] { return flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoError("lock", path);
    constexpr size_t kMaxPidText = 32;
    Result<std::string> pid = ReadFile(path, kMaxPidText);
    const std::string holder = pid.ok() && !pid->empty() ? *pid : "unknown";
    return Error{ErrorCode::kUnavailable,
                 "lock " + directory.string() + ": locked by process " + holder,
                 "stop that process, or give this alignd another --state-dir"};
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd, 0) != 0) return ErrnoError("lock", path);
  if (Result<Done> written = WriteAll(fd, pid, path, FileCalls::System()); !written.ok()) {
    return written.error();
  }
  return lock;
}

}  // namespace alignd::host
