#include "host/file_watch.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/no_descriptors.h"
#include "sync/mutex.h"

namespace alignd::host {
namespace {

using Keys = std::set<std::string>;
using Change = FileWatch::Change;

class FileWatchTest : public ::testing::Test {
 protected:
  FileWatchTest() {
    for (const char* file : {"a", "b", "c"}) tree_.Write({file, "0\n"});
    loop_->Start();
    Make();
  }
  ~FileWatchTest() override { loop_->Stop(); }

  void Make() {
    watch_ = std::make_unique<FileWatch>(loop_, [this](const Change& change) {
      const MutexLock lock(mutex_);
      changes_.push_back(change);
      if (on_change_) on_change_();
    });
  }
  Result<Done> Add(const std::string& key, const std::string& file) {
    return watch_->Add(key, tree_.root() / file, IN_MODIFY);
  }
  std::vector<Change> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(changes_, {});
  }
  // The keys that are reported until all of `expected` are.
  Keys Wait(const Keys& expected) {
    Keys keys;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!std::ranges::includes(keys, expected) && std::chrono::steady_clock::now() < deadline) {
      for (const Change& change : Take()) keys.insert(change.key);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return keys;
  }
  // Reported after everything that happened before.
  Keys Now() {
    EXPECT_TRUE(Add("last", "c").ok());
    tree_.Write({"c", "9\n"});
    Keys keys = Wait({"last"});
    keys.erase("last");
    watch_->Remove("last");
    return keys;
  }

  const testing::FakeTree tree_;
  const std::shared_ptr<EventLoop> loop_ = *EventLoop::Make();
  Mutex mutex_;
  std::vector<Change> changes_ GUARDED_BY(mutex_);
  std::function<void()> on_change_ GUARDED_BY(mutex_);
  std::unique_ptr<FileWatch> watch_;
};

TEST_F(FileWatchTest, ReportsTheKeysOfChangedFiles) {
  ASSERT_TRUE(Add("one", "a").ok());
  ASSERT_TRUE(Add("one", "b").ok());
  ASSERT_TRUE(Add("two", "c").ok());
  tree_.Write({"b", "1\n"});
  EXPECT_EQ(Wait({"one"}), Keys{"one"});
  tree_.Write({"a", "1\n"});
  tree_.Write({"c", "1\n"});
  EXPECT_EQ(Wait({"one", "two"}), (Keys{"one", "two"}));
  Now();  // a write is two changes; the second one is reported before "c" and "two" are removed
  ASSERT_TRUE(Add("two", "c").ok());
  watch_->Remove("two");
  watch_->Remove("one");
  tree_.Write({"a", "2\n"});
  EXPECT_EQ(Now(), Keys());
}

TEST_F(FileWatchTest, MissingFileIsNotFound) {
  const Result<Done> added = Add("one", "missing");
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kNotFound);
}

// A runtime needs many instances. Those of the user may all be in use when alignd starts.
TEST_F(FileWatchTest, InstanceIsMadeWhenOneIsAvailable) {
  if (!testing::kCanLackDescriptors) GTEST_SKIP() << "the sanitizer needs file descriptors";
  const std::unique_ptr<FileWatch> before = std::move(watch_);  // its descriptor stays in use
  {
    const testing::NoDescriptors limited;
    Make();
    const Result<Done> added = Add("one", "a");
    ASSERT_FALSE(added.ok());
    EXPECT_EQ(added.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(added.error().remedy, "increase the sysctl fs.inotify.max_user_instances");
    watch_->Remove("one");
  }
  ASSERT_TRUE(Add("one", "a").ok());
  tree_.Write({"a", "1\n"});
  EXPECT_EQ(Wait({"one"}), Keys{"one"});
}

TEST_F(FileWatchTest, FileMayBeReplaced) {
  ASSERT_TRUE(Add("one", "a").ok());
  std::filesystem::remove(tree_.root() / "a");
  EXPECT_EQ(Wait({"one"}), Keys{"one"});
  tree_.Write({"a", "1\n"});
  ASSERT_TRUE(Add("one", "a").ok());
  tree_.Write({"a", "2\n"});
  EXPECT_EQ(Wait({"one"}), Keys{"one"});
}

TEST_F(FileWatchTest, ReportsTheNamesOfEntriesInADirectory) {
  ASSERT_TRUE(watch_->Add("dir", tree_.root(), IN_CREATE | IN_DELETE).ok());
  tree_.Write({"new", "1\n"});
  std::filesystem::remove(tree_.root() / "new");
  std::vector<Change> changes;
  while (changes.size() < 2) {
    for (Change& change : Take()) changes.push_back(std::move(change));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(changes[0].name, "new");
  EXPECT_EQ(changes[0].events, static_cast<uint32_t>(IN_CREATE));
  EXPECT_EQ(changes[1].name, "new");
  EXPECT_EQ(changes[1].events, static_cast<uint32_t>(IN_DELETE));
}

TEST_F(FileWatchTest, NoCallbackFollowsTheDestructor) {
  ASSERT_TRUE(Add("one", "a").ok());
  for (int i = 0; i < 50; ++i) {
    std::thread writer([this] { tree_.Write({"a", "1\n"}); });
    watch_.reset();
    Take();
    writer.join();
    EXPECT_TRUE(Take().empty());
    Make();
    ASSERT_TRUE(Add("one", "a").ok());
  }
}

TEST_F(FileWatchTest, MayBeDestroyedByItsCallback) {
  ASSERT_TRUE(Add("one", "a").ok());
  ASSERT_TRUE(Add("two", "b").ok());
  {
    const MutexLock lock(mutex_);
    on_change_ = [this] { watch_.reset(); };
  }
  tree_.Write({"a", "1\n"});
  EXPECT_EQ(Wait({"one"}), Keys{"one"});
  tree_.Write({"b", "1\n"});
  loop_->Stop();
  EXPECT_TRUE(Take().empty());
}

TEST_F(FileWatchTest, OutlivesItsStoppedLoop) {
  ASSERT_TRUE(Add("one", "a").ok());
  loop_->Stop();
  tree_.Write({"a", "1\n"});
  watch_.reset();
  EXPECT_TRUE(Take().empty());
}

}  // namespace
}  // namespace alignd::host
