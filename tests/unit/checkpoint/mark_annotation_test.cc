#include "alignd/checkpoint/mark_annotation.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace alignd::checkpoint {
namespace {

const ContainerKey kMarkedKey{"uid", "app"};
constexpr char kMarkedId[] = "0123456789abcdef";

admission::AssignmentMark FullMark() {
  admission::AssignmentMark mark;
  mark.cpus = {1, 2, 3};
  mark.original = {1};
  mark.memory = {{{0, 1}, "hugepages-2Mi", 4096}, {{0, 1}, "memory", 1 << 30}};
  mark.devices["a.com/gpu"] = {{-1, {"x"}}, {0, {"gpu0", "gpu1"}}};
  mark.whole.cpus = {1, 2, 3, 4};
  mark.whole.cpu_parts = {{"app", {1, 2, 3}}, {"log", {4}}};
  mark.whole.own = {"app"};
  mark.whole.memory = {{{0, 1}, "memory", uint64_t{2} << 30}};
  mark.whole.memory_parts = {{"app", mark.memory}, {"log", {{{0, 1}, "memory", 1 << 30}}}};
  mark.role = ContainerKind::kInit;
  return mark;
}

TEST(MarkAnnotationTest, IsReadAsItWasWritten) {
  const std::string text = FormatMark(kMarkedKey, kMarkedId, FullMark());
  const auto read = ParseMark(kMarkedKey, kMarkedId, text);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, FullMark());
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

// Written by this version: the marks of running containers must be readable for later ones.
TEST(MarkAnnotationTest, KeepsItsText) {
  admission::AssignmentMark mark;
  mark.cpus = {1, 2, 3};
  const std::string text =
      R"({"version":1,"podUID":"uid","container":"app","id":"0123456789abcdef","role":"",)"
      R"("cpus":"1-3","originalCPUs":"","podCPUs":"","checksum":3714638379})";
  EXPECT_EQ(FormatMark(kMarkedKey, kMarkedId, mark), text);
  EXPECT_EQ(ParseMark(kMarkedKey, kMarkedId, text).value(), mark);
}

// An earlier version writes no role for a sidecar or an app container: nothing is known then.
TEST(MarkAnnotationTest, HasTheRole) {
  admission::AssignmentMark mark;
  mark.cpus = {1};
  const std::map<std::optional<ContainerKind>, std::string> roles = {
      {std::nullopt, ""},
      {ContainerKind::kInit, "init"},
      {ContainerKind::kSidecar, "sidecar"},
      {ContainerKind::kApp, "app"}};
  for (const auto& [role, name] : roles) {
    mark.role = role;
    const std::string text = FormatMark(kMarkedKey, kMarkedId, mark);
    EXPECT_NE(text.find(R"("role":")" + name + '"'), std::string::npos) << text;
    EXPECT_EQ(ParseMark(kMarkedKey, kMarkedId, text).value(), mark);
    EXPECT_EQ(mark.IsInit(), role == ContainerKind::kInit);
  }
}

TEST(MarkAnnotationTest, HasTheShareOfANumaNode) {
  for (const ContainerKind kind :
       {ContainerKind::kApp, ContainerKind::kSidecar, ContainerKind::kInit}) {
    admission::AssignmentMark mark;
    mark.share = cpumanager::NodeShare{.numa_id = 0, .millis = 0, .kind = kind};
    mark.role = kind;
    EXPECT_EQ(ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, mark)).value(),
              mark);
  }
  admission::AssignmentMark mark;
  mark.share = cpumanager::NodeShare{.numa_id = 1, .millis = 1500};
  const std::string text = FormatMark(kMarkedKey, kMarkedId, mark);
  EXPECT_NE(text.find(R"("sharedMillis":{"1":1500})"), std::string::npos) << text;
  EXPECT_EQ(ParseMark(kMarkedKey, kMarkedId, text).value(), mark);
  mark.share->millis = -1;
  EXPECT_FALSE(ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, mark)).ok());
  mark.share->millis = 1;
  mark.cpus = {1};  // a container has exclusive CPUs, or shares some
  EXPECT_FALSE(ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, mark)).ok());
}

TEST(MarkAnnotationTest, RefusesEveryChangedByte) {
  const std::string text = FormatMark(kMarkedKey, kMarkedId, FullMark());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '0' ? '1' : '0';
    const auto read = ParseMark(kMarkedKey, kMarkedId, changed);
    // A changed name of a key is an unknown field or another one; only the same content is read.
    EXPECT_TRUE(!read.ok() || *read == FullMark()) << changed;
    EXPECT_FALSE(ParseMark(kMarkedKey, kMarkedId, text.substr(0, i)).ok()) << i;
  }
}

TEST(MarkAnnotationTest, RefusesTheMarkOfAnotherContainer) {
  const auto read =
      ParseMark({"uid", "other"}, kMarkedId, FormatMark(kMarkedKey, kMarkedId, FullMark()));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "it is that of container app of pod uid");
}

// The text of a checkpoint: written without the id that the container's label has.
TEST(MarkAnnotationTest, RefusesAMarkWithoutTheContainersId) {
  for (const char* written : {"", "1", "0123456789abcdee"}) {
    const auto read = ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, written, FullMark()));
    ASSERT_FALSE(read.ok()) << written;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(read.error().message,
              "alignd did not write it for this container; the container may have been restored "
              "from a checkpoint");
    EXPECT_FALSE(ParseMark(kMarkedKey, "", FormatMark(kMarkedKey, written, FullMark())).ok());
  }
}

TEST(MarkAnnotationTest, RefusesAnotherVersionByItsNumber) {
  const auto read = ParseMark(kMarkedKey, kMarkedId, R"({"version":2,"allocation":"1-3"})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read.error().message, "its version is 2, and this alignd reads 1 only");
}

// What the mark says of the pod as a whole must be what it says of the container.
TEST(MarkAnnotationTest, RefusesPartsThatContradictThePodOrTheContainer) {
  const auto error_of = [](const admission::AssignmentMark& mark) {
    const auto read = ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, mark));
    return read.ok() ? "" : read.error().message;
  };
  EXPECT_EQ(error_of(FullMark()), "");
  admission::AssignmentMark outside = FullMark();
  outside.whole.cpu_parts["log"] = {5};
  EXPECT_EQ(error_of(outside), "the CPUs of container log are no part of its pod's");
  admission::AssignmentMark none = FullMark();
  none.whole.cpu_parts["log"] = {};
  EXPECT_EQ(error_of(none), "the CPUs of container log are no part of its pod's");
  admission::AssignmentMark other = FullMark();
  other.whole.cpu_parts["app"] = {1, 2};
  EXPECT_EQ(error_of(other), "its own assignment is not its part of the pod's");
  admission::AssignmentMark memory = FullMark();
  memory.whole.memory_parts.erase("app");
  EXPECT_EQ(error_of(memory), "its own assignment is not its part of the pod's");
  admission::AssignmentMark own = FullMark();
  own.whole.own = {"other"};
  EXPECT_EQ(error_of(own), "no CPUs of container other are named as its own");
  // Without parts: of a pod with too many containers.
  admission::AssignmentMark many = FullMark();
  many.whole.cpu_parts.clear();
  many.whole.memory_parts.clear();
  many.whole.own.clear();
  EXPECT_EQ(error_of(many), "");
}

TEST(MarkAnnotationTest, ReadsNullsAsNothing) {
  for (const char* const field : {"cpuParts", "own", "memoryParts", "podMemory", "memory"}) {
    const std::string text =
        R"({"version":1,"podUID":"uid","container":"app","id":"0123456789abcdef","role":"",)"
        R"("cpus":"1-3","originalCPUs":"","podCPUs":"",")" +
        std::string(field) + R"(":null,"checksum":3714638379})";
    admission::AssignmentMark mark;
    mark.cpus = {1, 2, 3};
    const auto read = ParseMark(kMarkedKey, kMarkedId, text);
    if (read.ok()) {
      EXPECT_EQ(*read, mark) << text;
    } else {
      EXPECT_EQ(read.error().code, ErrorCode::kCorrupt) << text;
    }
  }
}

TEST(MarkAnnotationTest, RefusesAMarkThatSaysNothing) {
  const auto read = ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, {}));
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "it has no assignment");
  admission::AssignmentMark without_nodes;
  without_nodes.memory = {{{}, "memory", 1}};
  EXPECT_FALSE(
      ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, without_nodes)).ok());
  admission::AssignmentMark without_ids;
  without_ids.devices["a.com/gpu"];
  EXPECT_FALSE(
      ParseMark(kMarkedKey, kMarkedId, FormatMark(kMarkedKey, kMarkedId, without_ids)).ok());
}

}  // namespace
}  // namespace alignd::checkpoint
