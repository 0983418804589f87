#include "host/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "host/descriptor.h"

namespace alignd::host {
namespace {

namespace fs = std::filesystem;

constexpr char kNotRegular[] = "remove the FIFO, socket or device, or name another file";

std::string RemedyOf(const std::error_code& code) {
  if (code == std::errc::is_a_directory) return "name a file, not a directory";
  if (code == std::errc::permission_denied) return "run as root, or allow this user to read it";
  if (code == std::errc::too_many_symbolic_link_levels) return "remove the loop of symbolic links";
  if (code == std::errc::no_such_device_or_address) return kNotRegular;  // open() of a socket
  if (code == std::errc::no_such_file_or_directory) return "check the path";
  if (code == std::errc::not_a_directory) return "check the path";
  if (code == std::errc::too_many_files_open) return "increase alignd's LimitNOFILE=";
  return "check the disk and the kernel's log";
}

// The symbolic link on the way to an absent file whose target does not exist; empty if there is
// none.
fs::path DanglingLink(fs::path path) {
  while (!path.empty()) {
    struct stat status {};
    if (lstat(path.c_str(), &status) == 0) {
      const bool dangles =
          S_ISLNK(status.st_mode) && stat(path.c_str(), &status) != 0 && errno == ENOENT;
      return dangles ? path : fs::path();
    }
    if (errno != ENOENT) return {};
    path = path.parent_path();
  }
  return {};
}

Error SystemError(std::string_view verb, const fs::path& path, const std::error_code& code) {
  Error error{ErrorCode::kIo, code.message(), RemedyOf(code)};
  if (code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory) {
    error.code = ErrorCode::kNotFound;
  }
  if (const fs::path link = DanglingLink(path);
      code == std::errc::no_such_file_or_directory && !link.empty()) {
    // Not absent: a file that was moved elsewhere must not be taken for one that never existed.
    error = {ErrorCode::kIo, "the target of the symbolic link " + link.string() + " does not exist",
             "remove the link, or restore its target"};
  }
  return error.In(std::string(verb) + " " + path.string());
}

// Where a file is. Its path is made only for an error: some files are read hundreds of times before
// a container starts.
struct Place {
  const char* name;
  std::string_view directory{};  // empty: `name` is the whole path

  fs::path path() const { return fs::path(directory) / name; }
};

Error ReadError(const Place& place) {
  const std::error_code code(errno, std::generic_category());  // before memory is allocated
  return SystemError("read", place.path(), code);
}

Result<std::string> ReadAll(const Descriptor& file, const Place& place, size_t max_bytes) {
  std::string content;
  std::array<char, 16 * 1024> buffer;
  while (true) {
    const ssize_t got = read(file.fd(), buffer.data(), buffer.size());
    if (got == 0) return content;
    if (got < 0) {
      if (errno == EINTR) continue;
      return ReadError(place);
    }
    content.append(buffer.data(), static_cast<size_t>(got));
    if (content.size() > max_bytes) {
      return Error{
          ErrorCode::kInvalidArgument,
          "read " + place.path().string() + ": longer than " + std::to_string(max_bytes) + " bytes",
          "check the path; no file of this kind is that long"};
    }
  }
}

// Without O_NONBLOCK, to open a FIFO would wait for its writer.
constexpr int kReadOnly = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Result<std::string> ReadRegular(const Descriptor& file, const Place& place, size_t max_bytes) {
  struct stat status {};
  if (file.fd() < 0 || fstat(file.fd(), &status) != 0) return ReadError(place);
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {  // read() explains a directory
    return Error{ErrorCode::kIo, "read " + place.path().string() + ": not a regular file",
                 kNotRegular};
  }
  return ReadAll(file, place, max_bytes);
}

}  // namespace

Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  return ReadRegular(Descriptor(open(path.c_str(), kReadOnly)), {path.c_str()}, max_bytes);
}

Result<std::string> ReadFileIn(const Directory& directory, const char* name, size_t max_bytes) {
  return ReadRegular(Descriptor(openat(directory.descriptor.fd(), name, kReadOnly)),
                     {name, directory.path}, max_bytes);
}

Result<std::string> ReadFileOrPipe(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return ReadError({path.c_str()});
  return ReadAll(file, {path.c_str()}, max_bytes);
}

Error ContentError(const Error& error, const std::filesystem::path& path) {
  Error faulty = error.In(path.string());
  if (faulty.remedy.empty()) faulty.remedy = "correct the file, or name another one";
  return faulty;
}

Result<std::vector<std::string>> ListDirectory(const std::filesystem::path& path) {
  std::error_code code;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path, code);
  const std::filesystem::directory_iterator end;
  while (!code && entry != end) {
    names.push_back(entry->path().filename().string());
    entry.increment(code);
  }
  if (code) return SystemError("list", path, code);
  std::ranges::sort(names);
  return names;
}

}  // namespace alignd::host
