// The files of a node below a root directory, with changes that are not written yet.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::kubelet {

// Paths are those that the node sees (`/etc/default/kubelet`). Symbolic links are followed below
// the root, as after a chroot. A value.
class FileView {
 public:
  explicit FileView(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  // The text of a file, with the changes of Set; nullopt: there is no such file.
  // Errors: as host::ReadFile.
  Result<std::optional<std::string>> Read(const std::string& path) const;

  // The names in a directory in byte order, without the changes; empty: there is none.
  std::vector<std::string> List(const std::string& path) const;

  // Whether there is a file or a directory, without the changes.
  bool Exists(const std::string& path) const;

  // Whether there is a directory; a symbolic link is none.
  bool IsDirectory(const std::string& path) const;

  // When a file was changed, after 1970, without the changes of Set; nullopt: there is no such
  // file.
  std::optional<std::chrono::milliseconds> ModifiedAt(const std::string& path) const;

  // The path behind all symbolic links.
  std::string Resolve(const std::string& path) const;

  // Where the file is on this machine.
  std::filesystem::path OnThisMachine(const std::string& path) const;

  // From now on, Read gives this text.
  void Set(const std::string& path, std::string text) { changes_[Resolve(path)] = std::move(text); }

  // The paths that Set was called for.
  std::vector<std::string> Changed() const;

 private:
  std::filesystem::path root_;
  std::map<std::string, std::string> changes_;
};

}  // namespace alignd::kubelet
