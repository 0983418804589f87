// Devices of a plugin, in a real container.
#include <gtest/gtest.h>

#include <string>

#include "real_node.h"

namespace alignd::testing {
namespace {

TEST_F(RealNode, DevicesAreInjectedAndSurviveACrash) {
  StartDevices(1);
  const std::string limits = std::string("cpu: 1, memory: 64Mi, ") + kGpu + ": 1";
  const PodManifest pod = MakePod("gpu", limits);
  const std::string id = Run(pod);
  ASSERT_NE(id, "");

  const auto env = kubelet_->Exec(id, {"sh", "-c", "echo $VISIBLE_GPUS"});
  ASSERT_TRUE(env.ok()) << env.error().Text();
  EXPECT_EQ(*env, "gpu-0\n");
  const auto device = kubelet_->Exec(id, {"stat", "-c", "%F %t:%T", "/dev/gpu0"});
  ASSERT_TRUE(device.ok()) << device.error().Text();
  EXPECT_EQ(*device, "character special file 1:3\n");
  // The device cgroup allows its use.
  const auto written = kubelet_->Exec(id, {"sh", "-c", "echo x > /dev/gpu0"});
  EXPECT_TRUE(written.ok()) << written.error().Text();
  const auto mount = kubelet_->Exec(id, {"cat", "/driver-version"});
  ASSERT_TRUE(mount.ok()) << mount.error().Text();
  EXPECT_EQ(*mount, ReadText("/proc/version"));

  const std::string devices = "state/device-plugins/kubelet_internal_checkpoint";
  const std::string checkpoint = ReadText(tree_.root() / devices);
  EXPECT_NE(checkpoint.find(R"("DeviceIDs":{"0":["gpu-0"]})"), std::string::npos) << checkpoint;
  CrashAndRestartAlignd();
  StartDevices(1);
  EXPECT_NE(RunAndFail(MakePod("second", std::string(kGpu) + ": 1")), "")
      << "a device was allocated twice";
  Remove(pod);
  EXPECT_EQ(RunAndFail(MakePod("third", std::string(kGpu) + ": 1")), "");
}

}  // namespace
}  // namespace alignd::testing
