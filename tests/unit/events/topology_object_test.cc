// The object beside annotations of others, as alignd makes it.
#include "events/topology_object.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "alignd/noderesourcetopology/object.h"
#include "edge/allocation_node.h"

namespace alignd::events {
namespace {

using Json = nlohmann::json;

class TopologyObjectTest : public ::testing::Test {
 protected:
  std::string Object(const noderesourcetopology::Annotations& koordinator) const {
    const admission::NodeState state = admission::NodeState::Initial(node_);
    return noderesourcetopology::ObjectJson("n1", node_, state, std::nullopt, koordinator);
  }
  // With as many bytes of the annotations of others.
  static std::string Existing(size_t bytes) {
    const std::string name = "example.com/large";
    return Json{{"metadata", {{"annotations", {{name, std::string(bytes - name.size(), 'x')}}}}}}
        .dump();
  }

  const admission::Node node_ = testing::MakeNode();
  const noderesourcetopology::Annotations koordinator_ = {
      {noderesourcetopology::kPodCpuAllocsAnnotation, "null"}};
  const size_t own_bytes_ = std::string(noderesourcetopology::kPodCpuAllocsAnnotation).size() + 4;
  const size_t most_of_others_ = noderesourcetopology::kMaxAnnotationBytes - own_bytes_;
};

TEST_F(TopologyObjectTest, HasKoordinatorsAnnotationsUpToTheLastByte) {
  const std::string wanted = Object(koordinator_);
  const Writable writable = WritableBeside(wanted, Existing(most_of_others_));
  EXPECT_EQ(writable.object, wanted);
  EXPECT_EQ(writable.left_out, "");
}

// Otherwise a scheduler would count the reserved CPUs as allocatable, and know no annotation from
// which to subtract them.
TEST_F(TopologyObjectTest, WithoutThemItIsAsAligndMakesItWithoutTheOption) {
  const std::string without = Object({});
  ASSERT_NE(Json::parse(without)["zones"], Json::parse(Object(koordinator_))["zones"]);
  const Writable writable = WritableBeside(Object(koordinator_), Existing(most_of_others_ + 1));
  EXPECT_EQ(Json::parse(writable.object), Json::parse(without));
  EXPECT_NE(writable.left_out.find("would have 262145 bytes"), std::string::npos)
      << writable.left_out;
}

TEST_F(TopologyObjectTest, WithoutTheOptionNothingIsLeftOut) {
  const std::string wanted = Object({});
  const Writable writable = WritableBeside(wanted, Existing(size_t{300} << 10));
  EXPECT_EQ(writable.object, wanted);
  EXPECT_EQ(writable.left_out, "");
}

}  // namespace
}  // namespace alignd::events
