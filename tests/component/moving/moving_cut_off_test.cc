// `alignctl state import`, `state export` and `handover`, as a process of its own, end at each of
// their calls that change a file. At each moment, either kubelet or alignd has the state files, or
// a record says how to restore them; and what docs/moving.md says to do afterwards leads to the end
// or back, with nothing lost and nothing owned twice. ALIGND_ITERATIONS: how many points of each
// operation are tried (a number above that of its calls: all).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/state_command.h"
#include "core/property_seed.h"
#include "cut_off/cut_off.h"
#include "daemon/change_undo.h"
#include "edge/process.h"
#include "edge/run_alignctl.h"
#include "host/descriptor.h"
#include "unit/moving/moving_node.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;

constexpr char kRootVariable[] = "ALIGND_MOVING_ROOT";
constexpr char kOperationVariable[] = "ALIGND_MOVING_OPERATION";

// What the test and the process that it ends share. The service manager is another program: what it
// has done outlives the process.
struct Shared {
  CutOff cut_off;
  std::array<int, 3> active;  // kubelet, alignd, alignd's socket
};

Shared* MapShared(const fs::path& file) {
  const host::Descriptor opened(open(file.c_str(), O_RDWR | O_CLOEXEC));
  void* const mapped =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, opened.fd(), 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<Shared*>(mapped);
}

class SharedServices final : public Services {
 public:
  explicit SharedServices(Shared& shared) : shared_(shared) {}

  Result<bool> IsActive(const std::string& unit) override { return Of(unit) != 0; }
  Result<bool> IsStopped(const std::string& unit) override { return Of(unit) == 0; }
  Result<Done> Start(const std::string& unit) override {
    Of(unit) = 1;
    return Done{};
  }
  Result<Done> Stop(const std::string& unit) override {
    Of(unit) = 0;
    return Done{};
  }
  Result<Done> ReloadUnits() override { return Done{}; }

 private:
  int& Of(const std::string& unit) {
    return shared_.active[unit == "kubelet.service" ? 0 : unit == kAligndService ? 1 : 2];
  }

  Shared& shared_;
};

HandoverRequest RequestIn(const fs::path& root) {
  HandoverRequest request;
  request.root = root.string();
  request.node = root / "node.json";
  request.cgroup_root = root / "cgroup";
  return request;
}

// As the command does it. Answers the exit status.
int HandOver(const fs::path& root, bool to_alignd, Shared& shared) {
  SharedServices services(shared);
  const HandoverRequest request = RequestIn(root);
  const Result<bool> recovered = RecoverInterrupted(request, services, /*dry_run=*/false);
  if (!recovered.ok()) {
    std::cout << recovered.error().Text() << '\n';
    return 1;
  }
  const Result<PreparedHandover> handover =
      to_alignd ? PrepareToAlignd(request, services) : PrepareToKubelet(request, services);
  Result<Done> done = handover.ok() ? RequireNoProblem(handover->plan, "the handover")
                                    : Result<Done>(handover.error());
  if (done.ok()) done = RunSteps(handover->steps, std::cout);
  if (!done.ok()) std::cout << done.error().Text() << '\n';
  return done.ok() ? 0 : 1;
}

int RunOperation(const std::string& operation, const fs::path& root, Shared& shared) {
  if (operation == "to-alignd" || operation == "to-kubelet") {
    return HandOver(root, operation == "to-alignd", shared);
  }
  const testing::Printed printed = testing::RunAlignctl(
      {cli::AddStateCommand},
      {"state", operation, "--move", "--root", root, "--node", (root / "node.json").string()});
  std::cout << printed.out << printed.err;
  return printed.status;
}

// The process that is ended: started by the other tests.
TEST(MovingProcess, DISABLED_CarriesOutOneOperation) {
  const char* const root = std::getenv(kRootVariable);
  const char* const operation = std::getenv(kOperationVariable);
  ASSERT_NE(root, nullptr);
  ASSERT_NE(operation, nullptr);
  Shared* const shared = MapShared(fs::path(root).string() + ".shared");
  ASSERT_NE(shared, nullptr);
  __atomic_store_n(&shared->cut_off.is_counting, shared->cut_off.last >= 0 ? 1 : 0,
                   __ATOMIC_SEQ_CST);
  const int status = RunOperation(operation, root, *shared);
  __atomic_store_n(&shared->cut_off.is_counting, 0, __ATOMIC_SEQ_CST);
  EXPECT_EQ(status, 0);
}

// One node, for one point.
class CutNode {
 public:
  explicit CutNode(const std::string& operation) : operation_(operation) {
    const fs::path file = node_.root().string() + ".shared";
    std::ofstream(file) << std::string(sizeof(Shared), '\0');
    shared_ = MapShared(file);
    EXPECT_NE(shared_, nullptr);
    const bool is_import = operation == "import" || operation == "to-alignd";
    if (!is_import) {
      shared_->active = {1, 0, 0};
      const int prepared = operation == "export" ? RunOperation("import", node_.root(), *shared_)
                                                 : HandOver(node_.root(), true, *shared_);
      EXPECT_EQ(prepared, 0);
    }
    // Import and export are for services that are stopped.
    const bool runs = operation.starts_with("to-");
    shared_->active = {runs ? 1 : 0, runs && !is_import ? 1 : 0, runs && !is_import ? 1 : 0};
  }
  ~CutNode() {
    munmap(shared_, sizeof(Shared));
    std::error_code ignored;
    fs::remove(node_.root().string() + ".shared", ignored);
  }

  // In a process of its own, which ends at call number `last`; 0: it goes on; -1: uncounted.
  // Answers whether it was ended.
  bool Run(int64_t last) {
    shared_->cut_off = {.is_counting = 0, .calls = 0, .last = last};
    const testing::Process process(
        {"env", "-u", "GTEST_TOTAL_SHARDS", "-u", "GTEST_SHARD_INDEX", "-u", "GTEST_OUTPUT", "-u",
         "GTEST_SHARD_STATUS_FILE", "-u", "GTEST_FILTER", "LD_PRELOAD=" ALIGND_CUT_OFF_LIBRARY,
         kCutOffVariable "=" + node_.root().string() + ".shared",
         std::string(kRootVariable) + "=" + node_.root().string(),
         std::string(kOperationVariable) + "=" + operation_, fs::read_symlink("/proc/self/exe"),
         "--gtest_filter=MovingProcess.DISABLED_CarriesOutOneOperation",
         "--gtest_also_run_disabled_tests"},
        node_.root().string() + ".log");
    int status = 0;
    EXPECT_EQ(waitpid(process.pid(), &status, 0), process.pid());
    log_ = process.Log();
    std::error_code ignored;
    fs::remove(node_.root().string() + ".log", ignored);
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  // All files that are of use; a temporary is replaced by the next write.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files = node_.Kept();
    std::erase_if(files, [](const auto& file) { return file.first.ends_with(".alignd-new"); });
    return files;
  }
  bool HasRecord() const {
    return fs::exists(node_.root() / "var/lib/alignd" / daemon::ChangeUndo::kFileName);
  }
  // Whether the files are those of this side: "kubelet" or "alignd".
  bool HasState(const std::string& side) const {
    return fs::exists(node_.root() / "var/lib" / side / "cpu_manager_state");
  }
  // Restores what was interrupted, as the question of a handover that is answered with N.
  void Recover() {
    SharedServices services(*shared_);
    const Result<bool> recovered = RecoverInterrupted(node_.Request(), services, false);
    EXPECT_TRUE(recovered.ok()) << recovered.error().Text();
  }

  int status() const { return status_; }
  const std::string& log() const { return log_; }
  int64_t calls() const { return shared_->cut_off.calls; }
  const std::array<int, 3>& active() const { return shared_->active; }

 private:
  const std::string operation_;
  MovingNode node_;
  Shared* shared_ = nullptr;
  std::string log_;
  int status_ = -1;
};

class MovingCutOff : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Operations, MovingCutOff,
                         ::testing::Values("import", "export", "to-alignd", "to-kubelet"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(MovingCutOff, LosesNothingWhereverItEnds) {
  const bool is_handover = GetParam().starts_with("to-");
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  std::array<int, 3> active_after{};
  int64_t calls = 0;
  {
    CutNode whole(GetParam());
    before = whole.Files();
    EXPECT_FALSE(whole.Run(0));
    ASSERT_EQ(whole.status(), 0) << whole.log();
    after = whole.Files();
    calls = whole.calls();
    active_after = whole.active();
    ASSERT_NE(before, after);
    ASSERT_GT(calls, 5);
    EXPECT_FALSE(whole.HasRecord());
    EXPECT_NE(whole.HasState("kubelet"), whole.HasState("alignd"));
  }
  const int64_t tried = std::min(calls, int64_t{Iterations(12)});
  int64_t ended = 0;
  int64_t recorded = 0;
  for (int64_t point = 0; point < tried; ++point) {
    const int64_t last = 1 + point * calls / tried;
    SCOPED_TRACE("at call " + std::to_string(last) + " of " + std::to_string(calls));
    CutNode node(GetParam());
    ended += node.Run(last) ? 1 : 0;
    recorded += node.HasRecord() ? 1 : 0;
    if (!node.HasRecord()) {
      const auto files = node.Files();
      EXPECT_TRUE(files == before || files == after) << node.log();
      EXPECT_NE(node.HasState("kubelet"), node.HasState("alignd"));
    }
    // Neither program runs with files that are half moved.
    if (is_handover && node.HasRecord()) {
      EXPECT_EQ(node.active(), (std::array<int, 3>{}));
    }
    const bool goes_back = is_handover && point % 2 == 1;
    if (goes_back) {
      node.Recover();
      const auto files = node.Files();
      EXPECT_TRUE(files == before || files == after) << node.log();
      EXPECT_FALSE(node.HasRecord());
    }
    // Repeated, it leads to the same end, or says that there is nothing left to move.
    const bool was_done = !node.HasRecord() && node.Files() == after;
    EXPECT_FALSE(node.Run(-1));
    EXPECT_TRUE(node.status() == 0 || was_done) << node.log();
    EXPECT_EQ(node.Files(), after) << node.log();
    EXPECT_FALSE(node.HasRecord());
    if (is_handover) {
      EXPECT_EQ(node.active(), active_after) << node.log();
    }
    if (HasFailure()) return;
  }
  std::cout << calls << " calls, " << tried << " points, ended at " << ended
            << ", with a record at " << recorded << "\n";
  EXPECT_EQ(ended, tried);
}

}  // namespace
}  // namespace alignd::moving
