#include "cgroup/cgroup_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>

namespace alignd::cgroup {
namespace {

namespace fs = std::filesystem;

constexpr int kWriteOnly = O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

// `file`: -1 with errno if it could not be opened.
Result<Done> Write(const host::Descriptor& file, const fs::path& path, std::string_view text) {
  const auto fault = [&path](int error) {
    return Error{error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "write " + path.string() + ": " + std::generic_category().message(error),
                 "check that alignd may write to the cgroups"};
  };
  if (file.fd() < 0) return fault(errno);
  const ssize_t written = write(file.fd(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return Done{};
  return fault(written < 0 ? errno : EIO);
}

}  // namespace

Result<Done> WriteFile(const fs::path& path, std::string_view text) {
  return Write(host::Descriptor(open(path.c_str(), kWriteOnly)), path, text);
}

Result<Done> WriteFileIn(const host::Descriptor& directory, const fs::path& path,
                         std::string_view text) {
  return Write(host::Descriptor(openat(directory.fd(), path.filename().c_str(), kWriteOnly)), path,
               text);
}

Result<int64_t> ParseNumber(const fs::path& path, std::string_view text, const char* what) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size()) return number;
  return Error{ErrorCode::kCorrupt, path.string() + ": \"" + std::string(text) + "\" is no " + what,
               kNoCgroupFile};
}

}  // namespace alignd::cgroup
