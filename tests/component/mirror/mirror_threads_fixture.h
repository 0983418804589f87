// Registry, allocation, bindings and mirror without gRPC, which the thread sanitizer cannot check.
// The plugins and the kubelet call from threads of their own, and the disk may fail.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/devicemanager/device_policy.h"
#include "allocation/allocation_manager.h"
#include "deviceplugin/plugin_registry.h"
#include "edge/allocation_node.h"
#include "living.h"
#include "mirror/binding_table.h"
#include "mirror/mirror.h"
#include "mirror/mirrored_devices.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::mirror {
using deviceplugin::PluginConnection;
using testing::kGpu;
using Ids = std::set<std::string>;

inline Error Gone() { return {ErrorCode::kUnavailable, "gone"}; }

inline v1beta1::ListAndWatchResponse ListWithout(int unhealthy) {
  v1beta1::ListAndWatchResponse list;
  for (int i = 0; i < 8; ++i) {
    v1beta1::Device& device = *list.add_devices();
    device.set_id("gpu" + std::to_string(i));
    device.set_health(i == unhealthy ? "Unhealthy" : "Healthy");
    device.mutable_topology()->add_nodes()->set_id(i / 4);
  }
  return list;
}

// A plugin that answers on a thread of its own.
class FakeConnection final : public PluginConnection {
 public:
  explicit FakeConnection(Living<FakeConnection>& living) : living_(living) { living_.Add(this); }
  ~FakeConnection() override {
    living_.Remove(this);
    Close();
    queue_.Stop();
  }

  void Push(const v1beta1::ListAndWatchResponse& list) {
    queue_.Post([this, list] {
      if (on_list_) on_list_(list);
    });
  }
  void End() {
    queue_.Post([this] {
      on_list_ = nullptr;
      if (on_end_) std::exchange(on_end_, nullptr)(Gone());
    });
  }

  void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) override {
    Answer(std::move(done), [] {
      v1beta1::DevicePluginOptions options;
      options.set_get_preferred_allocation_available(true);
      return options;
    });
  }
  void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
             std::function<void(Error)> on_end) override {
    queue_.Post([this, on_list = std::move(on_list), on_end = std::move(on_end)] {
      if (closed_) return on_end(Gone());
      on_list_ = on_list;
      on_end_ = on_end;
      on_list_(ListWithout(-1));
    });
  }
  void Allocate(const std::vector<std::string>& ids,
                std::function<void(Result<v1beta1::AllocateResponse>)> done) override {
    Answer(std::move(done), [ids] {
      v1beta1::AllocateResponse response;
      auto& envs = *response.add_container_responses()->mutable_envs();
      for (const std::string& id : ids) envs[id] = "1";
      return response;
    });
  }
  void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query, std::chrono::milliseconds,
      std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) override {
    Answer(std::move(done), [query] {
      v1beta1::PreferredAllocationResponse response;
      auto& ids = *response.add_container_responses()->mutable_deviceids();
      ids.Add(query.available.rbegin(), query.available.rend());
      return response;
    });
  }
  void PreStartContainer(const std::vector<std::string>&,
                         std::function<void(Result<Done>)> done) override {
    Answer(std::move(done), [] { return Done{}; });
  }
  void Close() override {
    closed_ = true;
    End();
  }

 private:
  template <typename T, typename Make>
  void Answer(std::function<void(Result<T>)> done, Make make) {
    const bool posted = queue_.Post([this, done, make] {
      if (closed_) return done(Gone());
      done(make());
    });
    if (!posted) done(Gone());
  }

  Living<FakeConnection>& living_;
  std::atomic<bool> closed_ = false;
  std::function<void(const v1beta1::ListAndWatchResponse&)> on_list_;  // of the queue, as on_end_
  std::function<void(Error)> on_end_;
  TaskQueue queue_{"fake-plugin"};
};

// Records what is announced to the kubelet, and asks as the kubelet does.
class FakeOffered final : public Offered {
 public:
  FakeOffered(Living<FakeOffered>& living, Preference preference, const Announcement& announced)
      : living_(living), preference_(std::move(preference)) {
    Announce(announced);
    living_.Add(this);
  }
  ~FakeOffered() override { living_.Remove(this); }

  void Announce(const Announcement& announced) override {
    const MutexLock lock(mutex_);
    healthy_.clear();
    for (const auto& [id, device] : announced) {
      if (device.healthy) healthy_.insert(id);
    }
  }
  bool IsFollowed() const override {
    return false;
  }  // so that the offer is repeated again and again
  Ids healthy() const {
    const MutexLock lock(mutex_);
    return healthy_;
  }
  void Ask(std::function<void(Ids)> done) const {
    preference_({.available = healthy(), .must_include = {}, .size = 1}, std::move(done));
  }

 private:
  Living<FakeOffered>& living_;
  const Preference preference_;
  mutable Mutex mutex_;
  Ids healthy_ GUARDED_BY(mutex_);
};

// Passes inventories on once it is connected.
class Relay final : public allocation::InventorySink {
 public:
  void ConnectTo(allocation::InventorySink* target) {
    const MutexLock lock(mutex_);
    target_ = target;
  }
  void SetResource(std::string name, devicemanager::Resource resource) override {
    const MutexLock lock(mutex_);
    if (target_ != nullptr) target_->SetResource(std::move(name), std::move(resource));
  }
  void RemoveResource(const std::string& name) override {
    const MutexLock lock(mutex_);
    if (target_ != nullptr) target_->RemoveResource(name);
  }

 private:
  Mutex mutex_;
  allocation::InventorySink* target_ GUARDED_BY(mutex_) = nullptr;
};

class MirrorThreads : public ::testing::Test {
 protected:
  // A pod whose device was assigned before the plugin registered with alignd.
  static constexpr char kOld[] = "old";
  static constexpr char kOldGpu[] = "gpu7";

  // Reads the kubelet's checkpoint; fails every third time.
  static Result<checkpoint::DeviceCheckpoint> ReadKubelets() {
    static std::atomic<int> times = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (++times % 3 == 0) return Error{ErrorCode::kIo, "torn"};
    checkpoint::DeviceCheckpoint kubelets;
    kubelets.allocations[{kOld, "app"}][kGpu].devices[1] = {kOldGpu};
    return kubelets;
  }

  ~MirrorThreads() override {
    StopOthers();
    Down();
  }

  // Starts from the files. If given, the disk fails at its `dies_at`th call from then on.
  void Up(std::optional<int> dies_at = std::nullopt) {
    store_.emplace(world_.paths(), world_.disk);
    auto state = store_->Load(world_.node);
    auto bindings = BindingTable::Load(world_.tree.root() / "device_bindings", world_.disk);
    ASSERT_TRUE(state.ok()) << state.error().Text();
    ASSERT_TRUE(bindings.ok()) << bindings.error().Text();
    bindings_ = *std::move(bindings);
    ASSERT_TRUE(bindings_->RetainAssigned(*state).ok());
    if (dies_at) world_.disk.DieAt(*dies_at);
    registry_ = std::make_unique<deviceplugin::PluginRegistry>(
        deviceplugin::PluginSettings(), relay_, background_,
        [this](const std::string&,
               const std::filesystem::path&) -> Result<std::unique_ptr<PluginConnection>> {
          return std::unique_ptr<PluginConnection>(std::make_unique<FakeConnection>(plugins_));
        });
    devices_ = std::make_unique<MirroredDevices>(
        BindingMode::kPreferred, world_.node.topology.scope(), *bindings_,
        KubeletCheckpoint{ReadKubelets, [](const std::string&) { return false; }}, io_);
    manager_ = std::make_unique<allocation::AllocationManager>(world_.node, *std::move(state),
                                                               *store_, *registry_, *devices_);
    relay_.ConnectTo(manager_.get());
    manager_->OnChange([this](const auto&) { Refresh(); });
    bindings_->OnChange([this] { Refresh(); });
    auto mirror = Mirror::Start(
        {.registry = world_.tree.root() / "registry",
         .kubelet_allocated_before = {},
         .patience = std::chrono::milliseconds(10)},
        world_.node, *manager_, *bindings_, background_,
        [this](const auto& query, auto done) {
          registry_->GetPreferredAllocation(query, kKubeletWaits, std::move(done));
        },
        [this](const std::string&, const std::filesystem::path&, Preference preference,
               const Announcement& announced) -> Result<std::unique_ptr<Offered>> {
          return std::unique_ptr<Offered>(
              std::make_unique<FakeOffered>(offered_, std::move(preference), announced));
        });
    ASSERT_TRUE(mirror.ok()) << mirror.error().Text();
    {
      const MutexLock lock(mirror_mutex_);
      mirror_ = *std::move(mirror);
    }
    const MutexLock lock(gate_);
    is_up_ = true;
  }
  // Callers that wait for an answer get an error. Call StopOthers before.
  void Down() {
    {
      const MutexLock lock(gate_);
      is_up_ = false;
    }
    std::unique_ptr<Mirror> mirror;
    {
      const MutexLock lock(mirror_mutex_);
      mirror = std::move(mirror_);
    }
    mirror.reset();
    relay_.ConnectTo(nullptr);
    manager_.reset();
    devices_.reset();
    registry_.reset();
    bindings_.reset();
    store_.reset();
  }

  void Refresh() {
    const MutexLock lock(mirror_mutex_);
    if (mirror_) mirror_->Refresh();
  }

  // Starts threads that loop: plugins, a kubelet that asks, and readers.
  void StartOthers() {
    over_ = false;
    registry_->Register(kGpu, "/plugins/0.sock", [](const Result<Done>&) {});
    UntilOver([this](int round) {  // a flood of lists
      plugins_.WithAll([&](FakeConnection& plugin) { plugin.Push(ListWithout(round % 11)); });
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    });
    UntilOver([this](
                  int round) {  // plugins that are replaced, that end, that take their socket away
      const std::string socket = "/plugins/" + std::to_string(round % 3) + ".sock";
      const uint64_t registration = registry_->Register(kGpu, socket, [](const Result<Done>&) {});
      if (round % 4 == 1) registry_->Deregister(kGpu, registration);
      if (round % 4 == 2) plugins_.WithAll([](FakeConnection& plugin) { plugin.End(); });
      registry_->Expect({"example.com/other"});
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    UntilOver([this](int) {  // the kubelet asks
      offered_.WithAll([&](const FakeOffered& offered) {
        ++asked_;
        offered.Ask([&](const Ids& ids) { guided_ += ids.size() <= 1 ? 1 : 0; });
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    UntilOver([this](int) {  // readers
      const auto snapshot = manager_->snapshot();
      EXPECT_TRUE(devicemanager::BrokenInvariants(snapshot->state.devices).empty());
      EXPECT_LE(manager_->bindings()->size(), 8U);
      (void)registry_->Awaited(kGpu);
      (void)manager_->decisions().Newest("", 4);
      Refresh();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    });
  }
  void StopOthers() {
    over_ = true;
    for (std::thread& thread : others_) thread.join();
    others_.clear();
  }

  // The ids that the kubelet may allocate.
  Ids Healthy() {
    Ids healthy;
    offered_.WithAll([&](const FakeOffered& offered) { healthy = offered.healthy(); });
    return healthy;
  }
  // A pod with one device, to which the kubelet allocated this id. An error once all is down.
  allocation::Outcome Admit(const std::string& uid, const std::string& id) {
    std::promise<allocation::Outcome> outcome;
    {
      const MutexLock lock(gate_);
      if (!is_up_) return Gone();
      manager_->Admit({.pod = testing::AppPod(uid, 1, {{kGpu, "1"}}),
                       .source = "test",
                       .wanted = "app",
                       .kubelet_allocated = {{"app", {{kGpu, {id}}}}}},
                      [&](allocation::Outcome done) { outcome.set_value(std::move(done)); });
    }
    return outcome.get_future().get();
  }
  Result<Done> Release(const std::string& uid) {
    std::promise<Result<Done>> released;
    {
      const MutexLock lock(gate_);
      if (!is_up_) return Gone();
      manager_->ReleasePod(uid, [&](Result<Done> done) { released.set_value(std::move(done)); });
    }
    return released.get_future().get();
  }

  TaskQueue background_{"background"};
  TaskQueue io_{"io"};
  testing::AllocationNode world_;
  std::optional<allocation::CheckpointStore> store_;
  Living<FakeConnection> plugins_;
  Living<FakeOffered> offered_;
  Relay relay_;
  std::unique_ptr<BindingTable> bindings_;
  Mutex mirror_mutex_;
  std::unique_ptr<Mirror> mirror_ GUARDED_BY(mirror_mutex_);
  std::unique_ptr<deviceplugin::PluginRegistry> registry_;
  std::unique_ptr<MirroredDevices> devices_;
  std::unique_ptr<allocation::AllocationManager> manager_;
  Mutex gate_;
  bool is_up_ GUARDED_BY(gate_) = false;
  std::atomic<bool> over_ = true;
  std::atomic<int> guided_ = 0;
  std::atomic<int> asked_ = 0;

 private:
  void UntilOver(std::function<void(int)> work) {
    others_.emplace_back([this, work = std::move(work)] {
      for (int round = 0; !over_; ++round) {
        work(round);
        std::this_thread::yield();
      }
    });
  }

  std::vector<std::thread> others_;
};

}  // namespace alignd::mirror
