// Registry, allocation, bindings and mirror, driven by many threads at once: plugins that come, go
// and flood, a kubelet that is guided, pods that come and go, readers, and a disk that dies.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "core/property_seed.h"
#include "mirror_threads_fixture.h"

namespace alignd::mirror {
namespace {

using allocation::Allocated;

TEST_F(MirrorThreads, AllAtOnce) {
  constexpr int kPods = 60;  // of each of two threads
  Up();
  StartOthers();
  std::atomic<int> admitted = 0;
  std::vector<std::thread> pods;
  for (const char* thread : {"a", "b"}) {
    pods.emplace_back([&, thread] {
      for (int pod = 0; pod < kPods || (admitted == 0 && pod < 100'000); ++pod) {
        const Ids healthy = Healthy();
        if (healthy.empty()) continue;
        const std::string uid = thread + std::to_string(pod);
        const auto id = std::next(healthy.begin(),
                                  static_cast<int>(std::hash<std::string>()(uid) % healthy.size()));
        if (std::holds_alternative<Allocated>(Admit(uid, *id))) ++admitted;
        EXPECT_TRUE(Release(uid).ok());
      }
    });
  }
  for (std::thread& thread : pods) thread.join();
  StopOthers();
  // The kubelet's checkpoint is read on the io queue, perhaps only now.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto old = [this] { return manager_->snapshot()->state.devices.PodIds(kOld, kGpu); };
  while (old().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(old(), Ids{kOldGpu});
  EXPECT_TRUE(Release(kOld).ok());
  EXPECT_TRUE(manager_->bindings()->empty());
  EXPECT_TRUE(manager_->snapshot()->state.devices.allocations.empty());
  // Every question was answered, once.
  while (guided_ != asked_ && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(guided_, asked_);
}

// The runtime's containers and the ids that the kubelet allocated to them, which survive crashes.
class MirrorThreadsCrash : public MirrorThreads {
 protected:
  struct Running {
    std::string id;
    Ids devices;
  };

  // Pods are created and removed, also while all goes down.
  void Churn(const std::string& thread, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (int pod = 0; !churned_; ++pod) {
      if (random() % 2 == 0) {
        RemoveOne(random());
      } else {
        RunOne(thread + std::to_string(pod), random());
      }
    }
  }
  void RunOne(const std::string& uid, uint64_t which) {
    Ids free = Healthy();
    std::string id;
    {
      const MutexLock lock(mutex_);
      std::erase_if(
          free, [&](const auto& each) REQUIRES(mutex_) { return allocated_ids_.contains(each); });
      // Some stay free, so that there is something to choose from.
      if (free.empty() || allocated_ids_.size() >= 7) return;
      id = *std::next(free.begin(), static_cast<int>(which % free.size()));
      allocated_ids_.insert(id);
    }
    const allocation::Outcome outcome = Admit(uid, id);
    const MutexLock lock(mutex_);
    if (const auto* allocated = std::get_if<Allocated>(&outcome)) {
      running_[uid] = {id, allocated->assignments.at("app").devices.at(kGpu).Ids()};
    } else {
      allocated_ids_.erase(id);
    }
  }
  void RemoveOne(uint64_t which) {
    std::string uid;
    std::string id;
    {
      const MutexLock lock(mutex_);
      if (running_.empty()) return;
      const auto one = std::next(running_.begin(), static_cast<int>(which % running_.size()));
      uid = one->first;
      id = one->second.id;
      running_.erase(one);  // the runtime removed it first
    }
    (void)Release(uid);  // may fail; CheckRestored then releases it
    const MutexLock lock(mutex_);
    allocated_ids_.erase(id);
  }

  // Just after Up.
  void CheckRestored() {
    const MutexLock lock(mutex_);
    for (const std::string& uid : manager_->KnownPods()) {
      if (uid != kOld && !running_.contains(uid)) {
        EXPECT_TRUE(Release(uid).ok()) << uid;
      }
    }
    const admission::NodeState state = manager_->snapshot()->state;
    EXPECT_TRUE(state.BrokenInvariants(world_.node).empty());
    checkpoint::Bindings bound;
    Ids assigned = state.devices.PodIds(kOld, kGpu);  // once the plugin has come
    if (!assigned.empty()) {
      EXPECT_EQ(assigned, Ids{kOldGpu});
      bound[{kOld, "app"}][kGpu][kOldGpu] = kOldGpu;
    }
    for (const auto& [uid, running] : running_) {
      const auto* allocation = state.devices.Find({uid, "app"}, kGpu);
      ASSERT_NE(allocation, nullptr) << uid << " has lost its device";
      EXPECT_EQ(allocation->Ids(), running.devices) << uid;
      bound[{uid, "app"}][kGpu][running.id] = *running.devices.begin();
      for (const std::string& id : running.devices) {
        EXPECT_TRUE(assigned.insert(id).second) << id << " is assigned twice";
      }
    }
    EXPECT_EQ(*manager_->bindings(), bound);
    EXPECT_EQ(state.devices.AllocatedIds(kGpu), assigned);
  }
  size_t running() {
    const MutexLock lock(mutex_);
    return running_.size();
  }

  Mutex mutex_;
  std::map<std::string, Running> running_ GUARDED_BY(mutex_);
  // Of pods that the kubelet has not forgotten.
  Ids allocated_ids_ GUARDED_BY(mutex_) = {kOldGpu};
  std::atomic<bool> churned_ = false;
};

TEST_F(MirrorThreadsCrash, NoDeviceIsAssignedTwiceOrLostWheneverTheDiskFails) {
  std::mt19937_64 random = SeededRandom();
  const int starts = Iterations(25);
  for (int start = 0; start < starts && !HasFailure(); ++start) {
    SCOPED_TRACE("start " + std::to_string(start));
    // The first run goes on until there is an assignment to lose.
    const bool fails = start > 0;
    Up(fails ? std::optional(static_cast<int>(random() % 150)) : std::nullopt);
    StartOthers();
    churned_ = false;
    const std::string name = std::to_string(start);
    std::thread one([&, seed = random()] { Churn(name + "a", seed); });
    std::thread other([&, seed = random()] { Churn(name + "b", seed); });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!fails && running() == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(fails || running() > 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 40));
    StopOthers();
    Down();  // in the middle of what the pods' threads are doing
    churned_ = true;
    one.join();
    other.join();
    world_.disk.LosePower(/*undo_renames=*/random() % 2 == 0);
    Up();
    CheckRestored();
    Down();
  }
}

}  // namespace
}  // namespace alignd::mirror
