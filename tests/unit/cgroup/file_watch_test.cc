#include "cgroup/file_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "edge/fake_tree.h"

namespace alignd::cgroup {
namespace {

using Keys = std::set<std::string>;

class FileWatchTest : public ::testing::Test {
 protected:
  FileWatchTest() {
    for (const char* file : {"a", "b", "c"}) tree_.Write({file, "0\n"});
  }
  Keys Wait(std::chrono::milliseconds patience) {
    return watch_.Wait(FileWatch::Clock::now() + patience);
  }

  const testing::FakeTree tree_;
  FileWatch watch_;
};

constexpr std::chrono::milliseconds kNow{0};
constexpr std::chrono::seconds kPatience{30};

TEST_F(FileWatchTest, TellsTheKeysOfFilesThatWereWrittenTo) {
  ASSERT_TRUE(watch_.Add("one", {tree_.root() / "a", tree_.root() / "b"}).ok());
  ASSERT_TRUE(watch_.Add("two", {tree_.root() / "c"}).ok());
  EXPECT_EQ(Wait(kNow), Keys());
  tree_.Write({"b", "1\n"});
  EXPECT_EQ(Wait(kPatience), Keys{"one"});
  tree_.Write({"a", "1\n"});
  tree_.Write({"c", "1\n"});
  EXPECT_EQ(Wait(kPatience), (Keys{"one", "two"}));
  watch_.Remove("one");
  Wait(kNow);  // of the removal itself
  tree_.Write({"a", "2\n"});
  EXPECT_EQ(Wait(kNow), Keys());
}

TEST_F(FileWatchTest, FileThatIsNotThereIsNotWatched) {
  const Result<Done> added = watch_.Add("one", {tree_.root() / "a", tree_.root() / "missing"});
  ASSERT_FALSE(added.ok());
  EXPECT_EQ(added.error().code, ErrorCode::kNotFound);
  Wait(kNow);
  tree_.Write({"a", "1\n"});
  EXPECT_EQ(Wait(kNow), Keys());
}

TEST_F(FileWatchTest, FileMayGoAndAnotherComeInItsPlace) {
  ASSERT_TRUE(watch_.Add("one", {tree_.root() / "a"}).ok());
  std::filesystem::remove(tree_.root() / "a");
  EXPECT_EQ(Wait(kPatience), Keys{"one"});
  tree_.Write({"a", "1\n"});
  ASSERT_TRUE(watch_.Add("one", {tree_.root() / "a"}).ok());
  tree_.Write({"a", "2\n"});
  EXPECT_EQ(Wait(kPatience), Keys{"one"});
}

TEST_F(FileWatchTest, WakesUp) {
  std::thread waker([this] { watch_.Wake(); });
  EXPECT_EQ(Wait(kPatience), Keys());
  waker.join();
}

}  // namespace
}  // namespace alignd::cgroup
