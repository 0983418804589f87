// The page in front of several callers at once.
#include "picture/live_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <vector>

#include "core/machine_builder.h"

namespace alignd::picture {
namespace {

// A page whose every computation waits until it may end. Each caller is a thread.
class SlowPageTest : public ::testing::Test {
 protected:
  using Texts = std::shared_ptr<const LivePage::Texts>;
  static constexpr std::chrono::milliseconds kAtOnce{0};

  std::shared_ptr<LivePage> PageOf(std::chrono::milliseconds first_within) {
    return std::make_shared<LivePage>(
        PageSources{.machine = machine_,
                    .parts = [] { return host::MachineParts(); },
                    .status =
                        [this] {
                          begun_.release();
                          may_end_.acquire();
                          if (fails_) throw std::runtime_error("no memory");
                          control::v1::GetStatusResponse status;
                          status.set_generation(static_cast<uint64_t>(++asked_));
                          return status;
                        }},
        PageTimes{.reuse = kAtOnce, .first_within = first_within});
  }
  static std::future<Texts> Call(const std::shared_ptr<LivePage>& page) {
    return std::async(std::launch::async, [page] { return page->Newest(); });
  }

  const Machine machine_ = MakeMachine("socket:1 numa:2 core:4 thread:1");
  int asked_ = 0;
  std::counting_semaphore<> begun_{0};
  std::counting_semaphore<> may_end_{0};
  std::atomic<bool> fails_ = false;
};

TEST_F(SlowPageTest, OthersGetTheOldTextsWhileOneThreadComputes) {
  const auto page = PageOf(std::chrono::minutes(1));
  may_end_.release();
  const Texts old = page->Newest();
  begun_.acquire();
  std::future<Texts> computing = Call(page);
  begun_.acquire();
  std::vector<std::future<Texts>> others;
  for (int i = 0; i < 3; ++i) others.push_back(Call(page));
  // Their threads are free again before the computation ends.
  for (auto& other : others) {
    EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  may_end_.release(4);
  for (auto& other : others) EXPECT_EQ(other.get(), old);
  EXPECT_NE(computing.get(), old);
  EXPECT_EQ(asked_, 2);
}

TEST_F(SlowPageTest, OthersWaitForTheFirstTextsButNotForLong) {
  const auto patient = PageOf(std::chrono::minutes(1));
  std::future<Texts> computing = Call(patient);
  begun_.acquire();
  std::future<Texts> waiting = Call(patient);
  may_end_.release(2);
  EXPECT_NE(computing.get(), nullptr);
  EXPECT_NE(waiting.get(), nullptr);
  const auto hasty = PageOf(kAtOnce);
  while (begun_.try_acquire()) {
  }
  while (may_end_.try_acquire()) {
  }
  computing = Call(hasty);
  begun_.acquire();
  std::future<Texts> refused = Call(hasty);
  EXPECT_EQ(refused.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  may_end_.release(2);
  EXPECT_EQ(refused.get(), nullptr);
  EXPECT_NE(computing.get(), nullptr);
}

TEST_F(SlowPageTest, AComputationThatFailsIsRepeated) {
  const auto page = PageOf(std::chrono::minutes(1));
  may_end_.release(2);
  fails_ = true;
  EXPECT_THROW(page->Newest(), std::runtime_error);
  fails_ = false;
  EXPECT_NE(page->Newest(), nullptr);
  EXPECT_EQ(asked_, 1);
}

}  // namespace
}  // namespace alignd::picture
