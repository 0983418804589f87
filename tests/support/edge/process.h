// A program of ours or another's, run as a child process whose output goes to a file.
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
  // Standard input is empty; output and errors replace what is in `log`.
  Process(const std::vector<std::string>& command, std::filesystem::path log)
      : log_(std::move(log)) {
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
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(in);
    close(out);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { Kill(SIGKILL); }

  // Sends the signal and waits for the end. Gives the wait status, or -1 if it had ended before.
  int Kill(int signal) {
    if (pid_ <= 0) return -1;
    int status = -1;
    kill(pid_, signal);
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
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
