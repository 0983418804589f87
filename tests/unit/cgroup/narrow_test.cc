// Narrowing a cgroup, on files that behave as the kernel's.
#include "cgroup/narrow.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "cgroup/cgroup_tree.h"
#include "edge/fake_tree.h"
#include "edge/process.h"

namespace alignd::cgroup {
namespace {

constexpr char kEnded[] = "4194305\n";  // no thread has this id: the kernel's largest is 2^22

// This thread on its first CPU alone, as long as the object lives.
class PinnedThread {
 public:
  PinnedThread() {
    EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
    while (!CPU_ISSET(cpu_, &before_)) ++cpu_;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  }
  PinnedThread(const PinnedThread&) = delete;
  PinnedThread& operator=(const PinnedThread&) = delete;
  ~PinnedThread() { EXPECT_EQ(sched_setaffinity(0, sizeof before_, &before_), 0); }

  size_t cpu() const { return cpu_; }

 private:
  cpu_set_t before_{};
  size_t cpu_ = 0;
};

class NarrowTest : public ::testing::TestWithParam<bool> {
 protected:
  NarrowTest() {
    if (GetParam()) tree_.Write({"cgroup.controllers", "cpuset cpu\n"});
    Fill("pod/c", kEnded);
  }

  std::filesystem::path Directory(const std::string& path) const {
    return tree_.root() / (GetParam() ? "" : "cpuset") / path;
  }
  std::filesystem::path Effective(const std::string& path) const {
    return Directory(path) / (GetParam() ? "cpuset.cpus.effective" : "cpuset.effective_cpus");
  }
  // The kernel applies what is written: both names lead to one file.
  void Fill(const std::string& path, const std::string& threads) const {
    const std::filesystem::path directory = Directory(path);
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "cpuset.cpus") << "0-7\n";
    std::filesystem::create_hard_link(directory / "cpuset.cpus", Effective(path));
    std::ofstream(directory / "cpuset.mems") << "0\n";
    std::ofstream(directory / (GetParam() ? "cpuset.mems.effective" : "cpuset.effective_mems"))
        << "0\n";
    SetThreads(path, threads);
  }
  void SetThreads(const std::string& path, const std::string& threads) const {
    std::ofstream(Directory(path) / (GetParam() ? "cgroup.threads" : "tasks")) << threads;
  }
  // The CPUs that are applied then.
  Result<CpuSet> NarrowTo(const char* cpus) const {
    Result<CpusetCgroup> cgroup = CgroupTree(tree_.root()).OpenCpuset("/pod/c");
    if (!cgroup.ok()) return cgroup.error();
    const Result<Narrowing> narrowing = Narrowing::Write(
        std::make_shared<const CpusetCgroup>(*std::move(cgroup)), "/pod/c", *CpuSet::Parse(cpus));
    return narrowing.ok() ? narrowing->Prove() : narrowing.error();
  }
  ErrorCode Fault(const char* cpus) const {
    const Result<CpuSet> narrowed = NarrowTo(cpus);
    EXPECT_FALSE(narrowed.ok());
    return narrowed.ok() ? ErrorCode::kInternal : narrowed.error().code;
  }

  const testing::FakeTree tree_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, NarrowTest, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(NarrowTest, WritesTheSet) {
  const Result<CpuSet> narrowed = NarrowTo("0,4-7");
  ASSERT_TRUE(narrowed.ok()) << narrowed.error().Text();
  EXPECT_EQ(narrowed->ToString(), "0,4-7");
  EXPECT_EQ(testing::ReadText(Directory("pod/c") / "cpuset.cpus").substr(0, 5), "0,4-7");
}

TEST_P(NarrowTest, MissingCgroupIsAnError) {
  std::filesystem::remove_all(Directory("pod/c"));
  EXPECT_EQ(Fault("0"), ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(Directory("pod/c")));
}

// For example of a virtual machine, whose processes are elsewhere; or the container has ended.
TEST_P(NarrowTest, CgroupWithoutThreadsProvesNothing) {
  SetThreads("pod/c", "");
  EXPECT_EQ(Fault("0"), ErrorCode::kNotFound);
}

TEST_P(NarrowTest, SetThatTheKernelDoesNotApplyIsAnError) {
  std::filesystem::remove(Effective("pod/c"));
  for (const char* const applied : {"0-7\n", "\n"}) {
    std::ofstream(Effective("pod/c")) << applied;
    EXPECT_EQ(Fault("0-3"), ErrorCode::kIo) << applied;
  }
  std::ofstream(Effective("pod/c")) << "2\n";  // a parent is narrower
  const Result<CpuSet> narrowed = NarrowTo("0-3");
  ASSERT_TRUE(narrowed.ok()) << narrowed.error().Text();
  EXPECT_EQ(narrowed->ToString(), "2");
}

TEST_P(NarrowTest, FileThatCannotBeWrittenIsAnError) {
  std::filesystem::remove(Effective("pod/c"));
  std::ofstream(Effective("pod/c")) << "0-3\n";
  std::filesystem::remove(Directory("pod/c") / "cpuset.cpus");
  std::filesystem::create_symlink("/dev/null", Directory("pod/c") / "cpuset.cpus");
  EXPECT_EQ(Fault("0-3"), ErrorCode::kIo);
}

// This thread is in no such cgroup, so the kernel has not moved it.
TEST_P(NarrowTest, ThreadOnOtherCpusIsAnError) {
  const PinnedThread pinned;
  const size_t own = pinned.cpu();
  SetThreads("pod/c", kEnded + std::to_string(gettid()) + "\n");
  EXPECT_TRUE(NarrowTo(std::to_string(own).c_str()).ok());
  EXPECT_EQ(Fault(std::to_string(own + 1).c_str()), ErrorCode::kIo);

  SetThreads("pod/c", kEnded);
  Fill("pod/c/nested", std::to_string(gettid()) + "\n");
  EXPECT_TRUE(NarrowTo(std::to_string(own).c_str()).ok());
  EXPECT_EQ(Fault(std::to_string(own + 1).c_str()), ErrorCode::kIo);
}

TEST_P(NarrowTest, UnreadableThreadsAreAnError) {
  for (const char* const threads : {"12\nx\n", "0\n", "-1\n", "4294967297\n"}) {
    SetThreads("pod/c", threads);
    EXPECT_EQ(Fault("0"), ErrorCode::kCorrupt) << threads;
  }
}

}  // namespace
}  // namespace alignd::cgroup
