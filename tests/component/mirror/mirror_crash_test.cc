// Random crash points: plugin, kubelet and alignd go and come back at any time between the steps of
// pods with devices. No device is assigned twice, none is lost.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/property_seed.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

using Ids = std::set<std::string>;

class MirrorCrash : public MirrorTest {
 protected:
  // Calls are held for a plugin that is started by a later step.
  MirrorCrash() { patience_ = milliseconds(200); }

  struct Pod {
    std::string sandbox;
    Ids gpus;  // of its running container; empty: none was created yet
    int wants = 1;
    int attempt = 0;
  };

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  void Crash() {
    switch (Below(4)) {
      case 0:
        gpus_.reset();
        if (Below(2) == 0) StartGpus();
        break;
      case 1:
        ASSERT_TRUE(kubelet_->Restart().ok());
        break;
      case 2:
        StopDaemon();
        StartDaemon();
        break;
      default:  // the machine: no container survives
        gpus_.reset();
        StopDaemon();
        runtime_.reset();
        watch_.Forget();
        ASSERT_TRUE(kubelet_->Restart().ok());
        Start();
        for (auto& [uid, pod] : pods_) {
          pod.sandbox.clear();
          pod.gpus.clear();
        }
        break;
    }
  }

  // One more step of some pod, as far as it can be done at the moment.
  void Step() {
    const uint32_t choice = Below(4);
    if (choice == 0 || pods_.empty()) {
      const std::string uid = "pod" + std::to_string(++last_pod_);
      const int wants = 1 + static_cast<int>(Below(2));
      if (kubelet_->Admit({uid, "app"}, {{kGpu, wants}}).ok()) pods_[uid].wants = wants;
      return;
    }
    auto pod = pods_.begin();
    std::advance(pod, Below(static_cast<uint32_t>(pods_.size())));
    if (choice == 1) {
      if (!pod->second.sandbox.empty()) {
        ASSERT_TRUE(StopSandbox(pod->second.sandbox).ok());
        ASSERT_TRUE(RemoveSandbox(pod->second.sandbox).ok());
      }
      EXPECT_TRUE(kubelet_->Forget(pod->first).ok());
      pods_.erase(pod);
      return;
    }
    CreateOne(pod->first, pod->second);
  }

  void CreateOne(const std::string& uid, Pod& pod) {
    const v1::PodSandboxConfig config = BurstablePod(uid);
    if (pod.sandbox.empty()) pod.sandbox = Run(config);
    v1::ContainerConfig container = Shared();
    container.mutable_metadata()->set_attempt(static_cast<uint32_t>(pod.attempt));
    const Created created = CreateIn(pod.sandbox, config, container);
    if (!created.status.ok()) return;  // the kubelet tries again
    ++pod.attempt;
    const Ids gpus = GpusOf(created.seen);
    EXPECT_EQ(gpus.size(), static_cast<size_t>(pod.wants)) << uid;
    EXPECT_FALSE(HasMarker(created.seen));
    // A container that starts again has what it had.
    if (!pod.gpus.empty()) {
      EXPECT_EQ(gpus, pod.gpus) << uid;
    }
    pod.gpus = gpus;
  }

  void CheckNoDeviceIsShared() const {
    std::map<std::string, std::string> holder;
    for (const auto& [uid, pod] : pods_) {
      for (const std::string& gpu : pod.gpus) {
        const auto [place, is_new] = holder.emplace(gpu, uid);
        EXPECT_TRUE(is_new) << gpu << " is assigned to " << place->second << " and to " << uid;
      }
    }
  }

  // With everybody there again all pods get what they want, and nothing is missing afterwards.
  void CheckNothingIsLost() {
    if (gpus_ == nullptr) StartGpus();
    ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
    for (auto& [uid, pod] : pods_) {
      EXPECT_TRUE(Eventually([&, &name = uid, &wanting = pod] {
        CreateOne(name, wanting);
        return !wanting.gpus.empty();
      })) << uid;
    }
    CheckNoDeviceIsShared();
  }

  std::mt19937_64 random_;
  std::map<std::string, Pod> pods_;
  int last_pod_ = 0;
};

TEST_F(MirrorCrash, NoDeviceIsGivenTwiceOrLost) {
  const uint64_t seed = FromEnvironment("ALIGND_SEED", 1);
  const uint64_t points = FromEnvironment("ALIGND_ITERATIONS", 25);
  SCOPED_TRACE("ALIGND_SEED=" + std::to_string(seed));
  random_.seed(seed);
  StartAll();
  for (uint64_t point = 0; point < points && !HasFailure(); ++point) {
    SCOPED_TRACE("crash point " + std::to_string(point));
    for (uint32_t steps = Below(4); steps > 0; --steps) Step();
    Crash();
    for (uint32_t steps = Below(3); steps > 0; --steps) Step();
    CheckNoDeviceIsShared();
    if (point % 5 == 4) CheckNothingIsLost();
  }
  CheckNothingIsLost();
  for (auto& [uid, pod] : pods_) {
    if (!pod.sandbox.empty()) RemovePod(uid, pod.sandbox);
    EXPECT_TRUE(kubelet_->Forget(uid).ok());
  }
  pods_.clear();
  // A kubelet that registers the plugin again drops the call that is under way.
  Created all;
  EXPECT_TRUE(Eventually([&] {
    const std::string uid = "all" + std::to_string(++last_pod_);
    all = RunPod(uid, 0, 3);
    if (!all.status.ok()) {
      EXPECT_TRUE(kubelet_->Forget(uid).ok());
    }
    return all.status.ok();
  })) << all.status.error_message();
  EXPECT_EQ(GpusOf(all.seen), AllGpus());
}

}  // namespace
}  // namespace alignd::daemon
