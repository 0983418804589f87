// What the handlers share that record the end of a sandbox or a container.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cri/handlers.h"
#include "cri/malformed.h"
#include "cri/tracked_call.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// The id in a request about a sandbox or a container, as the caller gave it: whole, or a prefix.
template <typename Request>
const std::string& CallersId(const Request& request) {
  if constexpr (requires { request.pod_sandbox_id(); }) {
    return request.pod_sandbox_id();
  } else {
    return request.container_id();
  }
}

// The whole id; nullopt if alignd does not know the sandbox or the container.
template <typename Request>
std::optional<std::string> FindId(const reconcile::ContainerRegistry& registry,
                                  const Request& request) {
  if constexpr (requires { request.pod_sandbox_id(); }) {
    return registry.SandboxNamed(request.pod_sandbox_id());
  } else {
    return registry.ContainerNamed(request.container_id());
  }
}

// Whether the runtime answers that it has no such sandbox or container. CRI-O also answers so if
// several ids have the caller's prefix, of which alignd may know only one: then the runtime is
// listed.
inline bool IsNotFound(const HandlerContext& context, const grpc::Status& status,
                       const std::string& callers_id, const std::string& id) {
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return false;
  if (callers_id != id) context.reconciler.Relist();
  return callers_id == id;
}

// A container that has ended is on no CPU any more and never runs again. Other containers may wait
// for its CPUs, and its own CPU set needs no updates. (If it has never run, StartContainer looks
// for it in the runtime.)
inline void RecordContainerEnd(const HandlerContext& context, const std::string& id) {
  context.registry.RemoveContainer(id);
  context.reconciler.Nudge();
}

// Forwards the request as it came, and calls `record` once the runtime has done it, or has no such
// sandbox or container.
template <typename Request>
class LifecycleHandler final : public proxy::CallHandler {
 public:
  using Record = void (*)(const HandlerContext&, const std::string& id);

  LifecycleHandler(const HandlerContext& context, Record record)
      : context_(context), record_(record) {}

  void OnRequest(std::string bytes, Decide decide) override {
    if (!ReadRequest(bytes, request_, decide)) return;
    // Looked up before the runtime acts: afterwards the prefix may be that of another id.
    id_ = FindId(context_.registry, request_).value_or(CallersId(request_));
    call_.emplace(context_.registry, id_);
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const std::string*) override {
    if (!call_) return;
    call_->Answered(status);
    if (!id_.empty() && (status.ok() || IsNotFound(context_, status, CallersId(request_), id_))) {
      record_(context_, id_);
    }
    call_.reset();  // before the caller has the answer
  }

 private:
  const HandlerContext context_;
  const Record record_;
  Request request_;
  std::string id_;
  std::optional<StopCall> call_;
};

}  // namespace alignd::cri
