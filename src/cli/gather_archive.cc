#include "cli/gather_archive.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "host/descriptor.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLongestProcess{60};

// Replaces no file. Some file systems cannot do that in one step.
Result<Done> MoveInto(const std::string& unfinished, const std::string& file) {
  if (renameat2(AT_FDCWD, unfinished.c_str(), AT_FDCWD, file.c_str(), RENAME_NOREPLACE) == 0) {
    return Done{};
  }
  if (errno == EEXIST) return AlreadyThere(file);
  const bool is_supported = errno != EINVAL && errno != ENOSYS;
  if (is_supported || rename(unfinished.c_str(), file.c_str()) != 0) {
    return IoError("write " + file, errno);
  }
  return Done{};
}

}  // namespace

Error IoError(const std::string& what, int number) {
  return {ErrorCode::kIo, what + ": " + std::generic_category().message(number),
          "check the disk and your rights there"};
}

Result<std::unique_ptr<TemporaryDirectory>> TemporaryDirectory::Make() {
  std::error_code fault;
  std::string path = (fs::temp_directory_path(fault) / "alignd-gather-XXXXXX").string();
  if (fault || mkdtemp(path.data()) == nullptr) return IoError("make " + path, errno);
  return std::make_unique<TemporaryDirectory>(path);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;  // what is left is readable by its owner alone
  fs::remove_all(path_, ignored);
}

void Collection::Add(const std::string& name, const Result<std::string>& text, bool is_cut) {
  if (!text.ok()) return Miss(name, text.error());
  std::ofstream file(directory_ / name, std::ios::binary);
  file << *text;
  file.close();
  if (!file && write_error_.empty()) write_error_ = (directory_ / name).string();
  contents_ += name + (is_cut ? " (cut: only the first part is here)\n" : "\n");
}

void Collection::Miss(const std::string& what, const Error& error) {
  missing_ += what + ": " + error.Text() + "\n";
}

Result<Done> Collection::Finish(const std::string& introduction) {
  const std::string missing = missing_.empty() ? "" : "\nNot gathered:\n" + missing_;
  Add("contents.txt", introduction + contents_ + missing);
  if (write_error_.empty()) return Done{};
  return Error{ErrorCode::kIo, "cannot write " + write_error_, "free space in $TMPDIR"};
}

Result<host::ProcessResult> OutputOf(const std::vector<std::string>& command) {
  Result<host::ProcessResult> result = host::RunProcess(command, kLongestProcess);
  if (!result.ok() || result->exit_status == 0) return result;
  std::istringstream lines(result->output.substr(0, 200));
  std::string said;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) said += (said.empty() ? "" : " | ") + line;
  }
  return Error{ErrorCode::kIo,
               command.front() + " ended with " + std::to_string(result->exit_status) + ": " + said,
               "remove the cause that it names, or see its manual page"};
}

Error AlreadyThere(const std::string& file) {
  return {ErrorCode::kInvalidArgument, file + " exists already: it is not replaced",
          "name another file, or remove this one"};
}

Result<Done> Pack(const fs::path& parent, const std::string& name, const std::string& file) {
  // A new file of a new name, readable by its owner alone: no link is followed.
  std::string unfinished = file + ".XXXXXX";
  const host::Descriptor made(mkostemp(unfinished.data(), O_CLOEXEC));
  if (made.fd() < 0) return IoError("write " + file, errno);
  const Result<host::ProcessResult> packed =
      OutputOf({"tar", "--create", "--gzip", "--force-local", "--file", unfinished, "--directory",
                parent.string(), name});
  if (!packed.ok()) {
    unlink(unfinished.c_str());
    return Error{ErrorCode::kIo, packed.error().message, packed.error().remedy};
  }
  const Result<Done> moved = MoveInto(unfinished, file);
  if (!moved.ok()) unlink(unfinished.c_str());
  return moved;
}

}  // namespace alignd::cli
