#include "reconcile/bypass.h"

#include <spdlog/spdlog.h>

#include <charconv>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::reconcile {
namespace {

using std::chrono::system_clock;

constexpr char kStaysOn[] = "the bypass stays on";

std::string UnixSeconds(system_clock::time_point time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch());
  return std::to_string(seconds.count());
}

Error Logged(Error error) {
  spdlog::error("{}", error.Text());
  return error;
}

}  // namespace

Result<std::unique_ptr<Bypass>> Bypass::Load(std::filesystem::path file,
                                             std::chrono::milliseconds calls_end) {
  const Result<std::string> text = host::ReadFile(file);
  std::unique_ptr<Bypass> bypass(new Bypass(std::move(file), calls_end));
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return bypass;
  if (!text.ok()) return text.error();
  // A file whose time cannot be read turns the bypass on, too.
  int64_t seconds = 0;
  (void)std::from_chars(text->data(), text->data() + text->size(), seconds);
  {
    const MutexLock switching(bypass->switching_);
    bypass->is_saved_ = true;
    const MutexLock lock(bypass->mutex_);
    bypass->since_ = seconds > 0 ? Time(std::chrono::seconds(seconds)) : system_clock::now();
  }
  bypass->state_ = State::kOn;
  return bypass;
}

std::optional<Bypass::Time> Bypass::since() const {
  const MutexLock lock(mutex_);
  return since_;
}

std::shared_ptr<const void> Bypass::BeginCall() const {
  ++*under_way_;
  return {under_way_.get(), [under_way = under_way_](const void*) { --*under_way; }};
}

Result<Done> Bypass::TurnOn() {
  const MutexLock switching(switching_);
  Time since;
  {
    const MutexLock lock(mutex_);
    if (!since_) since_ = system_clock::now();
    since = *since_;
  }
  state_ = State::kOn;
  Remind();
  if (is_saved_) return Done{};
  const Result<Done> written = host::ReplaceFile(file_, UnixSeconds(since) + "\n");
  is_saved_ = written.ok();
  if (written.ok()) return Done{};
  Error error = written.error().In("the bypass is on, but it ends when alignd restarts");
  error.remedy = "free space on the disk or make it writable, then run `alignctl bypass on` again";
  return Logged(std::move(error));
}

Result<Done> Bypass::TurnOff() {
  const MutexLock switching(switching_);
  if (state_ == State::kOff) return Done{};
  // While calls are still relayed: a runtime that does not answer delays no pod.
  Result<Done> ended = List();
  if (ended.ok()) ended = End();
  if (!ended.ok()) return Logged(ended.error().In(kStaysOn));
  conditions_->BypassEnded();
  return Done{};
}

Result<Done> Bypass::End() {
  state_ = State::kEnding;
  Result<Done> ended = AwaitCalls();
  if (ended.ok()) ended = List();
  if (ended.ok()) ended = RemoveSwitch();
  if (!ended.ok()) {
    state_ = State::kOn;
    return ended;
  }
  is_saved_ = false;
  {
    const MutexLock lock(mutex_);
    since_.reset();
  }
  state_ = State::kOff;
  return Done{};
}

Result<Done> Bypass::List() const {
  if (!list_ || list_()) return Done{};
  return Error{ErrorCode::kUnavailable, "the container runtime could not be listed",
               "start the runtime, or find in its log why it does not answer; then run `alignctl "
               "bypass off` again"};
}

Result<Done> Bypass::AwaitCalls() const {
  constexpr std::chrono::milliseconds kStep{5};
  const auto until = std::chrono::steady_clock::now() + calls_end_;
  while (*under_way_ > 0) {
    if (std::chrono::steady_clock::now() > until) {
      return Error{ErrorCode::kUnavailable,
                   "calls of RunPodSandbox or CreateContainer are still under way: " +
                       std::to_string(*under_way_),
                   "run `alignctl bypass off` again; if they do not end, restart the container "
                   "runtime"};
    }
    std::this_thread::sleep_for(kStep);
  }
  return Done{};
}

Result<Done> Bypass::RemoveSwitch() const {
  const Result<Done> removed = host::RemoveFile(file_);
  if (removed.ok()) return Done{};
  // A read-only file system refuses to remove a file that it does not have, too.
  std::error_code error;
  const auto status = std::filesystem::symlink_status(file_, error);
  if (status.type() == std::filesystem::file_type::not_found) return Done{};
  Error failed = removed.error();
  failed.remedy = "make the disk writable, then run `alignctl bypass off` again";
  return failed;
}

void Bypass::Remind() {
  const std::optional<Time> since = this->since();
  if (!since) return;
  conditions_->BypassIsOn(*since);
  if (!this->since()) conditions_->BypassEnded();  // it was turned off meanwhile
}

}  // namespace alignd::reconcile
