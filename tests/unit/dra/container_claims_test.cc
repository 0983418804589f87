#include "dra/container_claims.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace alignd::dra {
namespace {

const PreparedDevice kNear = {"d", "a", "s", {"d/g=1"}};
const PreparedDevice kFar = {"d", "b", "s", {"d/g=2", "d/m=2"}};
const PreparedDevice kUnnamed = {"e", "a", "eth0", {}};
// Pod p has all three, pod q shares the second claim.
const std::vector<PreparedClaim> kClaims = {{{"p"}, {kNear, kUnnamed}, "one", "ns"},
                                            {{"p", "q"}, {kFar}, "two", "ns"}};

ContainerClaims ClaimsWith(std::map<ContainerKey, std::set<std::string>> names) {
  return {kClaims, [names = std::move(names)](const ContainerKey& key) {
            const auto known = names.find(key);
            return known == names.end() ? std::nullopt : std::optional(known->second);
          }};
}

std::string TextOf(const std::vector<ContainerClaims::Device>& devices) {
  std::string text;
  for (const auto& [claim, device] : devices) text += claim + ":" + IdOf(device) + " ";
  return text;
}

TEST(ContainerClaims, AreKnownByCdiNames) {
  const ContainerClaims claims =
      ClaimsWith({{{"p", "a"}, {"d/g=1"}}, {{"p", "b"}, {"d/m=2", "x/y=z"}}, {{"p", "c"}, {}}});
  EXPECT_EQ(TextOf(claims.DevicesOf({"p", "a"})), "ns/one:d/a/s ");
  EXPECT_EQ(TextOf(claims.DevicesOf({"p", "b"})), "ns/two:d/b/s ");
  EXPECT_EQ(TextOf(claims.DevicesOf({"p", "c"})), "");
  EXPECT_EQ(claims.ClaimsOf({"p", "a"}), std::vector<PreparedClaim>{kClaims[0]});
  EXPECT_EQ(claims.ClaimsOf({"p", "b"}), std::vector<PreparedClaim>{kClaims[1]});
  EXPECT_TRUE(claims.ClaimsOf({"p", "c"}).empty());
  EXPECT_EQ(claims.Pods(), (std::set<std::string>{"p", "q"}));
}

// A device without a CDI name, and those of containers that are not known, are the pod's.
TEST(ContainerClaims, OthersAreThoseOfNoKnownContainer) {
  const ContainerClaims claims = ClaimsWith({{{"p", "a"}, {"d/g=1"}}});
  EXPECT_EQ(TextOf(claims.Others("p", {"a", "b"})), "ns/one:e/a/eth0 ns/two:d/b/s ");
  EXPECT_EQ(TextOf(claims.Others("p", {})), "ns/one:d/a/s ns/one:e/a/eth0 ns/two:d/b/s ");
  EXPECT_EQ(TextOf(claims.Others("q", {"a"})), "ns/two:d/b/s ");
  EXPECT_EQ(TextOf(claims.Others("r", {"a"})), "");
}

// The same names of another pod's container are no sign.
TEST(ContainerClaims, OfAnotherPodAreNot) {
  const ContainerClaims claims = ClaimsWith({{{"q", "a"}, {"d/g=1"}}, {{"r", "a"}, {"d/g=2"}}});
  EXPECT_TRUE(claims.ClaimsOf({"q", "a"}).empty());
  EXPECT_TRUE(claims.DevicesOf({"r", "a"}).empty());
}

}  // namespace
}  // namespace alignd::dra
