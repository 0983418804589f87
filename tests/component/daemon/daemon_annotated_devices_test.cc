// Devices that a pod's annotation requests: followed or not as the configuration and the flag say,
// by the daemon's decisions, its reports and why-not.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "control/control_client.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonAnnotatedDevices : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.annotated_extended_resources = flag_;
    return options;
  }
  void StartWith(const std::string& field) {
    Start(StaticConfig(field.empty() ? "" : "annotatedExtendedResources: " + field + "\n"));
    StartGpus();
  }
  // Of a pod whose annotation requests one.
  int DevicesOfAPod() {
    const Running pod = RunOne(PodConfig("pod", "", Annotation(2, 1)), Pinned(2));
    EXPECT_EQ(CpusOf(pod.container), "1-2");
    return runtime_->FindContainer(pod.container)->config.devices_size();
  }
  // The value of the field, and where it is from.
  std::string Shown() const {
    const auto config = control::ControlClient(DaemonOptions().ControlSocket()).GetConfig();
    if (!config.ok()) return config.error().Text();
    for (const auto& setting : config->settings()) {
      if (setting.name() == "annotatedExtendedResources") {
        return setting.value() + " " + setting.source();
      }
    }
    return "";
  }
  // About a pod with two CPUs whose annotation requests these, and a GPU.
  Result<control::v1::WhyNotResponse> WhyNot(int cpus_of_annotation) const {
    const nlohmann::json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", "web"}, {"annotations", {{kResources, Annotation(cpus_of_annotation, 1)}}}}},
        {"spec",
         {{"containers",
           {{{"name", "app"},
             {"resources", {{"limits", {{"cpu", "2"}, {"memory", "100Mi"}}}}}}}}}}};
    control::v1::WhyNotRequest request;
    request.set_manifest(pod.dump());
    return control::ControlClient(DaemonOptions().ControlSocket()).WhyNot(request);
  }

  std::optional<bool> flag_;
};

TEST_F(DaemonAnnotatedDevices, AreAssignedByDefault) {
  StartWith("");
  EXPECT_EQ(Shown(), "true default");
  EXPECT_EQ(DevicesOfAPod(), 1);
}

TEST_F(DaemonAnnotatedDevices, AreNotAssignedIfTheFileSaysSo) {
  StartWith("false");
  EXPECT_EQ(Shown(), "false file");
  EXPECT_EQ(DevicesOfAPod(), 0);
}

TEST_F(DaemonAnnotatedDevices, AreNotAssignedIfTheFlagSaysSo) {
  flag_ = false;
  StartWith("true");
  EXPECT_EQ(Shown(), "false flag");
  EXPECT_EQ(DevicesOfAPod(), 0);
}

TEST_F(DaemonAnnotatedDevices, AreAssignedIfTheFlagOverridesTheFile) {
  flag_ = true;
  StartWith("false");
  EXPECT_EQ(Shown(), "true flag");
  EXPECT_EQ(DevicesOfAPod(), 1);
}

TEST_F(DaemonAnnotatedDevices, WhyNotAsksForNoneThatTheNodeDoesNotFollow) {
  StartWith("false");
  const auto why = WhyNot(2);
  ASSERT_TRUE(why.ok()) << why.error().Text();
  EXPECT_EQ(why->asked().find("nvidia.com/gpu"), std::string::npos) << why->asked();
  EXPECT_TRUE(why->fits());
}

// The CRI figures decide which of the two the daemon takes, and a manifest has none.
TEST_F(DaemonAnnotatedDevices, WhyNotLeavesOpenWhatAnAnnotationContradicts) {
  StartWith("");
  for (const int cpus : {2, 3}) {  // also if the devices alone are more
    const auto why = WhyNot(cpus);
    ASSERT_FALSE(why.ok()) << cpus;
    EXPECT_NE(why.error().message.find("undecided: "), std::string::npos) << why.error().Text();
  }
}

}  // namespace
}  // namespace alignd::daemon
