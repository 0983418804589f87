#include "allocation/pod_notes.h"

#include <gtest/gtest.h>

#include <map>

#include "core/pod_builder.h"

namespace alignd::allocation {
namespace {

// What a mark says may have been concluded by an earlier start.
TEST(PodNotes, SourceThatStatesTheRolesCorrectsTheKnownOnes) {
  const std::map<ContainerKey, ContainerKind> marks = {{{"p", "side"}, ContainerKind::kInit}};
  const Pod stated = MakePod("p", {Sidecar("side", {{"cpu", "1"}}), App("app", {{"cpu", "1"}})});
  PodNotes notes;
  notes.LearnRoles(marks);
  Pod concluded = stated;
  notes.KeepRoles(concluded, /*are_concluded=*/true);
  EXPECT_EQ(concluded.containers[0].kind, ContainerKind::kInit);
  Pod pod = stated;
  notes.KeepRoles(pod, /*are_concluded=*/false);
  EXPECT_EQ(pod.containers[0].kind, ContainerKind::kSidecar);
  EXPECT_EQ(notes.RoleOf({"p", "side"}), ContainerKind::kSidecar);

  // One that concludes them, or that shows one container, does not.
  Pod later = MakePod("p", {Init("side", {{"cpu", "1"}}), App("app", {{"cpu", "1"}})});
  Pod one = later;
  notes.KeepRoles(later, /*are_concluded=*/true);
  EXPECT_EQ(later.containers[0].kind, ContainerKind::kSidecar);
  one.containers.pop_back();
  one.is_complete = false;
  notes.KeepRoles(one, /*are_concluded=*/false);
  EXPECT_EQ(one.containers[0].kind, ContainerKind::kSidecar);
}

}  // namespace
}  // namespace alignd::allocation
