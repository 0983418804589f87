// Everything that can lie in the place of a file, except a file.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "edge/unix_socket.h"

namespace alignd::testing {

enum class OddFile { kFifo, kDevice, kSocket, kDirectory, kDanglingLink, kLinkLoop };

inline const std::vector<OddFile>& OddFiles() {
  static const std::vector<OddFile> all = {OddFile::kFifo,         OddFile::kDevice,
                                           OddFile::kSocket,       OddFile::kDirectory,
                                           OddFile::kDanglingLink, OddFile::kLinkLoop};
  return all;
}

inline std::string NameOf(OddFile kind) {
  static const std::vector<std::string> names = {"FIFO",      "device",        "socket",
                                                 "directory", "dangling link", "link loop"};
  return names.at(static_cast<size_t>(kind));
}

// Makes it at `path`, in place of any other file. A device is a link to /dev/null: only root can
// make one. The directory is not empty.
inline void MakeOddFile(OddFile kind, const std::filesystem::path& path) {
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path.parent_path());
  switch (kind) {
    case OddFile::kFifo:
      EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
      return;
    case OddFile::kDevice:
      std::filesystem::create_symlink("/dev/null", path);
      return;
    case OddFile::kSocket:
      BindUnix(path);
      return;
    case OddFile::kDirectory:
      std::filesystem::create_directories(path / "inner");
      return;
    case OddFile::kDanglingLink:
      std::filesystem::create_symlink("nowhere", path);
      return;
    case OddFile::kLinkLoop:
      std::filesystem::create_symlink(path.filename(), path);
      return;
  }
}

}  // namespace alignd::testing
