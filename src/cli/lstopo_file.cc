#include "cli/lstopo_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
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

// How the reading process ends, beside 0. Else, libhwloc has failed.
constexpr int kNotPrepared = 3;
constexpr int kOutOfMemory = 4;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALIGND_HAS_SHADOW_MEMORY 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ALIGND_HAS_SHADOW_MEMORY 1
#endif
#endif

// A fault after an allocation that has failed is one of the limit.
void EndByFault(int) { _exit(errno == ENOMEM ? kOutOfMemory : EXIT_FAILURE); }

// False: the limit cannot be set.
bool LimitMemory(uint64_t more_bytes) {
#ifdef ALIGND_HAS_SHADOW_MEMORY
  (void)more_bytes;  // terabytes of addresses are taken already
  return true;
#else
  const host::Descriptor file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (read(file.fd(), text.data(), text.size() - 1) <= 0) return false;
  const uint64_t pages = std::strtoull(text.data(), nullptr, 10);
  const uint64_t present = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  rlimit memory{};
  if (pages == 0 || getrlimit(RLIMIT_AS, &memory) != 0) return false;
  memory.rlim_cur = std::min<rlim_t>(present + more_bytes, memory.rlim_max);
  return setrlimit(RLIMIT_AS, &memory) == 0;
#endif
}

// Leaves only the pipe, and standard streams that are /dev/null. Returns the pipe; -1: failed.
int KeepOnlyPipe(int pipe) {
  const int kept = fcntl(pipe, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (kept < 0 || null < 0) return -1;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (dup2(null, standard) < 0) return -1;
  }
  const auto first = static_cast<unsigned>(STDERR_FILENO + 1);
  const auto own = static_cast<unsigned>(kept);
  if (own > first && close_range(first, own - 1, 0) != 0) return -1;
  return close_range(own + 1, ~0U, 0) == 0 ? kept : -1;
}

// Of the process itself: it ends with its parent, whatever it does, and has nothing of it.
int PrepareChild(int pipe, pid_t parent, const LstopoLimits& limits) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) return -1;
  for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) signal(fault, EndByFault);
  for (const int end : {SIGTERM, SIGINT, SIGALRM, SIGXCPU}) signal(end, SIG_DFL);
  sigset_t none{};
  sigemptyset(&none);
  if (sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return -1;
  alarm(limits.seconds);
  rlimit time{};
  if (getrlimit(RLIMIT_CPU, &time) != 0) return -1;
  time.rlim_max = std::min<rlim_t>(time.rlim_max, limits.cpu_seconds + 1);
  time.rlim_cur = std::min<rlim_t>(time.rlim_max, limits.cpu_seconds);
  const rlimit core{0, 0};
  if (setrlimit(RLIMIT_CPU, &time) != 0 || setrlimit(RLIMIT_CORE, &core) != 0) return -1;
  return LimitMemory(limits.bytes) ? KeepOnlyPipe(pipe) : -1;
}

[[noreturn]] void ReadInChild(const std::string& xml, int pipe, pid_t parent,
                              const LstopoLimits& limits) {
  pipe = PrepareChild(pipe, parent, limits);
  if (pipe < 0) _exit(kNotPrepared);
  // No plugin of hwloc, and no file that a variable names.
  std::vector<std::string> names;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view name = *variable;
    if (name.starts_with("HWLOC_")) names.emplace_back(name.substr(0, name.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  setenv("HWLOC_PLUGINS_PATH", "/dev/null", /*replace=*/1);
  setenv("HWLOC_LIBXML", "0", /*replace=*/1);

  errno = 0;
  const Result<Machine> read = MachineOfLstopo(xml);
  if (errno == ENOMEM) _exit(kOutOfMemory);  // what libhwloc then has may lack something
  std::string text(1, read.ok() ? kRead : kFault);
  text += read.ok() ? MachineToNodeJson(*read) : read.error().message + '\0' + read.error().remedy;
  for (size_t written = 0; written < text.size();) {
    const ssize_t more = write(pipe, text.data() + written, text.size() - written);
    if (more < 0 && errno != EINTR) _exit(EXIT_FAILURE);
    if (more > 0) written += static_cast<size_t>(more);
  }
  _exit(0);
}

// Why the process has ended without an answer.
Error WhyEnded(int status, const LstopoLimits& limits) {
  const auto exceeds = [](const std::string& limit) {
    return BadLstopo("reading it takes more than " + limit, kGiveOwnForm);
  };
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU) {
      return exceeds(std::to_string(limits.cpu_seconds) + " s of processor time");
    }
    if (signal == SIGALRM) return exceeds(std::to_string(limits.seconds) + " s");
    if (signal == SIGKILL || signal == SIGTERM || signal == SIGINT) {
      return BadLstopo(
          "the process that read it was ended from outside, by signal " + std::to_string(signal),
          "run the command again; see in the kernel's log whether memory is short");
    }
  } else if (WEXITSTATUS(status) == kOutOfMemory) {
    return exceeds(std::to_string(limits.bytes >> 20) + " MiB of memory");
  } else if (WEXITSTATUS(status) == kNotPrepared) {
    return BadLstopo("the process that reads it cannot be limited", kGiveOwnForm);
  }
  return BadLstopo("it is damaged: libhwloc fails when it reads it");
}

Error NotStarted(const char* what) {
  return {ErrorCode::kIo, std::string(what) + ": " + std::generic_category().message(errno),
          kGiveOwnForm};
}

// What the process writes. An error: the process is to be ended. Its limit of memory does not bind
// what it writes.
std::optional<Error> ReadAnswer(const host::Descriptor& from, const LstopoLimits& limits,
                                std::string& text) {
  std::array<pollfd, 2> waits = {pollfd{from.fd(), POLLIN, 0}, pollfd{limits.stop, POLLIN, 0}};
  std::array<char, 65'536> part;
  for (;;) {
    if (poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return NotStarted("poll");
    }
    if (waits[1].revents != 0) return BadLstopo("the reading was stopped", "start again");
    const ssize_t got = read(from.fd(), part.data(), part.size());
    if (got == 0 || (got < 0 && errno != EINTR)) return std::nullopt;
    if (got < 0) continue;
    text.append(part.data(), static_cast<size_t>(got));
    if (text.size() > limits.answer_bytes) {
      return BadLstopo("it is damaged: the machine that libhwloc reads takes more than " +
                           std::to_string(limits.answer_bytes) + " bytes",
                       kGiveOwnForm);
    }
  }
}

}  // namespace

bool IsXml(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '<';
}

bool IsLstopo(std::string_view text) {
  size_t at = text.find('<');
  // Before the root element: <?xml ...?>, <!DOCTYPE ...> and comments.
  while (at != std::string_view::npos) {
    const std::string_view element = text.substr(at);
    if (!element.starts_with("<?") && !element.starts_with("<!")) {
      constexpr std::string_view kRoot = "<topology";
      return element.starts_with(kRoot) && element.size() > kRoot.size() &&
             std::string_view(" \t\r\n>").find(element[kRoot.size()]) != std::string_view::npos;
    }
    const size_t end = text.find(element.starts_with("<!--") ? "-->" : ">", at);
    at = end == std::string_view::npos ? end : text.find('<', end);
  }
  return false;
}

Result<std::string> NodeJsonOfLstopo(const std::string& xml, const LstopoLimits& limits) {
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
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child < 0) return NotStarted("fork");
  if (child == 0) ReadInChild(xml, to.fd(), self, limits);
  to = host::Descriptor();
  std::string text;
  const std::optional<Error> ended = ReadAnswer(from, limits, text);
  if (ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (ended) return *ended;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty()) {
    return WhyEnded(status, limits);
  }
  if (text.front() == kRead) return text.substr(1);
  const size_t end = std::min(text.find('\0'), text.size());
  return Error{ErrorCode::kInvalidArgument, text.substr(1, end - 1),
               text.substr(std::min(end + 1, text.size()))};
}

}  // namespace alignd::cli
