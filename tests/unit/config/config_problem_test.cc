#include "alignd/config/config_problem.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace alignd {
namespace {

TEST(ConfigProblem, EveryOneIsFound) {
  const ReadConfig read = ReadKubeletConfig(R"({
      "cpuManagerPolicy": "sttaic",
      "topologyManagerPolcy": "restricted",
      "topologyManagerScope": "Pod",
      "memoryManagerPolicy": "Static",
      "kubeReserved": {"cpu": "much"},
      "reservedSystemCPUs": "0-",
      "maxPod": 5})");
  std::vector<std::string> found;
  for (const ConfigProblem& problem : read.problems) {
    found.push_back(problem.field + "=" + problem.value + " " + problem.error.remedy);
    EXPECT_TRUE(problem.error.message.starts_with(problem.field)) << problem.error.message;
  }
  EXPECT_EQ(found, (std::vector<std::string>{
                       "maxPod=5 did you mean maxPods?",
                       R"(topologyManagerPolcy="restricted" did you mean topologyManagerPolicy?)",
                       R"(cpuManagerPolicy="sttaic" did you mean static?)",
                       R"(topologyManagerScope="Pod" did you mean pod?)",
                       R"(kubeReserved={"cpu":"much"} )", R"(reservedSystemCPUs="0-" )"}));
  // The fields without a problem are read.
  EXPECT_EQ(read.config.memory_manager_policy, MemoryManagerPolicy::kStatic);
}

TEST(ConfigProblem, TheFirstIsTheErrorOfParseKubeletConfig) {
  const std::string json = R"({"kind": "Pod", "maxPod": 5, "topologyManagerScope": 7})";
  const ReadConfig read = ReadKubeletConfig(json);
  ASSERT_EQ(read.problems.size(), 3u);
  const auto parsed = ParseKubeletConfig(json);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error(), read.problems.front().error);
  EXPECT_TRUE(ReadKubeletConfig("{}").problems.empty());
}

TEST(ConfigProblem, ATextThatIsNoObjectIsOneProblem) {
  for (const char* const text : {"[]", "7", "{", ""}) {
    const ReadConfig read = ReadKubeletConfig(text);
    ASSERT_EQ(read.problems.size(), 1u) << text;
    EXPECT_EQ(read.problems.front().field, "") << text;
  }
}

TEST(ConfigProblem, ALongValueIsCut) {
  const ReadConfig read =
      ReadKubeletConfig(R"({"cpuManagerPolicy": ")" + std::string(5000, 'x') + "\"}");
  ASSERT_EQ(read.problems.size(), 1u);
  EXPECT_LT(read.problems.front().value.size(), 300u);
}

TEST(SuggestName, IsOneThatIsMeant) {
  const std::vector<std::string_view> names = {"full-pcpus-only", "align-by-socket", "pod"};
  EXPECT_EQ(SuggestName("full-pcpu-only", names, "none"), "did you mean full-pcpus-only?");
  EXPECT_EQ(SuggestName("Align-By-Socket", names, "none"), "did you mean align-by-socket?");
  EXPECT_EQ(SuggestName("strict-cpu-reservation", names, "none"), "none");
  EXPECT_EQ(SuggestName("", names, "none"), "none");  // as far from "pod" as "pod" is long
  EXPECT_EQ(SuggestName("podd", names, "none"), "did you mean pod?");
}

}  // namespace
}  // namespace alignd
