#include "allocation/state_writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

namespace alignd::allocation {
namespace {

using Job = StateWriter::Job;

// Everything of the pod "pod" that a file contains.
TEST(StateWriterJob, DiffersInEveryPartOfTheFiles) {
  const std::pair<const char*, std::function<void(admission::NodeState&)>> changes[] = {
      {"CPUs", [](auto& state) { state.cpu.assignments["pod"]["app"] = CpuSet::Range(1, 2); }},
      {"CPUs of the pod", [](auto& state) { state.cpu.pods["pod"] = CpuSet::Range(1, 2); }},
      {"original CPUs",
       [](auto& state) { state.cpu.originals["pod"]["app"] = CpuSet::Range(1, 2); }},
      {"memory",
       [](auto& state) {
         state.memory.assignments["pod"]["app"] = {{{0}, "memory", 1}};
       }},
      {"memory of the pod",
       [](auto& state) {
         state.memory.pods["pod"] = {{{0}, "memory", 1}};
       }},
      {"devices",
       [](auto& state) {
         state.devices.allocations[{"pod", "app"}]["a.com/b"].response = "x";
       }},
  };
  for (const auto& [what, change] : changes) {
    const Job before;
    Job after;
    change(after.state);
    EXPECT_FALSE(after.HasFilesOf(before)) << what;
    EXPECT_FALSE(after.HasEntriesOf(before, "pod")) << what;
    EXPECT_TRUE(after.HasFilesOf(after)) << what;
    EXPECT_TRUE(after.HasEntriesOf(after, "pod")) << what;
    EXPECT_TRUE(after.HasEntriesOf(before, "another")) << what;
  }
  Job another;
  another.state.cpu.default_set = CpuSet::Range(0, 3);
  EXPECT_FALSE(another.HasFilesOf(Job()));
  EXPECT_TRUE(another.HasEntriesOf(Job(), "pod"));
}

}  // namespace
}  // namespace alignd::allocation
