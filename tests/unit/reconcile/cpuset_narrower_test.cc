// Containers whose cgroups are units of systemd leave CPUs, at a stand-in for systemd.
#include "reconcile/cpuset_narrower.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "edge/fake_systemd.h"
#include "edge/fake_tree.h"
#include "edge/process.h"
#include "registry_fixture.h"

namespace alignd::reconcile {
namespace {

using testing::FakeSystemd;
using Refused = std::set<std::string>;

class CpusetNarrowerTest : public RegistryTest {
 protected:
  CpusetNarrowerTest() {
    tree_.Write({"cgroup.controllers", "cpuset cpu\n"});
    for (const char* const id : {"a", "b"}) {
      registry_.AddContainer(id, {"pod", id}, Cpus("0-7"));
      std::filesystem::create_directories(Directory(id));
      std::ofstream(Directory(id) / "cpuset.cpus") << "0-7\n";
      // The kernel applies what is written: both names lead to one file.
      std::filesystem::create_hard_link(Directory(id) / "cpuset.cpus",
                                        Directory(id) / "cpuset.cpus.effective");
      std::ofstream(Directory(id) / "cpuset.mems") << "0\n";
      std::ofstream(Directory(id) / "cpuset.mems.effective") << "0\n";
      std::ofstream(Directory(id) / "cgroup.threads") << "4194305\n";  // no thread has this id
    }
  }

  std::filesystem::path Directory(const std::string& id) const {
    return tree_.root() / ("kubepods.slice/" + id + ".scope");
  }
  std::string Written(const std::string& id) const {
    return testing::ReadText(Directory(id) / "cpuset.cpus").substr(0, 3);
  }
  std::filesystem::path Socket() const { return tree_.root() / "private"; }

  // Both containers are to leave CPUs 4-7. Returns those that could not be narrowed.
  Refused NarrowBoth() {
    const cgroup::CgroupTree cgroups(tree_.root(), cgroup::SystemdUnits(Socket()));
    TaskQueue io("io");
    CpusetNarrower narrower(io, registry_, cgroups, [](const std::string& id) {
      return std::optional("/kubepods.slice/" + id + ".scope");
    });
    std::promise<Refused> refused;
    narrower.Narrow({{"a", Cpus("0-3")}, {"b", Cpus("0-3")}},
                    [&refused](Refused ids) { refused.set_value(std::move(ids)); });
    return refused.get_future().get();
  }

  const testing::FakeTree tree_;
};

// A daemon-reload after the write would undo it.
TEST_F(CpusetNarrowerTest, SystemdGetsTheSetBeforeTheWrite) {
  std::vector<std::string> written;
  {
    const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers, {},
                              [&] { written.push_back(Written("a") + Written("b")); });
    EXPECT_EQ(NarrowBoth(), Refused());
    EXPECT_EQ(systemd.calls(),
              (std::vector<std::string>{"a.scope AllowedCPUs=0f", "b.scope AllowedCPUs=0f"}));
  }
  EXPECT_EQ(written, (std::vector<std::string>{"0-70-7", "0-70-7"}));
  EXPECT_EQ(Written("a") + Written("b"), "0-30-3");
  for (const auto& footprint : registry_.Footprints()) EXPECT_EQ(footprint.cpuset, Cpus("0-3"));
}

TEST_F(CpusetNarrowerTest, WhereSystemdRefusesTheRuntimeIsToMoveTheContainer) {
  const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers,
                            {{"b.scope", "org.freedesktop.DBus.Error.AccessDenied"}});
  EXPECT_EQ(NarrowBoth(), Refused{"b"});
  EXPECT_EQ(Written("a") + Written("b"), "0-30-7");
}

TEST_F(CpusetNarrowerTest, WithoutSystemdNothingIsWritten) {
  EXPECT_EQ(NarrowBoth(), (Refused{"a", "b"}));
  EXPECT_EQ(Written("a") + Written("b"), "0-70-7");
}

}  // namespace
}  // namespace alignd::reconcile
