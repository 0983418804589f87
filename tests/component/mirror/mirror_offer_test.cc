// A kubelet that does not take an offer finds the next one.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "edge/hand_written.h"
#include "edge/unix_socket.h"
#include "mirror_fixture.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

class MirrorOffer : public MirrorTest {
 protected:
  MirrorOffer() {
    mirror_patience_ = milliseconds(300);
    fs::create_directories(Registry());
  }

  fs::path Socket(const std::string& which = "") const {
    return Registry() / ("alignd-" + mirror::ResourceHash(kGpu) + which + ".sock");
  }
  // As after a kill.
  void LeaveStaleSocket() const {
    testing::BindUnix(Socket());  // closed at once
    ASSERT_TRUE(fs::exists(Socket()));
  }
  // One that, once it could not register a socket, leaves it alone for longer than a test lasts.
  void StartUnforgivingKubelet() {
    simulator::KubeletTiming timing = QuickKubelet();
    timing.dial = milliseconds(100);
    timing.first_backoff = timing.last_backoff = std::chrono::hours(1);
    auto kubelet = simulator::KubeletDevices::Start(Registry(), timing, KubeletCheckpoint());
    ASSERT_TRUE(kubelet.ok()) << kubelet.error().Text();
    kubelet_ = *std::move(kubelet);
  }
};

// alignd was killed, and then the kubelet started: it has tried the dead socket before alignd came
// back, and would not look at that name again for up to two minutes.
TEST_F(MirrorOffer, KubeletThatGaveUpAStaleSocketTakesTheNext) {
  LeaveStaleSocket();
  StartUnforgivingKubelet();
  std::this_thread::sleep_for(milliseconds(500));  // it dials for 100 ms, then stops
  Start();
  StartGpus();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_FALSE(fs::exists(Socket()));
  const Created pod = RunPod("one", 3, 1);
  ASSERT_TRUE(pod.status.ok()) << pod.status.error_message();
  EXPECT_EQ(GpusOf(pod.seen), kubelet_->IdsOf({"one", "app"}, kGpu));
}

TEST_F(MirrorOffer, OfferThatIsTakenStays) {
  Start();
  StartGpus();
  StartKubelet();
  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  // The kubelet may have missed the first offer; the one that it took stays.
  const auto only_socket = [&] {
    std::string name;
    for (const auto& entry : fs::directory_iterator(Registry())) name += entry.path().filename();
    return name;
  };
  const std::string taken = only_socket();
  std::this_thread::sleep_for(10 * mirror_patience_);
  EXPECT_EQ(only_socket(), taken);
  EXPECT_EQ(kubelet_->Healthy(kGpu), AllGpus());
}

// However long the kubelet is down, there is one offer, and it takes that at once.
TEST_F(MirrorOffer, KubeletThatIsDownForLongFindsOneOffer) {
  mirror_patience_ = milliseconds(20);
  Start();
  StartGpus();
  EXPECT_TRUE(Eventually([&] { return fs::exists(Socket("-3")); }));
  StartKubelet();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  EXPECT_EQ(std::distance(fs::directory_iterator(Registry()), fs::directory_iterator()), 1);
  StopDaemon();
  EXPECT_TRUE(fs::is_empty(Registry()));
}

// gRPC's server held a caller to its calls at a time only if the caller acknowledged that limit:
// 100,000 calls took gigabytes.
TEST_F(MirrorOffer, FloodOfCallsIsRefused) {
  Start();
  StartGpus();
  ASSERT_TRUE(Eventually([&] { return fs::exists(Socket()); }));
  testing::HandWritten flood(Socket());
  constexpr uint32_t kCalls = 1000;
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(flood.Send(flood.CallFrames(2 * i + 1, "/v1beta1.DevicePlugin/ListAndWatch")));
  }
  for (uint32_t refused = 0; refused < kCalls - 100;) {
    const std::optional<uint8_t> type = flood.NextFrame();
    ASSERT_TRUE(type) << "closed after " << refused << " refused streams";
    if (*type == NGHTTP2_RST_STREAM) ++refused;
  }
  StartUnforgivingKubelet();
  EXPECT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
}

}  // namespace
}  // namespace alignd::daemon
