// A start on a disk that fails: it says so at once, and loses nothing.
#include "daemon/saved_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "daemon/managed_node.h"
#include "edge/fake_tree.h"
#include "edge/faulty_file.h"
#include "host/file.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using testing::FaultyFile;

constexpr char kNode[] = R"({"cpus":[[0,0,0,0,0],[1,1,0,0,0],[2,2,0,0,0],[3,3,0,0,0]],)"
                         R"("numa":[{"id":0,"memory":1073741824,"distances":[10]}]})";

// A disk on which no file with this name in its path can be made.
class OneFull final : public host::FileCalls {
 public:
  explicit OneFull(std::string file) : file_(std::move(file)) {}
  int Open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) == 0 || std::string(path).find(file_) == std::string::npos) {
      return FileCalls::Open(path, flags, mode);
    }
    errno = ENOSPC;
    return -1;
  }

 private:
  const std::string file_;
};

class SavedStateTest : public ::testing::Test {
 protected:
  SavedStateTest() {
    tree_.Write({"node.json", kNode});
    tree_.Write({"config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"});
    tree_.Write({"root/proc/sys/kernel/random/boot_id", "boot\n"});
    options_.node = tree_.root() / "node.json";
    options_.config = tree_.root() / "config.yaml";
    options_.root = tree_.root() / "root";
    options_.state_dir = tree_.root() / "state";
    Result<admission::Node> node = MakeNode(options_);
    EXPECT_TRUE(node.ok()) << node.error().Text();
    node_.emplace(*std::move(node));
  }

  // A state with a container, saved by an earlier start.
  void SaveState() {
    std::optional<SavedState> saved = Load(disk_);
    ASSERT_TRUE(saved);
    Assign("2", saved->state);
    const Result<Done> done = saved->store->Save(*node_, saved->state);
    ASSERT_TRUE(done.ok()) << done.error().Text();
  }
  static void Assign(const std::string& cpus, admission::NodeState& state) {
    state.cpu.assignments["pod " + cpus]["app"] = *CpuSet::Parse(cpus);
    state.cpu.default_set -= *CpuSet::Parse(cpus);
  }

  std::optional<SavedState> Load(FaultyFile& disk) {
    problems_.clear();
    allocation::StateFindings findings;
    return LoadState(options_, *node_, problems_, findings, disk);
  }
  std::string TextOf(const fs::path& file) const {
    return host::ReadFile(options_.state_dir / file).value();
  }

  const testing::FakeTree tree_;
  Options options_;
  std::optional<admission::Node> node_;
  std::vector<StartProblem> problems_;
  FaultyFile disk_;
};

TEST_F(SavedStateTest, AStartThatCanWriteReportsNothing) {
  SaveState();
  const std::string before = TextOf("cpu_manager_state");
  std::optional<SavedState> saved = Load(disk_);
  ASSERT_TRUE(saved);
  EXPECT_FALSE(saved->unsaved) << saved->unsaved->Text();
  EXPECT_FALSE(saved->store->IsUncertain());
  EXPECT_TRUE(saved->store->FindForeignFiles().empty());
  EXPECT_EQ(TextOf("cpu_manager_state"), before);
}

// Whichever call of the start fails.
TEST_F(SavedStateTest, AStartThatCannotWriteSaysSoAndTheNextSaveWrites) {
  SaveState();
  const std::string cpus = TextOf("cpu_manager_state");
  const std::string devices = TextOf("device-plugins/kubelet_internal_checkpoint");
  const int before = disk_.calls();
  ASSERT_TRUE(Load(disk_));
  const int calls = disk_.calls() - before;
  int reported = 0;
  for (int call = 0; call < calls; ++call) {
    SCOPED_TRACE(call);
    FaultyFile full;
    full.FailAt(call, ENOSPC);
    std::optional<SavedState> saved = Load(full);
    ASSERT_TRUE(full.failed());
    EXPECT_EQ(TextOf("cpu_manager_state"), cpus);
    EXPECT_EQ(TextOf("device-plugins/kubelet_internal_checkpoint"), devices);
    if (!saved) {
      EXPECT_FALSE(problems_.empty());
      continue;
    }
    EXPECT_TRUE(problems_.empty());
    EXPECT_TRUE(saved->state.cpu.assignments.contains("pod 2"));
    if (!saved->unsaved) {
      EXPECT_FALSE(saved->store->IsUncertain());
      continue;
    }
    ++reported;
    EXPECT_NE(saved->unsaved->message.find("No space left on device"), std::string::npos)
        << saved->unsaved->message;
    EXPECT_FALSE(saved->unsaved->remedy.empty());
    EXPECT_TRUE(saved->store->IsUncertain());
    EXPECT_TRUE(saved->store->FindForeignFiles().empty());
    const Result<Done> again = saved->store->Save(*node_, saved->state);
    EXPECT_TRUE(again.ok()) << again.error().Text();
    EXPECT_FALSE(saved->store->IsUncertain());
    EXPECT_EQ(TextOf("cpu_manager_state"), cpus);
  }
  // Both files: each is made, written, synced, closed and renamed, and its directory synced.
  EXPECT_GE(reported, 12);
}

TEST_F(SavedStateTest, OnADiskThatStaysFullEachFileSystemIsFound) {
  SaveState();
  // The files of the two directories, one after the other.
  for (const std::string file : {"cpu_manager_state", "kubelet_internal_checkpoint"}) {
    OneFull disk(file);
    problems_.clear();
    allocation::StateFindings findings;
    const auto saved = LoadState(options_, *node_, problems_, findings, disk);
    ASSERT_TRUE(saved) << file;
    ASSERT_TRUE(saved->unsaved) << file;
    EXPECT_NE(saved->unsaved->message.find(file), std::string::npos) << saved->unsaved->message;
  }
}

}  // namespace
}  // namespace alignd::daemon
