#include "metrics/listen_address.h"

#include <gtest/gtest.h>

#include <string>

namespace alignd::metrics {
namespace {

TEST(ListenAddress, IsReadAndWritten) {
  const auto off = ParseListenAddress("off");
  ASSERT_TRUE(off.ok());
  EXPECT_FALSE(off->has_value());
  for (const std::string text :
       {"127.0.0.1:10271", "[::1]:1", "0.0.0.0:0", "unix:/run/alignd/metrics.sock"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_TRUE(address.ok() && address->has_value()) << text;
    EXPECT_EQ((*address)->ToString(), text);
  }
  EXPECT_EQ((*ParseListenAddress("unix:///run/a.sock"))->ToString(), "unix:/run/a.sock");
}

TEST(ListenAddress, OtherTextsAreErrors) {
  for (const std::string text :
       {"", "on", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:80 ", ":80", "::1:80", "[127.0.0.1]:80", "[::1]", "[::1]80", "1.2.3:80",
        "unix:", "unix:relative"}) {
    const auto address = ParseListenAddress(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(ListenAddress, InUseIsAnErrorWithARemedy) {
  const Result<host::Descriptor> first = Listen({.ip = "127.0.0.1"});
  ASSERT_TRUE(first.ok()) << first.error().Text();
  const uint16_t port = PortOf(*first);
  ASSERT_NE(port, 0);
  const Result<host::Descriptor> second = Listen({.ip = "127.0.0.1", .port = port});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(second.error().message,
            "listen on 127.0.0.1:" + std::to_string(port) + ": Address already in use");
  EXPECT_NE(second.error().remedy.find("ss -ltnp"), std::string::npos);
}

}  // namespace
}  // namespace alignd::metrics
