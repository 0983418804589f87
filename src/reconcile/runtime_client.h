// The CRI calls that alignd makes itself.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "reconcile/container_registry.h"
#include "reconcile/verbose_status.h"
#include "sync/mutex.h"

namespace alignd::service {
class Client;
}

namespace alignd::reconcile {

// A container of a sandbox.
struct SandboxContainer {
  std::string name;
  int64_t created_at = 0;            // nanoseconds since 1970
  std::optional<int32_t> exit_code;  // nullopt: not ended, or not known
  bool is_running = false;           // false also if the runtime does not know
};

// Thread-safe. All methods but Stop return at once; each `done` runs exactly once, on the
// thread `calls`, or on the caller's after Stop. It uses runtime.v1, or runtime.v1alpha2 if the
// runtime supports nothing newer; the messages are the same.
class RuntimeClient {
 public:
  // `timeout` bounds each call.
  RuntimeClient(std::shared_ptr<service::Client> client, std::chrono::milliseconds timeout);
  ~RuntimeClient();

  // Ends all calls under way, and every later one at once, with kUnavailable. When it returns, each
  // `done` of an earlier call has run and is destroyed.
  void Stop();

  // The connection to the runtime.
  const std::shared_ptr<service::Client>& client() const { return client_; }

  // All sandboxes, and the containers that were created or run. One listing at a time.
  // Errors: kUnavailable, kDeadlineExceeded, kInternal, naming the call.
  void List(std::function<void(Result<RuntimeListing>)> done);

  // All containers of a sandbox; each attempt of a container is one entry. Errors as List.
  void ListSandbox(const std::string& sandbox_id,
                   std::function<void(Result<std::vector<SandboxContainer>>)> done);

  // Changes nothing but the container's cpuset.cpus and, unless `memory_nodes` is empty, its
  // cpuset.mems. Errors as List; kNotFound if the container no longer exists.
  void UpdateCpuSet(const std::string& container_id, const CpuSet& cpuset,
                    const std::vector<int>& memory_nodes, std::function<void(Result<Done>)> done);

  // The entry `info` of the container's verbose status; empty: the runtime has none. Errors as
  // List; kNotFound if the container no longer exists.
  void FindInfo(const std::string& container_id, std::function<void(Result<std::string>)> done);

  // The container's OCI spec. Errors as List; kNotFound if the container no longer exists, or if
  // the runtime does not report its spec.
  void FindSpec(const std::string& container_id, std::function<void(Result<ContainerSpec>)> done);

  // Whether an image is a checkpoint of a container, by its annotations, which CRI-O reports.
  // Errors as List; kNotFound if the runtime has no such image.
  void IsCheckpoint(const std::string& image, std::function<void(Result<bool>)> done);

  // The cgroup driver in the runtime's own configuration. Errors as List and CgroupDriverInStatus.
  void FindCgroupDriver(std::function<void(Result<CgroupDriver>)> done);

  // The name that the runtime called itself when it was listed first; empty: not known.
  std::string RuntimeName() const;

 private:
  class Stubs;
  struct ExitCodes;  // a listing that waits for them
  using ListDone = std::function<void(Result<RuntimeListing>)>;

  void AskExitCode(const std::shared_ptr<ExitCodes>& asking, size_t next);

  // Finds out which version the runtime supports, then lists.
  void Connect(bool alpha, ListDone done);
  void ListSandboxes(ListDone done);

  const std::shared_ptr<service::Client> client_;
  const std::unique_ptr<Stubs> stubs_;
  std::atomic<bool> connected_ = false;
  mutable Mutex mutex_;
  std::string runtime_name_ GUARDED_BY(mutex_);
};

}  // namespace alignd::reconcile
