// The paths of conformance vectors: a small selection in tests/vectors, and all of them in a folder
// beside the source or in $ALIGND_SHARED.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace alignd {

// The directories with vectors that exist here; tests/vectors comes first.
inline std::vector<std::filesystem::path> VectorDirectories() {
  const std::filesystem::path source = ALIGND_SOURCE_DIR;
  const char* const stated = std::getenv("ALIGND_SHARED");
  const std::filesystem::path shared = stated != nullptr ? stated : source / ".." / "shared";
  std::vector<std::filesystem::path> directories;
  for (const auto& directory : {source / "tests" / "vectors", shared / "vectors"}) {
    if (std::filesystem::is_directory(directory)) directories.push_back(directory);
  }
  return directories;
}

// The vector files of that name that exist here.
inline std::vector<std::filesystem::path> VectorFiles(const std::string& name) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& directory : VectorDirectories()) {
    if (std::filesystem::exists(directory / name)) files.push_back(directory / name);
  }
  return files;
}

}  // namespace alignd
