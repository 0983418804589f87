// The values of the kernel's cgroup files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "alignd/base/result.h"
#include "host/file.h"

namespace alignd::cgroup {

// The remedy for a file that has no such value.
inline constexpr char kNoCgroupFile[] =
    "check that --cgroup-root is the mount point of the cgroups";

// Writes a value by one call: the kernel takes the text of each call as a whole value. Creates no
// file. Errors: kNotFound if there is no such file; kIo.
Result<Done> WriteFile(const std::filesystem::path& path, std::string_view text);

// The same of a file in a directory that is open.
Result<Done> WriteFileIn(const host::Directory& directory, const char* name, std::string_view text);

// `what`: the content of the file, for the error. Errors: kCorrupt, without the file's path.
Result<int64_t> ParseNumber(std::string_view text, const char* what);

}  // namespace alignd::cgroup
