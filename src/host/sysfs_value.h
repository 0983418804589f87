// Reads single values from sysfs files: numbers, lists, masks. An absent file is no error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"

namespace alignd::host {

// All of these are thread-safe and have the same errors: kIo if the file exists and cannot be read,
// kCorrupt (`read PATH: "x": not a number`) if it has another content. An absent file is
// `nullopt`.

// The text without white space around it.
Result<std::optional<std::string>> ReadText(const std::filesystem::path& path);
Result<std::optional<int>> ReadInt(const std::filesystem::path& path);
Result<std::optional<uint64_t>> ReadUint64(const std::filesystem::path& path);
// `0-3,8`; never empty.
Result<std::optional<CpuSet>> ReadCpuList(const std::filesystem::path& path);
// `10 21`.
Result<std::optional<std::vector<int>>> ReadInts(const std::filesystem::path& path);
// How many bits are set in `ff,00000003`.
Result<std::optional<int>> ReadMaskCount(const std::filesystem::path& path);

// The whole text as a decimal number that fits; nullopt otherwise.
std::optional<int> ParseInt(std::string_view text);
std::optional<uint64_t> ParseUint64(std::string_view text);

// `read PATH: "datum": what`, as kCorrupt.
Error CorruptFile(const std::filesystem::path& path, std::string_view datum, std::string_view what);

}  // namespace alignd::host
