// The CRI calls that we make ourselves.
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

namespace grpc {
class Channel;
}

namespace alignd::reconcile {

// A container as its sandbox has it.
struct SandboxContainer {
  std::string name;
  int64_t created_at = 0;            // nanoseconds since 1970
  std::optional<int32_t> exit_code;  // nullopt: it has not ended, or nobody knows how
};

// Thread-safe. Speaks runtime.v1, or runtime.v1alpha2 to a runtime that has nothing newer; the
// messages are the same.
class RuntimeClient {
 public:
  // `timeout` bounds each call.
  RuntimeClient(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds timeout);
  ~RuntimeClient();

  // Ends all calls under way, and every later one at once, with kUnavailable. When it returns, each
  // `done` has run and is gone.
  void Stop();

  // All sandboxes, and the containers that were created or run. Blocks.
  // Errors: kUnavailable, kDeadlineExceeded, kInternal, naming the call.
  Result<RuntimeListing> List();

  // All containers of a sandbox, every attempt by itself. Returns at once; `done` runs exactly once
  // on gRPC's threads. Errors as List.
  void ListSandbox(const std::string& sandbox_id,
                   std::function<void(Result<std::vector<SandboxContainer>>)> done);

  // Changes nothing but the container's cpuset.cpus and, unless `memory_nodes` is empty, its
  // cpuset.mems. Returns at once; `done` runs exactly once on gRPC's threads. Errors as above;
  // kNotFound if the container is gone.
  void UpdateCpuSet(const std::string& container_id, const CpuSet& cpuset,
                    const std::vector<int>& memory_nodes, std::function<void(Result<Done>)> done);

  // What the container was made with. Returns at once; `done` runs exactly once on gRPC's threads.
  // Errors: as List; kNotFound if the container is gone, or if the runtime does not tell.
  void FindSpec(const std::string& container_id, std::function<void(Result<ContainerSpec>)> done);

 private:
  class Stubs;
  struct ExitCodes;  // a listing that waits for them

  void AskExitCode(const std::shared_ptr<ExitCodes>& asking, size_t next);

  // Finds out which version the runtime speaks. Blocks. Errors as List.
  Result<Done> Connect();
  Result<RuntimeListing> ListConnected();

  const std::unique_ptr<Stubs> stubs_;
  std::atomic<bool> connected_ = false;
};

}  // namespace alignd::reconcile
