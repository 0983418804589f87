// An API server in the process: answers are given one after the other.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/api_client.h"
#include "sync/mutex.h"

namespace alignd::extender {

// What one call gets: a status, and the parts of the body; then the end, or a broken connection.
struct GivenAnswer {
  int status = 200;
  std::vector<std::string> parts = {};
  bool breaks = false;
  std::optional<std::chrono::seconds> retry_after = {};
};

// Shared by the readers of one test. Thread-safe.
class GivenAnswers {
 public:
  void Add(GivenAnswer answer) {
    const MutexLock lock(mutex_);
    answers_.push_back(std::move(answer));
  }
  // Without an answer, a call is a connection that breaks off.
  GivenAnswer Take(const std::string& path) {
    const MutexLock lock(mutex_);
    paths_.push_back(path);
    if (answers_.empty()) return {.breaks = true};
    GivenAnswer answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }
  std::vector<std::string> paths() const {
    const MutexLock lock(mutex_);
    return paths_;
  }

 private:
  mutable Mutex mutex_;
  std::deque<GivenAnswer> answers_ GUARDED_BY(mutex_);
  std::vector<std::string> paths_ GUARDED_BY(mutex_);
};

class FakeReader final : public apiserver::ApiReader {
 public:
  explicit FakeReader(std::shared_ptr<GivenAnswers> answers) : answers_(std::move(answers)) {}

  Result<apiserver::ApiAnswer> Get(const std::string& path, const Receive& receive) override {
    const GivenAnswer given = answers_->Take(path);
    apiserver::ApiAnswer answer{.status = given.status, .retry_after = given.retry_after};
    for (const std::string& part : given.parts) {
      if (given.status != 200) {
        answer.body += part;
      } else if (!receive(part)) {
        return answer;
      }
    }
    if (given.breaks) {
      return Error{ErrorCode::kUnavailable, "the connection broke off", "try again"};
    }
    return answer;
  }
  void Stop() override {}

 private:
  const std::shared_ptr<GivenAnswers> answers_;
};

}  // namespace alignd::extender
