#include "cri/container_handlers.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "cri/handlers.h"
#include "cri/unsupported.h"

namespace alignd::cri {
namespace {

using Maker = std::unique_ptr<proxy::CallHandler> (*)(const HandlerContext&);

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

const std::map<std::string, Maker, std::less<>>& Makers() {
  static const auto* const kMakers = new std::map<std::string, Maker, std::less<>>{
      {"RunPodSandbox", &MakeRunPodSandbox},
      {"CreateContainer", &MakeCreateContainer},
      {"RestorePod", &MakeRestorePod},
      {"StartContainer", &MakeStartContainer},
      {"UpdateContainerResources", &MakeUpdateContainerResources},
      {"UpdatePodSandboxResources", &MakeUpdatePodSandboxResources},
      {"StopPodSandbox", &MakeStopPodSandbox},
      {"RemovePodSandbox", &MakeRemovePodSandbox},
      {"StopContainer", &MakeStopContainer},
      {"RemoveContainer", &MakeRemoveContainer},
      {"ContainerStatus", &MakeContainerStatus},
      {"GetContainerEvents", &MakeEventsReader},
      {"RuntimeConfig", &MakeRuntimeConfig},
  };
  return *kMakers;
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
    const auto maker = Makers().find(RuntimeMethod(path));
    if (maker != Makers().end()) return maker->second(context);
    return MayPass(path) ? nullptr : MakeUnsupported(path);
  };
}

}  // namespace alignd::cri
