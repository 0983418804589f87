// Containers whose cgroups are units of systemd leave CPUs, at a stand-in for systemd.
#include "reconcile/cpuset_narrower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
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
    for (const char* const id : {"a", "b"}) Add(id, UnitOf(id));
  }

  void Add(const std::string& id, const std::string& path) {
    registry_.AddContainer(id, {"pod", id}, Cpus("0-7"));
    const std::filesystem::path directory = tree_.root() / path.substr(1);
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "cpuset.cpus") << "0-7\n";
    // The kernel applies what is written: both names lead to one file.
    std::filesystem::create_hard_link(directory / "cpuset.cpus",
                                      directory / "cpuset.cpus.effective");
    std::ofstream(directory / "cpuset.mems") << "0\n";
    std::ofstream(directory / "cpuset.mems.effective") << "0\n";
    std::ofstream(directory / "cgroup.threads") << "4194305\n";  // no thread has this id
  }

  static std::string UnitOf(const std::string& id) { return "/kubepods.slice/" + id + ".scope"; }
  std::filesystem::path Directory(const std::string& id) const {
    return tree_.root() / UnitOf(id).substr(1);
  }
  std::string Written(const std::string& id) const {
    return testing::ReadText(Directory(id) / "cpuset.cpus").substr(0, 3);
  }
  std::filesystem::path Socket() const { return tree_.root() / "private"; }

  // Returns those that could not be narrowed.
  static Refused Narrow(CpusetNarrower& narrower, std::vector<admission::CpuSetChange> changes) {
    std::promise<Refused> refused;
    narrower.Narrow(std::move(changes), [&refused](const Refused& ids) { refused.set_value(ids); });
    return refused.get_future().get();
  }
  // Both containers are to leave CPUs 4-7.
  Refused NarrowBoth() {
    const cgroup::CgroupTree cgroups(tree_.root(), cgroup::SystemdUnits(Socket()));
    TaskQueue io("io");
    CpusetNarrower narrower(io, registry_, cgroups, [](const std::string& id) {
      return std::optional(KnownCgroup{UnitOf(id), nullptr});
    });
    return Narrow(narrower, {{"a", Cpus("0-3")}, {"b", Cpus("0-3")}});
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

// A cgroup above it has fewer CPUs, or another program has written fewer. The container is on its
// set, but the guard is to look why.
TEST_F(CpusetNarrowerTest, FewerCpusAreNotExact) {
  const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers);
  const auto began = std::chrono::steady_clock::now();
  std::filesystem::remove(Directory("a") / "cpuset.cpus.effective");
  std::ofstream(Directory("a") / "cpuset.cpus.effective") << "1-2\n";
  EXPECT_EQ(NarrowBoth(), Refused());
  EXPECT_EQ(registry_.AppliedTo("a"), Cpus("0-3"));
  EXPECT_EQ(registry_.ExactSince("a", began), std::nullopt);
  EXPECT_EQ(registry_.ExactSince("b", began), Cpus("0-3"));
  EXPECT_EQ(registry_.ExactSince("b", std::chrono::steady_clock::now()), std::nullopt);
}

// Two threads narrow, and no pass ends before both have.
TEST_F(CpusetNarrowerTest, ManyAreNarrowedInPassAfterPass) {
  std::map<std::string, KnownCgroup> known;
  std::vector<std::string> ids;
  const cgroup::CgroupTree cgroups(tree_.root());
  for (int i = 0; i < 100; ++i) {
    ids.push_back("c" + std::to_string(i));
    const std::string path = "/kubepods/" + ids.back();
    Add(ids.back(), path);
    Result<cgroup::CpusetCgroup> open = cgroups.OpenCpuset(path);
    ASSERT_TRUE(open.ok()) << open.error().Text();
    known[ids.back()] = {
        path,
        i % 2 == 0 ? nullptr : std::make_shared<const cgroup::CpusetCgroup>(*std::move(open))};
  }
  const Refused refused{"c60", "c61", "c70"};
  std::filesystem::remove_all(tree_.root() / "kubepods/c60");
  std::filesystem::remove_all(tree_.root() / "kubepods/c61");  // its directory stays open
  known.erase("c70");
  TaskQueue io("io");
  CpusetNarrower narrower(io, registry_, cgroups, [&known](const std::string& id) {
    const auto found = known.find(id);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  });
  for (const char* const set : {"0-6", "0-5", "0-4", "0-3", "0-2", "0-1", "0"}) {
    std::vector<admission::CpuSetChange> changes;
    for (const std::string& id : ids) changes.push_back({id, Cpus(set)});
    EXPECT_EQ(Narrow(narrower, changes), refused);
    for (const std::string& id : ids) {
      if (refused.contains(id)) continue;
      ASSERT_EQ(registry_.AppliedTo(id), Cpus(set)) << id;
      ASSERT_FALSE(registry_.IsWritten(id));
    }
  }
  EXPECT_EQ(Narrow(narrower, {}), Refused());
}

// Units of systemd are narrowed on the queue alone.
TEST_F(CpusetNarrowerTest, OtherTasksOfTheQueueHaveTheirTurn) {
  const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers);
  const cgroup::CgroupTree cgroups(tree_.root(), cgroup::SystemdUnits(Socket()));
  std::vector<admission::CpuSetChange> changes;
  for (int i = 0; i < 40; ++i) {
    const std::string id = "c" + std::to_string(i);
    Add(id, UnitOf(id));
    changes.push_back({id, Cpus("0-3")});
  }
  TaskQueue io("io");
  CpusetNarrower narrower(io, registry_, cgroups, [](const std::string& id) {
    return std::optional(KnownCgroup{UnitOf(id), nullptr});
  });
  std::promise<Refused> refused;
  std::promise<size_t> narrowed;  // how many are, when the task has its turn
  io.Post([&] {
    narrower.Narrow(changes, [&refused](const Refused& ids) { refused.set_value(ids); });
    io.Post([&] {
      narrowed.set_value(static_cast<size_t>(
          std::ranges::count_if(changes, [this](const admission::CpuSetChange& change) {
            return registry_.AppliedTo(change.id) == change.cpuset;
          })));
    });
  });
  EXPECT_EQ(narrowed.get_future().get(), 16U);
  EXPECT_EQ(refused.get_future().get(), Refused());
  EXPECT_EQ(systemd.calls().size(), changes.size());
}

// It may take 2 s until it is clear that systemd does not answer.
TEST_F(CpusetNarrowerTest, SystemdThatFailsIsNotAskedAgain) {
  std::map<std::string, std::string> refusals;
  std::vector<admission::CpuSetChange> changes;
  Refused all;
  for (int i = 10; i < 50; ++i) {
    const std::string id = "c" + std::to_string(i);
    Add(id, UnitOf(id));
    changes.push_back({id, Cpus("0-3")});
    all.insert(id);
    refusals[id + ".scope"] = "org.freedesktop.DBus.Error.AccessDenied";
  }
  const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers, refusals);
  const cgroup::CgroupTree cgroups(tree_.root(), cgroup::SystemdUnits(Socket()));
  TaskQueue io("io");
  CpusetNarrower narrower(io, registry_, cgroups, [](const std::string& id) {
    return std::optional(KnownCgroup{UnitOf(id), nullptr});
  });
  EXPECT_EQ(Narrow(narrower, changes), all);
  EXPECT_EQ(systemd.calls().size(), 16U);
  EXPECT_EQ(Narrow(narrower, changes), all);  // it may have recovered
  EXPECT_EQ(systemd.calls().size(), 32U);
}

TEST_F(CpusetNarrowerTest, WhatTheRuntimeHasMovedMeanwhileIsLeftAlone) {
  const FakeSystemd systemd(Socket(), FakeSystemd::Manner::kAnswers);
  registry_.BeginApply("a", Cpus("0-3"));
  registry_.EndApply("a", Cpus("0-3"), /*taken=*/true);
  EXPECT_EQ(NarrowBoth(), Refused());
  EXPECT_EQ(systemd.calls(), std::vector<std::string>{"b.scope AllowedCPUs=0f"});
  EXPECT_EQ(AppliedTo("a"), "0-3");  // its record is not updated again
}

TEST_F(CpusetNarrowerTest, WithoutSystemdNothingIsWritten) {
  EXPECT_EQ(NarrowBoth(), (Refused{"a", "b"}));
  EXPECT_EQ(Written("a") + Written("b"), "0-70-7");
}

}  // namespace
}  // namespace alignd::reconcile
