// What a daemon-reload would give containers, at a stand-in for systemd.
#include "reconcile/systemd_cpus.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "edge/fake_systemd.h"
#include "edge/fake_tree.h"
#include "registry_fixture.h"

namespace alignd::reconcile {
namespace {

using testing::FakeSystemd;
using Calls = std::vector<std::string>;

// Containers `a` and `b` have CPUs 0-3.
class SystemdCpusTest : public RegistryTest {
 protected:
  SystemdCpusTest() {
    for (const char* const id : {"a", "b"}) {
      registry_.AddContainer(id, {"pod", id}, Cpus("0-3"));
      Apply(id, "0-3");
    }
  }

  void StartSystemd(uint8_t cpus_of_a, uint8_t cpus_of_b) {
    systemd_ = std::make_unique<FakeSystemd>(tree_.root() / "private");
    systemd_->SetAllowedCpus("/org/freedesktop/systemd1/unit/a_2escope", {cpus_of_a});
    systemd_->SetAllowedCpus("/org/freedesktop/systemd1/unit/b_2escope", {cpus_of_b});
  }

  // A check of all containers finds them as applied.
  void Check() {
    for (const std::string id : {"a", "b"}) {
      cpus_.Found({id, {"pod", id}}, "/kubepods.slice/" + id + ".scope", Cpus("0-3"));
    }
    cpus_.Correct();
  }

  const testing::FakeTree tree_{{"cgroup.controllers", "cpuset cpu\n"}};
  const cgroup::CgroupTree cgroups_{tree_.root(), cgroup::SystemdUnits(tree_.root() / "private")};
  SystemdCpus cpus_{cgroups_, registry_};
  std::unique_ptr<FakeSystemd> systemd_;
};

TEST_F(SystemdCpusTest, SystemdGetsTheCpusThatItHasOtherwise) {
  StartSystemd(0x0f, 0xff);
  Check();
  EXPECT_EQ(systemd_->calls(), Calls{"b.scope AllowedCPUs=0f"});
}

TEST_F(SystemdCpusTest, ItIsAskedAgainAfterAChangeOnly) {
  StartSystemd(0x0f, 0x0f);
  Check();
  systemd_->SetAllowedCpus("/org/freedesktop/systemd1/unit/a_2escope", {0x01});
  systemd_->SetAllowedCpus("/org/freedesktop/systemd1/unit/b_2escope", {0x01});
  Check();
  EXPECT_EQ(systemd_->calls(), Calls());
  cpus_.Changed("a");
  Check();
  EXPECT_EQ(systemd_->calls(), Calls{"a.scope AllowedCPUs=0f"});
}

TEST_F(SystemdCpusTest, ItIsAskedAgainAfterAFailure) {
  Check();  // nothing answers
  StartSystemd(0xff, 0x0f);
  Check();
  EXPECT_EQ(systemd_->calls(), Calls{"a.scope AllowedCPUs=0f"});
}

// The update that is under way gives it other CPUs.
TEST_F(SystemdCpusTest, ContainerThatIsUpdatedIsLeftToTheUpdate) {
  StartSystemd(0x0f, 0xff);
  registry_.BeginApply("b", Cpus("2-3"));
  Check();
  EXPECT_EQ(systemd_->calls(), Calls());
}

}  // namespace
}  // namespace alignd::reconcile
