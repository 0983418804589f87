// The archive of `alignctl gather`: its pieces, what could not be had, and how it is packed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "host/subprocess.h"

namespace alignd::cli {

// A directory of its own, removed with all that is in it.
class TemporaryDirectory {
 public:
  static Result<std::unique_ptr<TemporaryDirectory>> Make();

  explicit TemporaryDirectory(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
};

// The pieces of the archive. What cannot be had is named in it.
class Collection {
 public:
  explicit Collection(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // The first error of a write ends the command; an absent piece does not.
  void Add(const std::string& name, const Result<std::string>& text, bool is_cut = false);

  // `what`: a piece, or several that are absent for one reason.
  void Miss(const std::string& what, const Error& error);

  // Adds the list of contents, which begins with `introduction`.
  Result<Done> Finish(const std::string& introduction);

  const std::string& missing() const { return missing_; }

 private:
  const std::filesystem::path directory_;
  std::string contents_;
  std::string missing_;
  std::string write_error_;
};

// The output of a program that ended with 0; otherwise an error that says what it printed.
Result<host::ProcessResult> OutputOf(const std::vector<std::string>& command);

Error AlreadyThere(const std::string& file);

// Writes `name` in the directory `parent` to the archive `file`, which only its owner can read.
// Replaces no file.
Result<Done> Pack(const std::filesystem::path& parent, const std::string& name,
                  const std::string& file);

Error IoError(const std::string& what, int number);

}  // namespace alignd::cli
