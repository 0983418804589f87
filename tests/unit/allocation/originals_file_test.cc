#include "allocation/originals_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "allocation/bad_state.h"
#include "edge/fake_tree.h"
#include "edge/faulty_file.h"
#include "host/file.h"

namespace alignd::allocation {
namespace {

using checkpoint::Originals;

class OriginalsFileTest : public ::testing::Test {
 protected:
  static Originals Entry(const std::string& uid, int first, int last) {
    Originals originals;
    originals[uid]["app"] = CpuSet::Range(first, last);
    return originals;
  }
  Originals OnDisk() const {
    const Result<std::string> text = host::ReadFile(path_);
    if (!text.ok()) return {};
    const Result<Originals> parsed = checkpoint::ParseOriginalsCheckpoint(*text);
    EXPECT_TRUE(parsed.ok()) << *text;
    return parsed.ok() ? *parsed : Originals();
  }

  const testing::FakeTree tree_;
  const std::filesystem::path path_ = tree_.root() / "cpu_originals";
  testing::FaultyFile disk_;
  OriginalsFile file_{path_, disk_};
};

TEST_F(OriginalsFileTest, IsNotWrittenBeforeThereIsAnEntry) {
  cpumanager::CpuState state;
  ASSERT_TRUE(file_.Load(state).ok());
  ASSERT_TRUE(file_.SaveNew({}).ok());
  ASSERT_TRUE(file_.Save({}).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file_.Save(Entry("p", 1, 2)).ok());
  ASSERT_TRUE(file_.Save({}).ok());
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(OnDisk().empty());
}

TEST_F(OriginalsFileTest, KeepsWhatTheCpuFileMayReferToUntilItIsWritten) {
  ASSERT_TRUE(file_.Save(Entry("old", 1, 2)).ok());
  ASSERT_TRUE(file_.SaveNew(Entry("new", 3, 4)).ok());
  EXPECT_TRUE(OnDisk().contains("old"));
  EXPECT_TRUE(OnDisk().contains("new"));
  ASSERT_TRUE(file_.Save(Entry("new", 3, 4)).ok());
  EXPECT_EQ(OnDisk(), Entry("new", 3, 4));
}

TEST_F(OriginalsFileTest, WritesAgainAfterAFailure) {
  ASSERT_TRUE(file_.Save(Entry("old", 1, 2)).ok());
  for (int index = 0;; ++index) {
    SCOPED_TRACE(index);
    ASSERT_LT(index, 100);
    disk_.FailAt(index);
    const bool ok = file_.SaveNew(Entry("new", 3, 4)).ok();
    if (!disk_.failed()) {
      EXPECT_TRUE(ok);
      break;
    }
    EXPECT_FALSE(ok);
    EXPECT_TRUE(file_.IsUncertain());
    disk_.Repair();
    ASSERT_TRUE(file_.Save(Entry("old", 1, 2)).ok());
    EXPECT_FALSE(file_.IsUncertain());
    EXPECT_EQ(OnDisk(), Entry("old", 1, 2));
  }
}

TEST_F(OriginalsFileTest, TakesOnlyEntriesThatFitTheAssignments) {
  Originals saved = Entry("fits", 1, 2);
  saved["fits"]["gone"] = CpuSet::Range(8, 9);
  saved["other CPUs"]["app"] = CpuSet::Range(3, 4);
  saved["no CPUs"]["app"] = CpuSet::Range(7, 7);
  ASSERT_TRUE(file_.Save(saved).ok());
  cpumanager::CpuState state;
  state.assignments["fits"]["app"] = CpuSet::Range(1, 2);
  state.assignments["other CPUs"]["app"] = CpuSet::Range(4, 6);
  OriginalsFile after_restart(path_, disk_);
  ASSERT_TRUE(after_restart.Load(state).ok());
  EXPECT_EQ(state.originals, Entry("fits", 1, 2));
  EXPECT_EQ(OnDisk(), Entry("fits", 1, 2));
}

TEST_F(OriginalsFileTest, ReportsAFileThatCannotBeRead) {
  const std::pair<const char*, std::string> cases[] = {
      {"no JSON", "{"},
      {"checksum", R"({"entries":{"p":{"app":"1-2"}},"checksum":1})"},
      {"too long", std::string(host::kMaxFileBytes + 1, ' ')}};
  for (const auto& [what, text] : cases) {
    std::ofstream(path_) << text;
    cpumanager::CpuState state;
    const Result<Done> loaded = file_.Load(state);
    ASSERT_FALSE(loaded.ok()) << what;
    EXPECT_TRUE(loaded.error().message.starts_with("load " + path_.string())) << what;
    EXPECT_TRUE(loaded.error().remedy == RebuildRemedy(path_)) << what;
    EXPECT_EQ(*host::ReadFile(path_, 2 * host::kMaxFileBytes), text) << what;
  }
}

}  // namespace
}  // namespace alignd::allocation
