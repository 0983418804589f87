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

// A method that is only noted once the runtime has done it.
template <typename Request>
class NotingHandler final : public CallHandler {
 public:
  using Note = void (*)(const HandlerContext&, const Request&);

  NotingHandler(const HandlerContext& context, Note note) : context_(context), note_(note) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    parsed_ = Parse(bytes, request_);
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer*) override {
    // What the runtime does not know is as gone as what it removed.
    const bool gone = status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (parsed_ && gone) note_(context_, request_);
  }

 private:
  const HandlerContext context_;
  const Note note_;
  Request request_;
  bool parsed_ = false;
};

void NoteSandboxStopped(const HandlerContext& context, const v1::StopPodSandboxRequest& request) {
  context.registry.SandboxStopped(request.pod_sandbox_id());
  context.reconciler.PodStopped();
}

void NoteSandboxRemoved(const HandlerContext& context, const v1::RemovePodSandboxRequest& request) {
  const std::optional<std::string> gone = context.registry.RemoveSandbox(request.pod_sandbox_id());
  if (gone) {
    context.reconciler.Release(*gone);
  } else {
    context.reconciler.PodStopped();  // it was the last that had not
  }
}

// It is on no CPU any more, and never runs again: somebody may wait for its CPUs, and nobody needs
// to tell it others. (Should it never have run, it is looked for in the runtime when it starts.)
template <typename Request>
void NoteContainerGone(const HandlerContext& context, const Request& request) {
  context.registry.RemoveContainer(request.container_id());
  context.reconciler.Nudge();
}

// A container that ends by itself is seen in somebody's question about it: a kubelet puts it before
// it does anything about the end, such as creating the container that comes after an init
// container.
class ContainerStatusHandler final : public CallHandler {
 public:
  explicit ContainerStatusHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    is_known_ = Parse(bytes, request_) && context_.registry.KeyOf(request_.container_id());
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    if (!is_known_) return;
    v1::ContainerStatusResponse response;
    const bool ended =
        status.ok() ? Parse(*bytes, response) && response.status().state() == v1::CONTAINER_EXITED
                    : status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (ended) NoteContainerGone(context_, request_);
  }

 private:
  const HandlerContext context_;
  v1::ContainerStatusRequest request_;
  bool is_known_ = false;
};

}  // namespace

std::unique_ptr<CallHandler> MakeStopPodSandbox(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::StopPodSandboxRequest>>(context, &NoteSandboxStopped);
}

std::unique_ptr<CallHandler> MakeRemovePodSandbox(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::RemovePodSandboxRequest>>(context, &NoteSandboxRemoved);
}

std::unique_ptr<CallHandler> MakeRemoveContainer(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::RemoveContainerRequest>>(
      context, &NoteContainerGone<v1::RemoveContainerRequest>);
}

std::unique_ptr<CallHandler> MakeStopContainer(const HandlerContext& context) {
  return std::make_unique<NotingHandler<v1::StopContainerRequest>>(
      context, &NoteContainerGone<v1::StopContainerRequest>);
}

std::unique_ptr<CallHandler> MakeContainerStatus(const HandlerContext& context) {
  return std::make_unique<ContainerStatusHandler>(context);
}

}  // namespace alignd::cri
