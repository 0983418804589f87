#include "daemon/options.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace alignd::daemon {
namespace {

using mirror::BindingMode;

struct Parsed {
  std::optional<Options> options;
  int exit_status = 0;
  std::string printed;  // on standard error
};

Parsed Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "alignd");
  Parsed parsed;
  ::testing::internal::CaptureStderr();
  parsed.options =
      ParseOptions(static_cast<int>(arguments.size()), arguments.data(), parsed.exit_status);
  parsed.printed = ::testing::internal::GetCapturedStderr();
  return parsed;
}

// "value (source)" of an option as `alignctl config show` has it.
std::string GivenValue(const Options& options, const std::string& name) {
  for (const GivenOption& option : options.given) {
    if (option.name == name) return option.value + " (" + option.source + ")";
  }
  return "none";
}

TEST(Options, NoteTheValueAndSourceOfEveryFlag) {
  const Parsed parsed = Parse({"--listen=unix:///x/alignd.sock", "--state-dir", "/s",
                               "--keep-pod-cpu-quota", "--not-devices=a.com/x,a.com/y"});
  ASSERT_TRUE(parsed.options) << parsed.printed;
  EXPECT_EQ(GivenValue(*parsed.options, "--listen"), "unix:///x/alignd.sock (flag)");
  EXPECT_EQ(GivenValue(*parsed.options, "--control-socket"), "unix:///x/control.sock (default)");
  EXPECT_EQ(GivenValue(*parsed.options, "--device-plugin-dir"), "/s/device-plugins (default)");
  EXPECT_EQ(GivenValue(*parsed.options, "--keep-pod-cpu-quota"), "true (flag)");
  EXPECT_EQ(GivenValue(*Parse({}).options, "--keep-pod-cpu-quota"), "false (default)");
  EXPECT_EQ(GivenValue(*parsed.options, "--not-devices"), "a.com/x,a.com/y (flag)");
  EXPECT_EQ(GivenValue(*parsed.options, "--annotated-extended-resources"), " (default)");
  const Parsed without = Parse({"--annotated-extended-resources=false"});
  EXPECT_EQ(GivenValue(*without.options, "--annotated-extended-resources"), "false (flag)");
  EXPECT_EQ(without.options->annotated_extended_resources, false);
  EXPECT_EQ(GivenValue(*parsed.options, "--plugin-timeout-ms"), "30000 (default)");
  EXPECT_EQ(GivenValue(*parsed.options, "--help"), "none");
  EXPECT_GT(parsed.options->given.size(), 25u);
}

TEST(Options, PodPoliciesOverrideTheConfiguration) {
  EXPECT_FALSE(Parse({}).options->pod_policies);
  EXPECT_TRUE(Parse({"--pod-policies=off"}).options->pod_policies->empty());
  EXPECT_EQ(*Parse({"--pod-policies=numaTopologyPolicy"}).options->pod_policies,
            std::set<PodPolicy>{PodPolicy::kNumaTopologyPolicy});
  const Parsed wrong = Parse({"--pod-policies=numa"});
  EXPECT_FALSE(wrong.options);
  EXPECT_NE(wrong.printed.find("\"numa\" is no policy that pods can choose"), std::string::npos)
      << wrong.printed;
}

TEST(Options, MirrorIsOffByDefault) {
  ASSERT_TRUE(Parse({}).options);
  EXPECT_FALSE(Parse({}).options->mirror);
  EXPECT_FALSE(Parse({"--mirror=off"}).options->mirror);
}

TEST(Options, MirrorModeIsThatOfTheFirstRuleThatMatches) {
  EXPECT_EQ(Parse({"--mirror=deferred"}).options->mirror->Of("a.com/b"), BindingMode::kDeferred);
  EXPECT_EQ(Parse({"--mirror=strict"}).options->mirror->Of("a.com/b"), BindingMode::kStrict);
  EXPECT_EQ(Parse({"--mirror=counted"}).options->mirror->Of("a.com/b"), BindingMode::kStrict);
  const Parsed parsed = Parse({"--mirror=preferred", "--mirror-resource=intel.com/vf=deferred",
                               "--mirror-resource", "intel.com/*=strict"});
  ASSERT_TRUE(parsed.options) << parsed.printed;
  EXPECT_EQ(parsed.options->mirror->Of("intel.com/vf"), BindingMode::kDeferred);
  EXPECT_EQ(parsed.options->mirror->Of("intel.com/vf2"), BindingMode::kStrict);
  EXPECT_EQ(parsed.options->mirror->Of("nvidia.com/gpu"), BindingMode::kPreferred);
}

TEST(Options, PodsThatDoNotFitWaitByDefault) {
  EXPECT_EQ(Parse({}).options->on_refusal, OnRefusal{});
  EXPECT_EQ(GivenValue(*Parse({}).options, "--on-refusal"), "wait (default)");
  EXPECT_FALSE(Parse({"--on-refusal=refuse"}).options->on_refusal.waits);
  const Parsed parsed = Parse({"--on-refusal", "fail-after=90s"});
  EXPECT_EQ(parsed.options->on_refusal.fail_after_ms, 90'000);
  EXPECT_EQ(GivenValue(*parsed.options, "--on-refusal"), "fail-after=90s (flag)");
  const Parsed wrong = Parse({"--on-refusal=fail-after=soon"});
  EXPECT_FALSE(wrong.options);
  EXPECT_NE(wrong.printed.find("fail-after=10m"), std::string::npos) << wrong.printed;
}

TEST(Options, ResourcesThatAreNoDevicesAreSeparatedByCommas) {
  EXPECT_FALSE(Parse({}).options->not_devices);
  EXPECT_EQ(Parse({"--not-devices", ""}).options->not_devices, std::set<std::string>{});
  // Others have no effect, and a warning.
  EXPECT_EQ(Parse({"--not-devices=a.com/b,cpu"}).options->not_devices,
            (std::set<std::string>{"a.com/b", "cpu"}));
  EXPECT_EQ(
      Parse({"--not-devices=a.com/b,a.com/c", "--not-devices", "d.com/e"}).options->not_devices,
      (std::set<std::string>{"a.com/b", "a.com/c", "d.com/e"}));
}

TEST(Options, CdiDirectoriesAreSeparatedByCommasAndAbsolute) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(Parse({}).options->cdi_spec_dirs, (Paths{"/etc/cdi", "/var/run/cdi"}));
  EXPECT_EQ(Parse({"--cdi-spec-dirs=/a,/b"}).options->cdi_spec_dirs, (Paths{"/a", "/b"}));
  EXPECT_EQ(Parse({"--cdi-spec-dirs", ""}).options->cdi_spec_dirs, Paths{});
  const Parsed wrong = Parse({"--cdi-spec-dirs=/a,b"});
  EXPECT_FALSE(wrong.options);
  EXPECT_NE(wrong.printed.find("\"b\""), std::string::npos) << wrong.printed;
}

TEST(Options, HandlersOfTheSharedPoolAreSeparatedByCommas) {
  using Names = std::set<std::string>;
  EXPECT_FALSE(Parse({}).options->shared_pool_handlers);
  EXPECT_EQ(Parse({"--shared-pool-handlers=a,b-*"}).options->shared_pool_handlers,
            (Names{"a", "b-*"}));
  EXPECT_EQ(Parse({"--shared-pool-handlers", ""}).options->shared_pool_handlers, Names{});
  const Parsed wrong = Parse({"--shared-pool-handlers=a,*-b"});
  EXPECT_FALSE(wrong.options);
  EXPECT_NE(wrong.printed.find("\"*-b\""), std::string::npos) << wrong.printed;
}

TEST(Options, MirrorErrorsAreReported) {
  const struct {
    std::vector<const char*> arguments;
    const char* error;
  } kCases[] = {
      {{"--mirror=counter"}, "counter"},
      {{"--mirror=steered", "--mirror-resource=intel.com/vf"}, "no mode"},
      {{"--mirror=steered", "--mirror-resource=intel.com/vf=never"}, "\"never\" is none of"},
      {{"--mirror=steered", "--mirror-resource=cpu=late"}, "a name like example.com/gpu"},
      {{"--mirror-resource=intel.com/vf=counted"}, "--mirror is off"},
  };
  for (const auto& c : kCases) {
    const Parsed parsed = Parse(c.arguments);
    EXPECT_FALSE(parsed.options);
    EXPECT_EQ(parsed.exit_status, kWrongCommandLine);
    EXPECT_NE(parsed.printed.find(c.error), std::string::npos) << parsed.printed;
  }
}

TEST(Options, NoTwoServersShareASocket) {
  Options options;
  options.listen = "unix:///run/alignd-test/cri.sock";
  options.runtime_endpoint = "/run/containerd-test.sock";
  EXPECT_TRUE(RequireOwnSockets(options).ok());
  options.metrics_address = "unix:/run/alignd-test/metrics.sock";
  EXPECT_TRUE(RequireOwnSockets(options).ok());
  for (const char* const path : {"/run/alignd-test/cri.sock", "/run/containerd-test.sock"}) {
    options.metrics_address = std::string("unix:") + path;
    const Result<Done> checked = RequireOwnSockets(options);
    ASSERT_FALSE(checked.ok()) << path;
    EXPECT_EQ(checked.error().message,
              std::string("--metrics-address is the socket of CRI: ") + path);
  }
  options.metrics_address = "off";
  options.listen = options.runtime_endpoint;
  EXPECT_FALSE(RequireOwnSockets(options).ok());
}

}  // namespace
}  // namespace alignd::daemon
