// Reads this machine's small files and lists its directories.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::host {

// Larger than every file that alignd reads. Limits the memory that a wrong path can cost.
inline constexpr size_t kMaxFileBytes = size_t{16} * 1024 * 1024;

// The whole content of a regular file, read until the end and not to the size that stat gives (0 in
// /proc, a page in /sys). Never waits for another program: a FIFO in place of a file is an error.
// Thread-safe.
// Errors: kNotFound if there is no such file; kInvalidArgument if it is longer than `max_bytes`;
// otherwise kIo, also if a symbolic link on the way leads to nothing. Each says `read PATH: ...`
// and has a remedy.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes = kMaxFileBytes);

// A directory that is open.
struct Directory {
  std::string path;  // for errors
  Descriptor descriptor;
};

// The same of a file in that directory. The directories above it are not walked again, which takes
// longer than the rest if there are many.
Result<std::string> ReadFileIn(const Directory& directory, const char* name,
                               size_t max_bytes = kMaxFileBytes);

// The same for a file that the user names on a command line: it may be a pipe.
Result<std::string> ReadFileOrPipe(const std::filesystem::path& path,
                                   size_t max_bytes = kMaxFileBytes);

// The error of a file's content: with the path in front, and with a remedy if it has none.
Error ContentError(const Error& error, const std::filesystem::path& path);

// The names in a directory, without `.` and `..`, in ascending byte order. Thread-safe.
// Errors: kNotFound if there is no such directory; otherwise kIo. Each says `list PATH: ...`.
Result<std::vector<std::string>> ListDirectory(const std::filesystem::path& path);

}  // namespace alignd::host
