// Where conformance vectors lie: a small selection in tests/vectors, and all of them in a folder
// that may lie beside the source, or wherever ALIGND_SHARED says.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace alignd {

// The vector files of that name that exist here; the one in tests/vectors comes first.
inline std::vector<std::filesystem::path> VectorFiles(const std::string& name) {
  const std::filesystem::path source = ALIGND_SOURCE_DIR;
  const char* const stated = std::getenv("ALIGND_SHARED");
  const std::filesystem::path shared = stated != nullptr ? stated : source / ".." / "shared";
  std::vector<std::filesystem::path> files;
  for (const auto& file : {source / "tests" / "vectors" / name, shared / "vectors" / name}) {
    if (std::filesystem::exists(file)) files.push_back(file);
  }
  return files;
}

}  // namespace alignd
