// A small directory tree, written as a literal in a test and removed with it.
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace alignd::testing {

// A file with its content, a directory with its entries, or a symbolic link. A name may be a path
// (`cpu0/topology`).
class FakeEntry {
 public:
  FakeEntry(std::string name, std::string content)
      : name_(std::move(name)), content_(std::move(content)) {}
  FakeEntry(std::string name, std::initializer_list<FakeEntry> entries)
      : name_(std::move(name)), kind_(Kind::kDirectory), entries_(entries) {}

  static FakeEntry Link(std::string name, std::string target) {
    FakeEntry link(std::move(name), std::move(target));
    link.kind_ = Kind::kLink;
    return link;
  }

  void WriteInto(const std::filesystem::path& directory) const {
    const std::filesystem::path path = directory / name_;
    if (kind_ == Kind::kDirectory) {
      std::filesystem::create_directories(path);
      for (const FakeEntry& entry : entries_) entry.WriteInto(path);
      return;
    }
    std::filesystem::create_directories(path.parent_path());
    if (kind_ == Kind::kLink) {
      std::filesystem::create_symlink(content_, path);
      return;
    }
    std::ofstream(path, std::ios::binary) << content_;
  }

 private:
  enum class Kind { kFile, kDirectory, kLink };

  std::string name_;
  std::string content_;  // of a link: its target
  Kind kind_ = Kind::kFile;
  std::vector<FakeEntry> entries_;
};

// A temporary directory that holds the given entries. Ends the test program if it cannot be made.
class FakeTree {
 public:
  FakeTree(std::initializer_list<FakeEntry> entries = {}) : root_(MakeRoot()) {
    for (const FakeEntry& entry : entries) entry.WriteInto(root_);
  }
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;
  ~FakeTree() {
    std::error_code ignored;  // a leftover in the temporary directory fails no test
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path& root() const { return root_; }

  // Adds an entry, or replaces a file.
  void Write(const FakeEntry& entry) const { entry.WriteInto(root_); }

 private:
  static std::filesystem::path MakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "alignd-tree-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      std::perror(name.c_str());
      std::abort();
    }
    return name;
  }

  const std::filesystem::path root_;
};

}  // namespace alignd::testing
