// The fingerprint of the pods of a node, against signatures of the Go package that schedulers use.
#include "alignd/noderesourcetopology/pod_fingerprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace alignd::noderesourcetopology {
namespace {

TEST(PodFingerprintTest, HashesAsTheSpecification) {
  EXPECT_EQ(Xxh64(""), 0xEF46DB3751D8E999U);
  EXPECT_EQ(Xxh64("a"), 0xD24EC4F1A98C6E5BU);
  EXPECT_EQ(Xxh64("abc"), 0x44BC2CF5AD770999U);
  // Longer than a stripe of 32 bytes.
  EXPECT_EQ(Xxh64("No"
                  "body inspects the spammish repetition"),
            0xFBCEA83C8A378BF1U);
}

// The pods and signatures are those of podfingerprint testdata/compat-tiny-3pods-1ns and
// compat-small-10pods-3ns.
TEST(PodFingerprintTest, SignsAsTheGoPackage) {
  std::vector<PodIdentity> pods = {
      {"production", "jaeger-dpgjk"}, {"production", "nginx-rt684"}, {"production", "envoy-g9m22"}};
  EXPECT_EQ(PodFingerprint(pods), "pfp0v001607b76a0e9d3aeb4");
  std::ranges::reverse(pods);
  EXPECT_EQ(PodFingerprint(pods), "pfp0v001607b76a0e9d3aeb4");
  pods.back().name = "jaeger-dpgjl";
  EXPECT_NE(PodFingerprint(pods), "pfp0v001607b76a0e9d3aeb4");
  EXPECT_EQ(PodFingerprint({{"analytics", "controller-69dkj"},
                            {"kube-public", "subscriber-tq6v7"},
                            {"kube-public", "transformer-hfbng"},
                            {"kube-public", "validator-c6pn5"},
                            {"kube-system", "proxy-wszrd"},
                            {"middleware", "processor-jkrl4"},
                            {"network", "gateway-vsll5"},
                            {"network", "importer-kzdfr"},
                            {"network", "importer-q5vt9"},
                            {"staging", "prometheus-bwgbn"}}),
            "pfp0v001567144e4a561bb5a");
}

TEST(PodFingerprintTest, OfUidsNeedsAllOfThem) {
  const auto of = [](const std::string& uid) { return UidFingerprint({{"ns", "a", uid}}); };
  EXPECT_EQ(of("1"), of("1"));
  EXPECT_NE(of("1"), of("2"));
  EXPECT_NE(of("1"), std::nullopt);
  EXPECT_EQ(of(""), std::nullopt);
  EXPECT_EQ(UidFingerprint({{"ns", "a", "1"}}), UidFingerprint({{"ns", "b", "1"}}));
}

TEST(PodFingerprintTest, NoPodsHaveAFingerprintToo) {
  EXPECT_EQ(PodFingerprint({}), "pfp0v001ef46db3751d8e999");
}

}  // namespace
}  // namespace alignd::noderesourcetopology
