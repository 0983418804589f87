#include "alignd/pod/shared_pool_handlers.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd {
namespace {

TEST(SharedPoolHandlers, MatchNamesAndBeginnings) {
  const SharedPoolHandlers handlers({"runsc", "kata-*"});
  for (const char* const shared : {"runsc", "kata-", "kata-qemu"}) {
    EXPECT_TRUE(handlers.Contains(shared)) << shared;
  }
  for (const char* const other : {"", "runs", "runsc2", "runc", "kata", "my-kata-qemu", "RUNSC"}) {
    EXPECT_FALSE(handlers.Contains(other)) << other;
  }
}

// The runtime's default handler has no name, so nothing is known of it.
TEST(SharedPoolHandlers, AnyNameIsStillAName) {
  const SharedPoolHandlers handlers({"*"});
  EXPECT_TRUE(handlers.Contains("runc"));
  EXPECT_FALSE(handlers.Contains(""));
  EXPECT_FALSE(SharedPoolHandlers().Contains("runsc"));
  EXPECT_FALSE(SharedPoolHandlers().Contains(""));
}

TEST(SharedPoolHandlers, AreThoseOfGvisorAndKataByDefault) {
  const SharedPoolHandlers handlers(DefaultSharedPoolHandlers());
  for (const char* const shared :
       {"runsc", "runsc-kvm", "gvisor", "gvisor-gpu", "kata", "kata-clh"}) {
    EXPECT_TRUE(handlers.Contains(shared)) << shared;
  }
  for (const char* const other : {"", "runc", "crun", "nvidia", "katana"}) {
    EXPECT_FALSE(handlers.Contains(other)) << other;
  }
}

TEST(SharedPoolHandlers, StarStandsOnlyAtTheEnd) {
  for (const char* const good : {"", "runsc", "kata-*", "*"}) {
    EXPECT_TRUE(CheckHandlerName(good).ok()) << good;
  }
  for (const char* const bad : {"*-kata", "a*b", "kata**"}) {
    const Result<Done> checked = CheckHandlerName(bad);
    ASSERT_FALSE(checked.ok()) << bad;
    EXPECT_NE(checked.error().Text().find(std::string("\"") + bad + "\""), std::string::npos);
  }
}

}  // namespace
}  // namespace alignd
