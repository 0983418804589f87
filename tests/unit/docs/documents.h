// Reading the documents and the sources, for the tests of the documents.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace alignd::docs {

namespace fs = std::filesystem;

inline const fs::path& Root() {
  static const fs::path root = ALIGND_SOURCE_DIR;
  return root;
}

inline std::string ReadText(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The lines outside fenced code.
inline std::vector<std::string> Prose(const fs::path& document) {
  std::vector<std::string> prose;
  bool in_code = false;
  for (const std::string& line : Lines(ReadText(document))) {
    const bool fence = line.find_first_not_of(' ') != std::string::npos &&
                       line.substr(line.find_first_not_of(' ')).starts_with("```");
    if (fence) in_code = !in_code;
    if (!fence && !in_code) prose.push_back(line);
  }
  return prose;
}

// All files below the folders.
inline std::vector<fs::path> FilesIn(const std::vector<const char*>& folders) {
  std::vector<fs::path> files;
  for (const char* folder : folders) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(Root() / folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  return files;
}

}  // namespace alignd::docs
