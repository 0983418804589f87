#include "cri/container_handlers.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cri/handlers.h"
#include "cri/unsupported.h"
#include "rpc/parsed_bytes.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

struct Intercepted {
  std::unique_ptr<proxy::CallHandler> (*make)(const HandlerContext&);
  const google::protobuf::Descriptor* (*request)();  // the type of its request
};

// Lives as long as a client's call that reads the runtime's container events.
class EventsReader final : public proxy::CallHandler {
 public:
  explicit EventsReader(const HandlerContext& context) : reconciler_(context.reconciler) {
    reconciler_.ClientReadsEvents();
  }
  EventsReader(const EventsReader&) = delete;
  EventsReader& operator=(const EventsReader&) = delete;
  ~EventsReader() override { reconciler_.ClientHasLeftEvents(); }

  bool IsRelayed() const override { return true; }
  void OnRequest(std::string, Decide) override {}
  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  reconcile::Reconciler& reconciler_;
};

std::unique_ptr<proxy::CallHandler> MakeEventsReader(const HandlerContext& context) {
  return std::make_unique<EventsReader>(context);
}

const std::map<std::string, Intercepted, std::less<>>& Methods() {
  static const auto* const kMethods = new std::map<std::string, Intercepted, std::less<>>{
      {"RunPodSandbox", {&MakeRunPodSandbox, &v1::RunPodSandboxRequest::descriptor}},
      {"CreateContainer", {&MakeCreateContainer, &v1::CreateContainerRequest::descriptor}},
      {"RestorePod", {&MakeRestorePod, &v1::RestorePodRequest::descriptor}},
      {"StartContainer", {&MakeStartContainer, &v1::StartContainerRequest::descriptor}},
      {"UpdateContainerResources",
       {&MakeUpdateContainerResources, &v1::UpdateContainerResourcesRequest::descriptor}},
      {"UpdatePodSandboxResources",
       {&MakeUpdatePodSandboxResources, &v1::UpdatePodSandboxResourcesRequest::descriptor}},
      {"StopPodSandbox", {&MakeStopPodSandbox, &v1::StopPodSandboxRequest::descriptor}},
      {"RemovePodSandbox", {&MakeRemovePodSandbox, &v1::RemovePodSandboxRequest::descriptor}},
      {"StopContainer", {&MakeStopContainer, &v1::StopContainerRequest::descriptor}},
      {"RemoveContainer", {&MakeRemoveContainer, &v1::RemoveContainerRequest::descriptor}},
      {"ContainerStatus", {&MakeContainerStatus, &v1::ContainerStatusRequest::descriptor}},
      {"GetContainerEvents", {&MakeEventsReader, &v1::GetEventsRequest::descriptor}},
      {"RuntimeConfig", {&MakeRuntimeConfig, &v1::RuntimeConfigRequest::descriptor}},
  };
  return *kMethods;
}

}  // namespace

std::string_view RuntimeMethod(std::string_view path) {
  for (const std::string_view service :
       {"/runtime.v1.RuntimeService/", "/runtime.v1alpha2.RuntimeService/"}) {
    if (path.starts_with(service)) return path.substr(service.size());
  }
  return {};
}

proxy::HandlerFactory MakeContainerHandlers(HandlerContext context) {
  return [context](const std::string& path) -> std::unique_ptr<proxy::CallHandler> {
    const auto method = Methods().find(RuntimeMethod(path));
    if (method != Methods().end()) return method->second.make(context);
    return MayPass(path) ? nullptr : MakeUnsupported(path);
  };
}

size_t ParsedBytes(const std::string& path, const std::string& request) {
  const auto method = Methods().find(RuntimeMethod(path));
  if (method == Methods().end()) return 0;
  return rpc::ParsedBytes(request, *method->second.request(), rpc::kMaxParsedRequestBytes);
}

}  // namespace alignd::cri
