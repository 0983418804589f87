#include "host/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace alignd::host {
namespace {

using std::chrono::milliseconds;

class Reader final : public EventLoop::Watcher {
 public:
  explicit Reader(std::function<void(uint32_t)> on_ready) : on_ready_(std::move(on_ready)) {}
  void OnReady(uint32_t events) override { on_ready_(events); }

 private:
  const std::function<void(uint32_t)> on_ready_;
};

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() {
    loop_->Start();
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    ours_ = Descriptor(ends[0]);
    theirs_ = Descriptor(ends[1]);
  }
  ~EventLoopTest() override { loop_->Stop(); }

  // Runs it on the loop's thread, and waits.
  void OnLoop(const std::function<void()>& task) {
    std::promise<void> ran;
    loop_->Post([&] {
      task();
      ran.set_value();
    });
    ran.get_future().get();
  }

  const std::shared_ptr<EventLoop> loop_ = *EventLoop::Make();
  Descriptor ours_;
  Descriptor theirs_;
};

TEST_F(EventLoopTest, RunsTasksInTheOrderOfTheirPostingOnItsThread) {
  std::vector<int> order;
  bool on_thread = true;
  for (int i = 0; i < 100; ++i) {
    loop_->Post([&, i] {
      order.push_back(i);
      on_thread = on_thread && loop_->OnThisThread();
    });
  }
  OnLoop([] {});
  EXPECT_FALSE(loop_->OnThisThread());
  EXPECT_TRUE(on_thread);
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(EventLoopTest, CallsTheWatcherUntilUnwatch) {
  int calls = 0;
  std::promise<uint32_t> ready;
  Reader reader([&](uint32_t events) {
    char byte = 0;
    EXPECT_EQ(read(ours_.fd(), &byte, 1), 1);
    if (++calls == 1) ready.set_value(events);
  });
  OnLoop([&] { ASSERT_TRUE(loop_->Watch(ours_.fd(), EPOLLIN, reader).ok()); });
  ASSERT_EQ(write(theirs_.fd(), "a", 1), 1);
  EXPECT_EQ(ready.get_future().get(), static_cast<uint32_t>(EPOLLIN));
  OnLoop([&] { loop_->Unwatch(ours_.fd()); });
  ASSERT_EQ(write(theirs_.fd(), "b", 1), 1);
  OnLoop([] {});
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, RunsDelayedTasksInTheOrderOfTheirTimes) {
  std::string order;
  std::promise<void> all;
  const auto began = EventLoop::Clock::now();
  OnLoop([&] {
    loop_->After(milliseconds(40), [&] {
      order += "b";
      all.set_value();
    });
    loop_->After(milliseconds(10), [&] { order += "a"; });
  });
  all.get_future().get();
  EXPECT_EQ(order, "ab");
  EXPECT_GE(EventLoop::Clock::now() - began, milliseconds(40));
}

TEST_F(EventLoopTest, EndOfRoundComesAfterAllPostedTasksOfTheRound) {
  std::string order;
  OnLoop([&] {
    loop_->Post([&] { order += "next round "; });
    loop_->AtEndOfRound([&] {
      order += "end ";
      loop_->AtEndOfRound([&] { order += "added "; });
    });
    order += "task ";
  });
  OnLoop([] {});
  EXPECT_EQ(order, "task end added next round ");
}

// It ends the program in every build.
TEST_F(EventLoopTest, IsChangedOnItsOwnThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* const kEnd = "not on the thread of event loop events";
  Reader reader([](uint32_t) {});
  EXPECT_DEATH((void)loop_->Watch(ours_.fd(), EPOLLIN, reader), kEnd);
  EXPECT_DEATH(loop_->Change(ours_.fd(), EPOLLIN), kEnd);
  EXPECT_DEATH(loop_->Unwatch(ours_.fd()), kEnd);
  EXPECT_DEATH(loop_->After(milliseconds(1), [] {}), kEnd);
  EXPECT_DEATH(loop_->AtEndOfRound([] {}), kEnd);
  EXPECT_DEATH(loop_->Cancel({}), kEnd);
  loop_->Stop();
  loop_->After(milliseconds(1), [] {});  // no thread runs
}

TEST_F(EventLoopTest, TasksAfterStopAreDropped) {
  bool ran = false;
  loop_->Stop();
  loop_->Post([&] { ran = true; });
  EXPECT_FALSE(ran);
}

TEST_F(EventLoopTest, CancelFreesTheTaskAndNoOther) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = owner;
  std::promise<void> other;
  OnLoop([&] {
    const EventLoop::Timer cancelled =
        loop_->After(milliseconds(5), [owner = std::move(owner)] { ADD_FAILURE(); });
    loop_->After(milliseconds(10), [&] { other.set_value(); });
    loop_->Cancel(cancelled);
  });
  EXPECT_TRUE(alive.expired());
  other.get_future().get();
}

TEST_F(EventLoopTest, StopFreesWhatIsNotDue) {
  auto owner = std::make_shared<int>(0);
  const std::weak_ptr<int> alive = owner;
  OnLoop([&] { loop_->After(std::chrono::hours(1), [owner = std::move(owner)] {}); });
  ASSERT_FALSE(alive.expired());
  loop_->Stop();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace alignd::host
