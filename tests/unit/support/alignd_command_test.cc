#include "edge/alignd_command.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "edge/fake_tree.h"

namespace alignd::testing {
namespace {

using std::chrono::milliseconds;

// Every option has another value than its default.
daemon::Options ChangedOptions(const FakeTree& tree) {
  tree.Write({"config.yaml", "{}"});
  tree.Write({"node.json", "{}"});
  daemon::Options options;
  options.config = tree.root() / "config.yaml";
  options.listen = "/a/alignd.sock";
  options.control_socket = "/a/c.sock";
  options.runtime_endpoint = "/a/runtime.sock";
  options.state_dir = "/a/state";
  options.on_bad_state = allocation::OnBadState::kRefuse;
  options.device_plugin_dir = "/a/plugins";
  options.pods_api_endpoint = "";
  options.annotated_extended_resources = false;
  options.not_devices = std::set<std::string>{"a.com/x", "a.com/y"};
  options.shared_pool_handlers = std::set<std::string>();
  options.plugins_registry = "/a/registry";
  options.pod_resources_socket = "/a/p.sock";
  options.mirror.emplace(mirror::BindingMode::kStrict);
  options.kubelet_device_plugin_dir = "/a/kubelet-plugins";
  options.kubelet_plugins_registry = "/a/kubelet-registry";
  options.root = "/a/root";
  options.node = tree.root() / "node.json";
  options.cgroup_root = "/a/cgroup";
  options.kubelet_dir = "/a/kubelet";
  options.cdi_spec_dirs = {"/a/cdi", "/b/cdi"};
  options.keep_pod_cpu_quota = true;
  options.resize_exclusive_cpus = allocation::CpuResizes::kCountOnly;
  options.may_move = "if-needed";
  options.on_refusal = {.waits = true, .fail_after_ms = 1500};
  options.compatibility = Compatibility::k1_36;
  options.pod_policies = {PodPolicy::kNumaTopologyPolicy};
  options.runtime_timeout = milliseconds(1);
  options.plugin_timeout = milliseconds(2);
  options.plugin_connect_timeout = milliseconds(3);
  options.plugin_preference_timeout = milliseconds(4);
  options.plugin_pre_start_timeout = milliseconds(5);
  options.plugin_grace = milliseconds(6);
  options.plugin_patience = milliseconds(7);
  options.metrics_address = "off";
  options.log_level = "debug";
  options.log_format = "text";
  return options;
}

std::optional<daemon::Options> OptionsOf(const std::vector<std::string>& command) {
  std::vector<const char*> words;
  for (const std::string& word : command) words.push_back(word.c_str());
  int exit_status = 0;
  return daemon::ParseOptions(static_cast<int>(words.size()), words.data(), exit_status);
}

TEST(AligndCommand, HasNoFlagForDefaults) {
  EXPECT_EQ(AligndCommand("alignd", {}), std::vector<std::string>{"alignd"});
}

TEST(AligndCommand, GivesAligndTheSameOptions) {
  const FakeTree tree;
  daemon::Options options = ChangedOptions(tree);
  std::optional<daemon::Options> parsed = OptionsOf(AligndCommand("alignd", options));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(AligndFlags(*parsed), AligndFlags(options));
  for (const auto mode : {mirror::BindingMode::kPreferred, mirror::BindingMode::kDeferred}) {
    options.mirror.emplace(mode);
    options.on_refusal = {.waits = false};
    parsed = OptionsOf(AligndCommand("alignd", options));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(AligndFlags(*parsed), AligndFlags(options));
  }
}

TEST(AligndCommand, KnowsEveryFlagOfAlignd) {
  const FakeTree tree;
  const std::vector<std::string> words = AligndCommand("alignd", ChangedOptions(tree));
  const std::set<std::string> known(words.begin(), words.end());
  const std::set<std::string> left_out = {"--check", "--help", "--mirror-resource", "--output",
                                          "--version"};
  daemon::DescribeOptions([&](const CLI::App& app) {
    for (const CLI::Option* const option : app.get_options()) {
      const std::string name = "--" + option->get_lnames().at(0);
      EXPECT_EQ(known.contains(name), !left_out.contains(name)) << name;
    }
  });
}

}  // namespace
}  // namespace alignd::testing
