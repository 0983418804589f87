#include "host/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <thread>

#include "host/descriptor.h"

namespace alignd::host {
namespace {

using Clock = std::chrono::steady_clock;

std::string TextOf(int number) { return std::generic_category().message(number); }

// Starts the program with its output in `write_end`. Gives errno.
int Spawn(const std::vector<std::string>& command, int write_end, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  if (const int fault = posix_spawn_file_actions_init(&actions); fault != 0) return fault;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, write_end, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int fault =
      posix_spawnp(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return fault;
}

// Until the output ends. False: the time is over, or the output cannot be read.
bool ReadAll(int fd, Clock::time_point until, size_t max_bytes, ProcessResult& result) {
  std::array<char, 65'536> buffer{};
  for (;;) {
    const auto remaining =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (remaining <= 0) return false;
    pollfd wait{fd, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min<int64_t>(remaining, 60'000)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return true;
    const size_t kept = std::min(static_cast<size_t>(size), max_bytes - result.output.size());
    result.output.append(buffer.data(), kept);
    result.is_cut = result.is_cut || kept < static_cast<size_t>(size);
  }
}

// Until the process ends; a program can close its output before. False: the time is over.
bool AwaitEnd(pid_t pid, Clock::time_point until, int& status) {
  constexpr std::chrono::milliseconds kPause{10};
  for (;;) {
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid) return true;
    if (ended < 0 && errno != EINTR) return false;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

Result<ProcessResult> RunProcess(const std::vector<std::string>& command,
                                 std::chrono::milliseconds timeout, size_t max_bytes) {
  const std::string& name = command.front();
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::kIo, "run " + name + ": " + TextOf(errno), "close other programs"};
  }
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  pid_t pid = 0;
  if (const int fault = Spawn(command, write_end.fd(), pid); fault != 0) {
    return Error{fault == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 "run " + name + ": " + TextOf(fault), "install the program"};
  }
  write_end = Descriptor();
  ProcessResult result;
  const Clock::time_point until = Clock::now() + timeout;
  int status = 0;
  const bool is_done =
      ReadAll(read_end.fd(), until, max_bytes, result) && AwaitEnd(pid, until, status);
  if (!is_done) {
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return Error{
        ErrorCode::kDeadlineExceeded,
        name + " has not ended after " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(timeout).count()) +
            " s",
        "run it by hand to see why"};
  }
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace alignd::host
