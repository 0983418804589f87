// A child process whose output goes to a file.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace alignd::testing {

// Polls until `condition` holds; false if it does not within `patience`.
template <typename Condition>
bool WaitUntil(Condition condition, std::chrono::milliseconds patience = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

inline std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Process {
 public:
  // Standard input is empty; output and errors replace what is in `log`. `listening`, if there is
  // one, is passed on as systemd passes a socket (sd_listen_fds(3)).
  Process(std::vector<std::string> command, std::filesystem::path log, int listening = -1)
      : log_(std::move(log)) {
    constexpr int kFirstPassed = 3;
    if (listening >= 0) {
      // exec keeps the shell's process id.
      const std::vector<std::string> prefix = {
          "env", "LISTEN_FDS=1", "LISTEN_FDNAMES=cri",
          "sh",  "-c",           "LISTEN_PID=$$ exec \"$0\" \"$@\""};
      command.insert(command.begin(), prefix.begin(), prefix.end());
    }
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const int out = open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in, STDIN_FILENO);
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      if (listening == kFirstPassed) {
        fcntl(listening, F_SETFD, 0);
      } else if (listening >= 0) {
        dup2(listening, kFirstPassed);
      }
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(in);
    close(out);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { Kill(SIGKILL); }

  // Sends the signal and waits for the end. Returns the wait status, or -1 if it had ended before.
  int Kill(int signal) {
    if (pid_ <= 0) return -1;
    int status = -1;
    kill(pid_, signal);
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

  // Whether it ended by itself; Kill still answers how.
  bool HasEnded() const {
    siginfo_t ended{};
    return pid_ > 0 &&
           waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == pid_;
  }

  pid_t pid() const { return pid_; }

  // Its resident memory; 0 if it is not known.
  long ResidentKb() const {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
    }
    return 0;
  }

  std::string Log() const { return ReadText(log_); }
  bool WaitForLog(const std::string& text) const {
    return WaitUntil([&] { return Log().find(text) != std::string::npos; });
  }

 private:
  const std::filesystem::path log_;
  pid_t pid_ = -1;
};

}  // namespace alignd::testing
