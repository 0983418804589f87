#include "daemon/inherited_socket.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace alignd::daemon {
namespace {

class InheritedSocketTest : public ::testing::Test {
 protected:
  ~InheritedSocketTest() override {
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
  }
  static void Pass(const std::string& pid, const std::string& count) {
    setenv("LISTEN_PID", pid.c_str(), /*replace=*/1);
    setenv("LISTEN_FDS", count.c_str(), /*replace=*/1);
  }
  static Result<std::optional<host::Descriptor>> Take() {
    return TakeInheritedSocket("/run/alignd/alignd.sock");
  }
};

TEST_F(InheritedSocketTest, NoneWithoutVariables) {
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.error().Text();
  EXPECT_FALSE(taken->has_value());
}

TEST_F(InheritedSocketTest, NoneIfItIsForAnotherProcess) {
  Pass(std::to_string(getppid()), "1");
  const auto taken = Take();
  ASSERT_TRUE(taken.ok()) << taken.error().Text();
  EXPECT_FALSE(taken->has_value());
}

TEST_F(InheritedSocketTest, VariablesThatAreNoNumbersAreNamed) {
  Pass(std::to_string(getpid()), "1x");
  const auto count = Take();
  ASSERT_FALSE(count.ok());
  EXPECT_NE(count.error().message.find("LISTEN_FDS is not a positive number: `1x`"),
            std::string::npos)
      << count.error().message;
  EXPECT_EQ(std::getenv("LISTEN_PID"), nullptr);  // child processes find nothing
  Pass("-1", "1");
  const auto pid = Take();
  ASSERT_FALSE(pid.ok());
  EXPECT_NE(pid.error().message.find("LISTEN_PID"), std::string::npos) << pid.error().message;
}

}  // namespace
}  // namespace alignd::daemon
