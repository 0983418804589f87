#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cri/handlers.h"
#include "cri/message_bytes.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// What such a request is about, in the caller's words: a whole id, or the beginning of one.
template <typename Request>
const std::string& NamedBy(const Request& request) {
  if constexpr (requires { request.pod_sandbox_id(); }) {
    return request.pod_sandbox_id();
  } else {
    return request.container_id();
  }
}

// The whole id; nullopt if it is not known.
template <typename Request>
std::optional<std::string> Find(const reconcile::ContainerRegistry& registry,
                                const Request& request) {
  if constexpr (requires { request.pod_sandbox_id(); }) {
    return registry.SandboxNamed(request.pod_sandbox_id());
  } else {
    return registry.ContainerNamed(request.container_id());
  }
}

// Whether the runtime says that there is no such thing. CRI-O says so of the beginning of several
// ids, too, of which we may know one only.
bool IsNotThere(const HandlerContext& context, const grpc::Status& status, const std::string& named,
                const std::string& id) {
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return false;
  if (named != id) context.reconciler.Relist();
  return named == id;
}

// A method that is only noted once the runtime has done it.
template <typename Request>
class NotingHandler final : public proxy::CallHandler {
 public:
  using Note = void (*)(const HandlerContext&, const std::string& id);

  NotingHandler(const HandlerContext& context, Note note) : context_(context), note_(note) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    // Now: when it is gone, the beginning of its id may be another's.
    if (Parse(bytes, request_)) id_ = Find(context_.registry, request_).value_or(NamedBy(request_));
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer*) override {
    if (id_.empty()) return;
    // What the runtime does not know is as gone as what it removed.
    const bool gone = status.ok() || IsNotThere(context_, status, NamedBy(request_), id_);
    if (gone) note_(context_, id_);
  }

 private:
  const HandlerContext context_;
  const Note note_;
  Request request_;
  std::string id_;  // empty if the request cannot be read
};

void NoteSandboxStopped(const HandlerContext& context, const std::string& id) {
  context.registry.SandboxStopped(id);
  context.reconciler.PodStopped();
}

void NoteSandboxRemoved(const HandlerContext& context, const std::string& id) {
  const std::optional<std::string> gone = context.registry.RemoveSandbox(id);
  if (gone) {
    context.reconciler.Release(*gone);
  } else {
    context.reconciler.PodStopped();  // it was the last that had not
  }
}

// It is on no CPU any more, and never runs again: somebody may wait for its CPUs, and nobody needs
// to tell it others. (Should it never have run, it is looked for in the runtime when it starts.)
void NoteContainerGone(const HandlerContext& context, const std::string& id) {
  context.registry.RemoveContainer(id);
  context.reconciler.Nudge();
}

// A container that ends by itself is seen in somebody's question about it: a kubelet puts it before
// it does anything about the end, such as creating the container that comes after an init
// container.
class ContainerStatusHandler final : public proxy::CallHandler {
 public:
  explicit ContainerStatusHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    if (Parse(bytes, request_)) id_ = Find(context_.registry, request_);
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    if (!id_) return;
    v1::ContainerStatusResponse response;
    const bool ended =
        status.ok() ? Parse(*bytes, response) && response.status().state() == v1::CONTAINER_EXITED
                    : IsNotThere(context_, status, NamedBy(request_), *id_);
    if (ended) NoteContainerGone(context_, *id_);
  }

 private:
  const HandlerContext context_;
  v1::ContainerStatusRequest request_;
  std::optional<std::string> id_;  // nullopt: nobody's that we know
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeStopPodSandbox(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::StopPodSandboxRequest>>(context, &NoteSandboxStopped);
}

std::unique_ptr<proxy::CallHandler> MakeRemovePodSandbox(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::RemovePodSandboxRequest>>(context, &NoteSandboxRemoved);
}

std::unique_ptr<proxy::CallHandler> MakeRemoveContainer(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::RemoveContainerRequest>>(context, &NoteContainerGone);
}

std::unique_ptr<proxy::CallHandler> MakeStopContainer(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::StopContainerRequest>>(context, &NoteContainerGone);
}

std::unique_ptr<proxy::CallHandler> MakeContainerStatus(const HandlerContext& context) {
  return std::make_unique<ContainerStatusHandler>(context);
}

}  // namespace alignd::cri
