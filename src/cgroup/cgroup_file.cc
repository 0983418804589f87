#include "cgroup/cgroup_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>

namespace alignd::cgroup {
namespace {

namespace fs = std::filesystem;

constexpr int kWriteOnly = O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

// `file`: -1 with errno if it could not be opened. nullopt: written.
std::optional<int> Write(const host::Descriptor& file, std::string_view text) {
  if (file.fd() < 0) return errno;
  const ssize_t written = write(file.fd(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return std::nullopt;
  return written < 0 ? errno : EIO;
}

Error NotWritten(const fs::path& path, int error) {
  return {error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          "write " + path.string() + ": " + std::generic_category().message(error),
          "check that alignd may write to the cgroups"};
}

}  // namespace

Result<Done> WriteFile(const fs::path& path, std::string_view text) {
  const std::optional<int> error = Write(host::Descriptor(open(path.c_str(), kWriteOnly)), text);
  if (error) return NotWritten(path, *error);
  return Done{};
}

Result<Done> WriteFileIn(const host::Directory& directory, const char* name,
                         std::string_view text) {
  const std::optional<int> error =
      Write(host::Descriptor(openat(directory.descriptor.fd(), name, kWriteOnly)), text);
  if (error) return NotWritten(fs::path(directory.path) / name, *error);
  return Done{};
}

Result<int64_t> ParseNumber(std::string_view text, const char* what) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code == std::errc() && end == text.data() + text.size()) return number;
  return Error{ErrorCode::kCorrupt, "\"" + std::string(text) + "\" is no " + what, kNoCgroupFile};
}

}  // namespace alignd::cgroup
