#include "cri/container_handlers.h"

#include <google/protobuf/message.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cri/injection.h"
#include "cri/pod_from_cri.h"
#include "cri/tracked_call.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

using Decide = std::function<void(CallHandler::Decision)>;

bool Parse(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ByteBuffer copy(bytes);  // reading consumes; the slices themselves are shared
  grpc::ProtoBufferReader reader(&copy);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

// Unknown fields survive: they are part of the parsed message.
grpc::ByteBuffer Serialize(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// Whether there is nothing to inject, so that a request goes on as it came.
bool IsEmpty(const admission::Grant& grant) {
  return grant.cpuset.empty() && grant.memory_nodes.empty() && grant.devices.empty();
}

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

// Has the pod decided. Where it is refused while stopped pods still hold something, those are
// released, as the kubelet does before every admission, and it is decided once more.
void AdmitMakingRoom(const HandlerContext& context, const PodAsk& ask,
                     std::function<void(allocation::Outcome)> done) {
  context.allocation.Admit(
      ask.pod,
      [context, ask, done = std::move(done)](allocation::Outcome outcome) mutable {
        if (!std::holds_alternative<Refusal>(outcome)) {
          done(std::move(outcome));
          return;
        }
        context.reconciler.ReleaseStopped([context, ask, done = std::move(done),
                                           outcome = std::move(outcome)](bool any) mutable {
          if (any) {
            context.allocation.Admit(ask.pod, std::move(done), std::string(ToString(ask.source)));
          } else {
            done(std::move(outcome));
          }
        });
      },
      std::string(ToString(ask.source)));
}

class RunPodSandboxHandler final : public CallHandler {
 public:
  explicit RunPodSandboxHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::RunPodSandboxRequest request;
    if (!Parse(bytes, request)) {
      decide(std::move(bytes));  // the runtime knows what to say of it
      return;
    }
    pod_uid_ = request.config().metadata().uid();
    call_ = std::make_shared<PodCall>(context_.registry, pod_uid_);
    const Result<std::optional<PodAsk>> ask = PodOfSandbox(request.config());
    if (!ask.ok() || !*ask || !context_.reconciler.recovered()) {
      decide(std::move(bytes));  // a faulty annotation is said at CreateContainer
      return;
    }
    AdmitMakingRoom(context_, **ask,
                    [bytes = std::move(bytes), decide = std::move(decide), call = call_,
                     name = NameOf((*ask)->pod)](const allocation::Outcome& outcome) {
                      if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
                        spdlog::info("pod {} does not fit now: {}: {}", name, refusal->reason,
                                     refusal->message);
                      }
                      decide(bytes);
                    });
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    v1::RunPodSandboxResponse response;
    if (status.ok() && Parse(*bytes, response)) {
      context_.registry.AddSandbox(response.pod_sandbox_id(), pod_uid_);
    }
  }

 private:
  const HandlerContext context_;
  std::string pod_uid_;
  std::shared_ptr<PodCall> call_;
};

class CreateContainerHandler final : public CallHandler {
 public:
  explicit CreateContainerHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    auto create = std::make_shared<Create>();
    if (!Parse(bytes, create->request)) {
      decide(std::move(bytes));  // the runtime knows what to say of it
      return;
    }
    if (!context_.reconciler.recovered()) {
      decide(rpc::ToStatus(Error{ErrorCode::kUnavailable,
                                 "alignd does not know yet what the runtime runs",
                                 "retry; see alignd's log if this lasts"}));
      return;
    }
    const std::string uid = PodUid(create->request);
    if (uid.empty()) {
      decide(std::move(bytes));  // no sandbox: the runtime refuses it
      return;
    }
    v1::PodSandboxConfig sandbox = create->request.sandbox_config();
    sandbox.mutable_metadata()->set_uid(uid);
    const Result<PodAsk> ask = PodOfContainer(sandbox, create->request.config());
    if (!ask.ok()) {
      decide(rpc::ToStatus(ask.error()));
      return;
    }
    create->key = {uid, create->request.config().metadata().name()};
    create->call = std::make_shared<PodCall>(context_.registry, uid);
    create_ = create;
    spdlog::debug("container {} of pod {}: resources from {}", create->key.container,
                  NameOf(ask->pod), ToString(ask->source));
    AdmitMakingRoom(
        context_, *ask,
        [create, bytes = std::move(bytes), decide = std::move(decide)](
            const allocation::Outcome& outcome) { decide(Answer(*create, bytes, outcome)); });
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    v1::CreateContainerResponse response;
    if (!create_) return;
    if (status.ok() && Parse(*bytes, response)) {
      context_.registry.AddContainer(response.container_id(), create_->key, create_->told);
    } else {
      context_.reconciler.Relist();  // it may be there all the same
    }
  }

 private:
  // Shared with the callbacks, which may come after the caller has gone.
  struct Create {
    v1::CreateContainerRequest request;
    ContainerKey key;
    CpuSet told;
    std::shared_ptr<PodCall> call;
  };

  // What the sandbox was made with goes before what is stated now: listings show it, too.
  std::string PodUid(const v1::CreateContainerRequest& request) const {
    const std::string& id = request.pod_sandbox_id();
    return context_.registry.PodOfSandbox(id).value_or(
        PodUidOr(request.sandbox_config().metadata().uid(), id));
  }

  static Decision Answer(Create& create, const grpc::ByteBuffer& bytes,
                         const allocation::Outcome& outcome) {
    if (const auto* error = std::get_if<Error>(&outcome)) return rpc::ToStatus(*error);
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) return rpc::ToStatus(*refusal);
    const admission::Grant& grant =
        std::get<allocation::Granted>(outcome).grants.at(create.key.container);
    if (IsEmpty(grant)) return bytes;
    const Result<std::vector<std::string>> conflicts =
        Inject(grant, *create.request.mutable_config());
    if (!conflicts.ok()) return rpc::ToStatus(conflicts.error());
    for (const std::string& conflict : *conflicts) {
      spdlog::warn("container {}: {}", create.key.container, conflict);
    }
    create.told = grant.cpuset;
    return Serialize(create.request);
  }

  const HandlerContext context_;
  std::shared_ptr<Create> create_;
};

// Calls PreStartContainer of every plugin that wants it, for the devices that the container holds.
void PreStart(const HandlerContext& context, const ContainerKey& key,
              std::function<void(Result<Done>)> done) {
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  const devicemanager::DeviceState& devices = snapshot->state.devices;
  std::vector<std::pair<std::string, std::vector<std::string>>> wanted;
  if (const auto held = devices.allocations.find(key); held != devices.allocations.end()) {
    for (const auto& [name, allocation] : held->second) {
      const auto resource = devices.resources.find(name);
      if (resource == devices.resources.end() || !resource->second.pre_start_required) continue;
      const std::set<std::string> ids = allocation.Ids();
      wanted.emplace_back(name, std::vector<std::string>(ids.begin(), ids.end()));
    }
  }
  if (wanted.empty()) {
    done(Done{});
    return;
  }
  // One after the other; the first that fails ends it.
  struct Steps {
    std::vector<std::pair<std::string, std::vector<std::string>>> wanted;
    std::function<void(Result<Done>)> done;
    size_t next = 0;
  };
  auto steps = std::make_shared<Steps>(Steps{std::move(wanted), std::move(done)});
  auto step = std::make_shared<std::function<void(Result<Done>)>>();
  *step = [&plugins = context.plugins, steps, weak = std::weak_ptr(step)](Result<Done> before) {
    if (!before.ok() || steps->next == steps->wanted.size()) {
      steps->done(std::move(before));
      return;
    }
    const auto& [resource, ids] = steps->wanted[steps->next++];
    plugins.PreStartContainer(
        resource, ids, [step = weak.lock()](Result<Done> result) { (*step)(std::move(result)); });
  };
  (*step)(Done{});
}

class StartContainerHandler final : public CallHandler {
 public:
  explicit StartContainerHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::StartContainerRequest request;
    if (!Parse(bytes, request)) {
      decide(std::move(bytes));
      return;
    }
    const std::string id = request.container_id();
    call_ = std::make_shared<ContainerCall>(context_.registry, context_.reconciler, id,
                                            /*changes_cpus=*/false);
    context_.reconciler.BeforeStart(id, [context = context_, id, call = call_,
                                         bytes = std::move(bytes),
                                         decide = std::move(decide)](Result<Done> safe) {
      const std::optional<ContainerKey> key = context.registry.KeyOf(id);
      if (!safe.ok() || !key) {
        decide(safe.ok() ? Decision(bytes) : Decision(rpc::ToStatus(safe.error())));
        return;
      }
      PreStart(context, *key, [context, id, call, bytes, decide](Result<Done> ready) {
        if (!ready.ok()) {
          decide(rpc::ToStatus(ready.error()));
          return;
        }
        // The plugin may have taken its time.
        context.reconciler.BeforeStart(id, [call, bytes, decide](Result<Done> still_safe) {
          if (still_safe.ok()) call->Begin();
          decide(still_safe.ok() ? Decision(bytes) : Decision(rpc::ToStatus(still_safe.error())));
        });
      });
    });
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override { call_->End(); }

 private:
  const HandlerContext context_;
  std::shared_ptr<ContainerCall> call_;
};

class UpdateContainerResourcesHandler final : public CallHandler {
 public:
  explicit UpdateContainerResourcesHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::UpdateContainerResourcesRequest request;
    const std::optional<ContainerKey> key =
        Parse(bytes, request) ? context_.registry.KeyOf(request.container_id()) : std::nullopt;
    if (!key) {
      decide(std::move(bytes));
      return;
    }
    // The set may move on before the runtime hears of this one: it is told once more afterwards.
    call_.emplace(context_.registry, context_.reconciler, request.container_id(),
                  /*changes_cpus=*/true);
    call_->Begin();
    const admission::Grant grant =
        admission::GrantOf(context_.node, context_.allocation.snapshot()->state, *key);
    if (IsEmpty(grant)) {
      decide(std::move(bytes));
      return;
    }
    KeepGrant(grant, *request.mutable_linux());
    decide(Serialize(request));
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override { call_.reset(); }

 private:
  const HandlerContext context_;
  std::optional<ContainerCall> call_;
};

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
}

void NoteSandboxRemoved(const HandlerContext& context, const v1::RemovePodSandboxRequest& request) {
  const std::optional<std::string> gone = context.registry.RemoveSandbox(request.pod_sandbox_id());
  if (!gone) return;
  context.allocation.ReleasePod(
      *gone,
      [uid = *gone](const Result<Done>& released) {
        if (!released.ok()) spdlog::error("release of pod {}: {}", uid, released.error().Text());
      },
      [&registry = context.registry, uid = *gone] { return registry.IsGone(uid); });
}

void NoteContainerRemoved(const HandlerContext& context,
                          const v1::RemoveContainerRequest& request) {
  context.registry.RemoveContainer(request.container_id());
}

using Maker = std::unique_ptr<CallHandler> (*)(const HandlerContext&);

template <typename Handler>
std::unique_ptr<CallHandler> Make(const HandlerContext& context) {
  return std::make_unique<Handler>(context);
}

template <typename Request, void (*kNote)(const HandlerContext&, const Request&)>
std::unique_ptr<CallHandler> MakeNoting(const HandlerContext& context) {
  return std::make_unique<NotingHandler<Request>>(context, kNote);
}

const std::map<std::string, Maker, std::less<>>& Makers() {
  static const auto* const kMakers = new std::map<std::string, Maker, std::less<>>{
      {"RunPodSandbox", &Make<RunPodSandboxHandler>},
      {"CreateContainer", &Make<CreateContainerHandler>},
      {"StartContainer", &Make<StartContainerHandler>},
      {"UpdateContainerResources", &Make<UpdateContainerResourcesHandler>},
      {"StopPodSandbox", &MakeNoting<v1::StopPodSandboxRequest, &NoteSandboxStopped>},
      {"RemovePodSandbox", &MakeNoting<v1::RemovePodSandboxRequest, &NoteSandboxRemoved>},
      {"RemoveContainer", &MakeNoting<v1::RemoveContainerRequest, &NoteContainerRemoved>},
  };
  return *kMakers;
}

// The method's name, if it is one of a RuntimeService whose messages we know.
std::string_view RuntimeMethod(std::string_view path) {
  for (const std::string_view service :
       {"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}) {
    if (path.starts_with(service)) return path.substr(service.size());
  }
  return {};
}

}  // namespace

HandlerFactory MakeContainerHandlers(HandlerContext context) {
  return [context](const std::string& path) -> std::unique_ptr<CallHandler> {
    const auto maker = Makers().find(RuntimeMethod(path));
    return maker == Makers().end() ? nullptr : maker->second(context);
  };
}

}  // namespace alignd::cri
