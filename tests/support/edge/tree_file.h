// A directory tree as a text file: one line `path TAB content` per file, `path TAB -> target` per
// symbolic link; empty lines and lines that begin with # are ignored. Files get a line end.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::testing {

// Writes the tree that `file` describes into `tree`.
inline void WriteTreeFile(const std::filesystem::path& file, const FakeTree& tree) {
  constexpr std::string_view kLink = "-> ";
  std::ifstream in(file);
  ASSERT_TRUE(in) << file;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty() || line.front() == '#') continue;
    const size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << file << ": no tab in: " << line;
    const std::string path = line.substr(0, tab);
    const std::string content = line.substr(tab + 1);
    tree.Write(content.starts_with(kLink) ? FakeEntry::Link(path, content.substr(kLink.size()))
                                          : FakeEntry(path, content + "\n"));
  }
}

}  // namespace alignd::testing
