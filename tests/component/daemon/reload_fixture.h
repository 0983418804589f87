// alignd as a process whose configuration is changed while containers run.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "control/control_client.h"
#include "process_fixture.h"

namespace alignd::daemon {

inline std::string ConfigWith(const std::string& reserved, const std::string& more = "") {
  return "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
         "cpuManagerPolicy: static\nreservedSystemCPUs: \"" +
         reserved + "\"\ncpuManagerReconcilePeriod: 2s\n" + more;
}

inline constexpr char kStrict[] = "cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n";

class DaemonReload : public DaemonProcessTest {
 protected:
  DaemonReload() {
    tree_.Write({"config.yaml", ConfigWith("0")});
    StartRuntime();
  }

  // Ready, and the runtime has been listed.
  void StartProcess() {
    LaunchAlignd(DaemonOptions(), wrapper_);
    ASSERT_TRUE(alignd_->WaitForLog("ready: ")) << alignd_->Log();
    AwaitListing();
    client_ = DialAsTheKubelet(DaemonOptions().listen);
  }

  // Until then, no change is planned.
  void AwaitListing() const {
    control::v1::ChangeRequest request;
    request.set_config(ConfigWith("0"));
    EXPECT_TRUE(Eventually([&] { return Control().PlanChange(request).ok(); })) << alignd_->Log();
  }

  // How often the log has the text.
  size_t Logged(const std::string& text) const {
    const std::string log = alignd_->Log();
    size_t count = 0;
    for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) ++count;
    return count;
  }

  void Reload(const std::string& config,
              const std::string& outcome = "reloaded: the configuration applies") {
    tree_.Write({"config.yaml", config});
    const size_t before = Logged(outcome);
    ASSERT_EQ(kill(alignd_->pid(), SIGHUP), 0);
    ASSERT_TRUE(Eventually([&] { return Logged(outcome) > before; })) << alignd_->Log();
    AwaitListing();
  }

  control::ControlClient Control() const {
    return control::ControlClient(DaemonOptions().ControlSocket(), kPatience);
  }

  // The messages of the condition that the file is not applied.
  std::string NotApplied() const {
    std::string all;
    for (const auto& condition : testing::ConditionsOf(
             DaemonOptions().ControlSocket(), reconcile::ConditionType::kConfigurationNotApplied)) {
      all += condition.message() + "\n";
    }
    return all;
  }

  // The outcome of the change, and its message.
  std::string Outcome(uint64_t change) const {
    std::string outcome;
    EXPECT_TRUE(Eventually([&] {
      const auto answer = Control().GetChange(change);
      if (!answer.ok() || answer->outcome() == "pending") return false;
      outcome = answer->outcome() + (answer->message().empty() ? "" : ": ") + answer->message();
      return true;
    }));
    return outcome;
  }

  std::vector<std::string> wrapper_;  // as for LaunchAlignd
};

}  // namespace alignd::daemon
