// A device plugin that behaves like real ones: serves a socket in the plugin directory, registers
// on kubelet.sock there, and does both again whenever that socket is created again. If the profile
// has a registry, it serves a socket there and waits for the plugin watcher instead.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "alignd/base/result.h"
#include "simulator/device_profile.h"
#include "sync/mutex.h"

namespace alignd::simulator {

// How the plugin answers Allocate, GetPreferredAllocation and PreStartContainer.
enum class Manner {
  kAnswer,   // as the profile defines
  kHang,     // no answer until the caller cancels
  kFail,     // with status UNKNOWN and the text "simulated failure"
  kNothing,  // with an answer without containers
};

// Thread-safe.
class DevicePlugin {
 public:
  // Serves at once. Registers on a thread of its own, and retries while kubelet.sock exists but
  // refuses. On that thread, `on_registration` (may be empty) gets the result of each attempt.
  // Errors: kInvalidArgument for a profile without resource; kIo: directory or socket.
  static Result<std::unique_ptr<DevicePlugin>> Start(
      DeviceProfile profile, std::function<void(const Result<Done>&)> on_registration = {});

  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;
  // As if the plugin were killed: its device list ends and its socket is removed.
  ~DevicePlugin();

  // Errors: kNotFound if there is no such device.
  Result<Done> SetHealth(const std::string& id, bool healthy);
  void SetAllHealth(bool healthy);
  void SetDevices(std::vector<SimulatedDevice> devices);
  void SetManner(Manner manner);

  // Ends the stream of device lists; the plugin keeps running.
  void EndLists();

  // The error of the last plugin watcher; empty if it registered the plugin, or if there was none.
  std::string refusal() const;

  // The requests in order: the ids of each Allocate and PreStartContainer.
  std::vector<std::vector<std::string>> allocations() const;
  std::vector<std::vector<std::string>> pre_starts() const;
  int registrations() const;  // successful ones

  // Whether there were `count` successful registrations before `timeout` was over.
  bool WaitForRegistrations(int count, std::chrono::milliseconds timeout);

 private:
  class Service;
  class OfferService;

  DevicePlugin(DeviceProfile profile, std::function<void(const Result<Done>&)> on_registration);

  Result<Done> Open();   // the directory's watch
  Result<Done> Serve();  // a new server on our socket
  void Run();
  // Whether kubelet.sock was made since the last call.
  bool ReadEvents();
  Result<Done> Register();
  void NoteStatus(bool registered, const std::string& error);

  const DeviceProfile profile_;  // its devices are those at start
  const std::function<void(const Result<Done>&)> on_registration_;
  const std::filesystem::path kubelet_socket_;
  const std::filesystem::path socket_;
  const std::unique_ptr<Service> service_;             // thread-safe
  const std::unique_ptr<OfferService> offer_service_;  // thread-safe
  int inotify_ = -1;                                   // set by Open, as stop_event_
  int stop_event_ = -1;
  std::unique_ptr<grpc::Server> server_;  // of Start, then of the thread

  mutable Mutex mutex_;
  CondVar registered_;
  int registrations_ GUARDED_BY(mutex_) = 0;
  std::string refusal_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  grpc::ClientContext* registering_ GUARDED_BY(mutex_) = nullptr;

  std::thread thread_;
};

}  // namespace alignd::simulator
