#include "host/event_loop.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace alignd::host {
namespace {

constexpr int kMaxEvents = 32;
constexpr size_t kMaxThreadName = 15;  // pthread_setname_np refuses a longer one

Error ErrnoError(const char* what) {
  return Error{ErrorCode::kIo, std::generic_category().message(errno),
               "check alignd's LimitNOFILE= and the kernel's log"}
      .In(what);
}

epoll_event EventFor(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return event;
}

}  // namespace

Result<std::shared_ptr<EventLoop>> EventLoop::Make(std::string name) {
  Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  if (epoll.fd() < 0) return ErrnoError("epoll_create1");
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.fd() < 0) return ErrnoError("eventfd");
  epoll_event event = EventFor(wake.fd(), EPOLLIN);
  if (epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, wake.fd(), &event) != 0) return ErrnoError("epoll_ctl");
  return std::shared_ptr<EventLoop>(
      new EventLoop(std::move(name), std::move(epoll), std::move(wake)));
}

void EventLoop::AssertOnThisThread() const {
  if (OnThisThread() || !runs_) return;
  std::fprintf(stderr, "alignd: not on the thread of event loop %s\n", name_.c_str());
  std::abort();
}

void EventLoop::Start() {
  runs_ = true;
  thread_ = std::thread([this] { Run(); });
}

void EventLoop::Stop() {
  if (thread_.joinable()) {
    Post([this] { ended_ = true; });
    thread_.join();
    runs_ = false;
  }
  // Destroyed after the lock is released. Kept, a task that owns an owner of the loop would keep
  // both for ever.
  const auto timers = std::exchange(timers_, {});
  const auto at_end = std::exchange(at_end_, {});
  std::vector<std::function<void()>> dropped;
  const MutexLock lock(mutex_);
  stopped_ = true;
  dropped.swap(posted_);
}

void EventLoop::Post(std::function<void()> task) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return;
    first = posted_.empty();
    posted_.push_back(std::move(task));
  }
  // Cannot fail: the counter's maximum is far above the number of tasks that fit into memory.
  if (first) (void)eventfd_write(wake_.fd(), 1);
}

Result<Done> EventLoop::Watch(int fd, uint32_t events, Watcher& watcher) {
  AssertOnThisThread();
  epoll_event event = EventFor(fd, events);
  if (epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) != 0) return ErrnoError("epoll_ctl");
  watchers_[fd] = &watcher;
  return Done{};
}

void EventLoop::Change(int fd, uint32_t events) {
  AssertOnThisThread();
  epoll_event event = EventFor(fd, events);
  if (epoll_ctl(epoll_.fd(), EPOLL_CTL_MOD, fd, &event) != 0) {
    spdlog::error("watch a file descriptor: {}", std::generic_category().message(errno));
  }
}

void EventLoop::Unwatch(int fd) {
  AssertOnThisThread();
  epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, fd, nullptr);
  watchers_.erase(fd);
}

EventLoop::Timer EventLoop::After(Clock::duration delay, std::function<void()> task) {
  AssertOnThisThread();
  return timers_.emplace(Clock::now() + delay, std::move(task));
}

void EventLoop::Cancel(Timer timer) {
  AssertOnThisThread();
  const auto dropped = timers_.extract(timer);  // destroyed when the timers are as they stay
}

int EventLoop::MillisecondsToNext() const {
  if (timers_.empty()) return -1;
  const auto milliseconds =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(milliseconds, 0, 60'000));
}

void EventLoop::RunDue() {
  while (!timers_.empty() && timers_.begin()->first <= Clock::now()) {
    const std::function<void()> task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

void EventLoop::RunPosted() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (const std::function<void()>& task : tasks) task();
}

void EventLoop::Run() {
  thread_id_ = std::this_thread::get_id();
  // A missing name is only a nuisance in a debugger.
  (void)pthread_setname_np(pthread_self(), name_.substr(0, kMaxThreadName).c_str());
  std::array<epoll_event, kMaxEvents> ready;
  while (!ended_) {
    const int count = epoll_wait(epoll_.fd(), ready.data(), kMaxEvents, MillisecondsToNext());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[static_cast<size_t>(i)];
      if (event.data.fd == wake_.fd()) {
        eventfd_t wakes = 0;
        (void)eventfd_read(wake_.fd(), &wakes);
        RunPosted();
        continue;
      }
      // The descriptor may be closed by now, or its number be in use for another descriptor, whose
      // watcher then finds nothing to read.
      const auto watcher = watchers_.find(event.data.fd);
      if (watcher != watchers_.end()) watcher->second->OnReady(event.events);
    }
    RunDue();
    // A task may add another one, which runs in the same round.
    while (!at_end_.empty()) {
      for (const auto& task : std::exchange(at_end_, {})) task();
    }
  }
}

}  // namespace alignd::host
