#include "cli/lstopo_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "alignd/machine/machine.h"
#include "alignd/machine/node_json.h"
#include "cli/lstopo_machine.h"
#include "host/descriptor.h"

namespace alignd::cli {
namespace {

// "2.0" of <topology version="2.0">; empty: there is none.
std::string_view VersionOf(std::string_view xml) {
  constexpr std::string_view kStart = "<topology version=\"";
  const size_t start = xml.substr(0, 4096).find(kStart);
  if (start == std::string_view::npos) return {};
  xml.remove_prefix(start + kStart.size());
  return xml.substr(0, std::min<size_t>(xml.find('"'), 16));
}

// What the reading process writes: a letter, and the text; of an error also the remedy, after a
// zero byte.
constexpr char kRead = 'r';
constexpr char kFault = 'f';

[[noreturn]] void ReadInChild(const std::string& xml, int pipe) {
  // No other file than this one, no plugin of hwloc, and no message to the terminal.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, STDERR_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) _exit(1);
  std::vector<std::string> names;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view name = *variable;
    if (name.starts_with("HWLOC_")) names.emplace_back(name.substr(0, name.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  setenv("HWLOC_PLUGINS_PATH", "/dev/null", /*replace=*/1);
  setenv("HWLOC_LIBXML", "0", /*replace=*/1);
  constexpr rlim_t kSeconds = 20;
  const rlimit time{kSeconds, kSeconds};
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_CORE, &core);
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) signal(fault, SIG_DFL);

  const Result<Machine> read = MachineOfLstopo(xml);
  std::string text(1, read.ok() ? kRead : kFault);
  text += read.ok() ? MachineToNodeJson(*read) : read.error().message + '\0' + read.error().remedy;
  for (size_t written = 0; written < text.size();) {
    const ssize_t more = write(pipe, text.data() + written, text.size() - written);
    if (more < 0 && errno != EINTR) _exit(1);
    if (more > 0) written += static_cast<size_t>(more);
  }
  _exit(0);
}

Error NotStarted(const char* what) {
  return {ErrorCode::kIo, std::string(what) + ": " + std::generic_category().message(errno),
          kGiveOwnForm};
}

}  // namespace

bool IsXml(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

Result<std::string> NodeJsonOfLstopo(const std::string& xml) {
  if (xml.size() > kMaxLstopoBytes) {
    return BadLstopo("longer than " + std::to_string(kMaxLstopoBytes) + " bytes", kGiveOwnForm);
  }
  const std::string_view version = VersionOf(xml);
  if (version.empty()) return BadLstopo("there is no <topology version=...>: it is no such file");
  if (!version.starts_with("2.")) {
    return BadLstopo("the version is \"" + std::string(version) + "\", not 2.x",
                     "write it with lstopo of hwloc 2, or give the output of alignctl topology -o "
                     "json, made on that node");
  }
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return NotStarted("pipe");
  const host::Descriptor from(ends[0]);
  host::Descriptor to(ends[1]);
  const pid_t child = fork();
  if (child < 0) return NotStarted("fork");
  if (child == 0) ReadInChild(xml, to.fd());
  to = host::Descriptor();
  std::string text;
  std::array<char, 65'536> part;
  for (;;) {
    const ssize_t got = read(from.fd(), part.data(), part.size());
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) text.append(part.data(), static_cast<size_t>(got));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty()) {
    return BadLstopo("it is damaged: libhwloc fails when it reads it");
  }
  if (text.front() == kRead) return text.substr(1);
  const size_t end = std::min(text.find('\0'), text.size());
  return Error{ErrorCode::kInvalidArgument, text.substr(1, end - 1),
               text.substr(std::min(end + 1, text.size()))};
}

}  // namespace alignd::cli
