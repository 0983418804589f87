// What lies in the place of a file that alignd reads or writes, and is no file: never a hang, never
// taken for an absent file, and nothing is written through a link.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "daemon_fixture.h"
#include "edge/odd_files.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;
using testing::OddFile;

class DaemonOddFiles : public DaemonTest {
 protected:
  DaemonOddFiles() { tree_.Write({"config.yaml", StaticConfig()}); }

  // A listing of the runtime each 200 ms.
  static std::string OftenListed() {
    std::string config = StaticConfig();
    const std::string period = "cpuManagerReconcilePeriod: 2s";
    return config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 200ms");
  }

  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.root = tree_.root() / "root";
    return options;
  }

  // The odd file ends the start with an error that names it, and nothing is made through it.
  void ExpectNoStart(OddFile kind, const fs::path& path) const {
    SCOPED_TRACE(path.string() + ": " + NameOf(kind));
    testing::MakeOddFile(kind, path);
    const auto started = Daemon::Start(DaemonOptions());
    ASSERT_FALSE(started.ok());
    EXPECT_NE(started.error().message.find(path.string()), std::string::npos)
        << started.error().message;
    EXPECT_NE(started.error().remedy, "") << started.error().message;
    EXPECT_FALSE(fs::exists(path.parent_path() / "nowhere"));
  }
};

TEST_F(DaemonOddFiles, InPlaceOfAFileThatIsReadEndTheStartWithARemedy) {
  StartRuntime();
  for (const fs::path& path :
       {StateDir() / "cpu_manager_state", StateDir() / "memory_manager_state",
        StateDir() / "device-plugins/kubelet_internal_checkpoint", StateDir() / "device_bindings",
        StateDir() / "cpu_originals", StateDir() / "boot_id", StateDir() / "alignd.lock",
        tree_.root() / "root/proc/sys/kernel/random/boot_id"}) {
    for (const OddFile kind : testing::OddFiles()) {
      ExpectNoStart(kind, path);
    }
    fs::remove_all(path);
  }
  StartDaemon();
}

TEST_F(DaemonOddFiles, InPlaceOfASocketEndTheStartWithARemedy) {
  StartRuntime();
  const Options options = DaemonOptions();
  for (const fs::path& path :
       {fs::path(options.listen), fs::path(options.ControlSocket()),
        fs::path(options.PodResourcesSocket()), StateDir() / "device-plugins/kubelet.sock"}) {
    for (const OddFile kind : testing::OddFiles()) {
      if (kind == OddFile::kSocket) continue;  // a stale socket is replaced
      ExpectNoStart(kind, path);
    }
    fs::remove_all(path);
  }
  StartDaemon();
}

// The reconciler looks at these files of the kubelet at each listing.
TEST_F(DaemonOddFiles, InPlaceOfTheKubeletsFilesDelayNoPod) {
  for (const OddFile kind : testing::OddFiles()) {
    SCOPED_TRACE(NameOf(kind));
    for (const char* name : {"cpu_manager_state", "config.yaml"}) {
      testing::MakeOddFile(kind, tree_.root() / "kubelet" / name);
    }
    Start(OftenListed());
    const size_t before = runtime_->Requests("ListPodSandbox").size();
    EXPECT_EQ(CpusOf(RunOne(PodConfig("pinned"), Pinned(3)).container), "1-3");
    EXPECT_TRUE(
        Eventually([&] { return runtime_->Requests("ListPodSandbox").size() > before + 1; }));
    StopDaemon();
    runtime_.reset();
    watch_.Forget();
    fs::remove_all(StateDir());
  }
}

TEST_F(DaemonOddFiles, InPlaceOfAStateFileOfARunningDaemonAreReplaced) {
  Start(OftenListed());
  RunOne(PodConfig("pinned"), Pinned(3));
  const std::string state = State();
  for (const OddFile kind : testing::OddFiles()) {
    if (kind == OddFile::kDirectory) continue;  // may have content; it is logged
    SCOPED_TRACE(NameOf(kind));
    testing::MakeOddFile(kind, StateDir() / "cpu_manager_state");
    EXPECT_TRUE(Eventually([&] {
      const fs::path file = StateDir() / "cpu_manager_state";
      return fs::is_regular_file(fs::symlink_status(file)) && State() == state;
    }));
  }
}

}  // namespace
}  // namespace alignd::daemon
