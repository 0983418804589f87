#include "host/rehearsed_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace alignd::host {
namespace {

namespace fs = std::filesystem;

fs::path DirectoryOf(const char* path) {
  const fs::path entry(path);
  const fs::path parent =
      entry.has_filename() ? entry.parent_path() : entry.parent_path().parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

bool RehearsedFiles::MayChange(const fs::path& directory) const {
  if (made_.contains(directory.lexically_normal())) return true;
  return faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

int RehearsedFiles::Open(const char* path, int flags, mode_t) {
  if ((flags & O_CREAT) == 0 && !made_.contains(fs::path(path).lexically_normal())) {
    return open(path, O_RDONLY | O_CLOEXEC | (flags & (O_DIRECTORY | O_NOFOLLOW)));
  }
  if ((flags & O_CREAT) != 0 && !MayChange(DirectoryOf(path))) return -1;
  return open("/dev/null", O_WRONLY | O_CLOEXEC);
}

ssize_t RehearsedFiles::Write(int, const void*, size_t size) { return static_cast<ssize_t>(size); }

int RehearsedFiles::Fsync(int) { return 0; }

int RehearsedFiles::Rename(const char*, const char* to) {
  struct stat status {};
  if (lstat(to, &status) == 0 && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return -1;
  }
  return MayChange(DirectoryOf(to)) ? 0 : -1;
}

int RehearsedFiles::Unlink(const char* path) {
  if (made_.contains(DirectoryOf(path).lexically_normal())) {
    errno = ENOENT;
    return -1;
  }
  struct stat status {};
  if (lstat(path, &status) != 0) return -1;
  if (S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    return -1;
  }
  return MayChange(DirectoryOf(path)) ? 0 : -1;
}

int RehearsedFiles::Mkdir(const char* path, mode_t) {
  struct stat status {};
  if (lstat(path, &status) == 0) {
    errno = EEXIST;
    return -1;
  }
  if (errno != ENOENT && errno != ENOTDIR) return -1;
  if (!MayChange(DirectoryOf(path))) return -1;
  const fs::path made = fs::path(path).lexically_normal();
  made_.insert(made.has_filename() ? made : made.parent_path());
  return 0;
}

int RehearsedFiles::Fchmod(int, mode_t) { return 0; }

int RehearsedFiles::Fchown(int, uid_t, gid_t) { return 0; }

}  // namespace alignd::host
