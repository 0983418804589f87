#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cri/handlers.h"
#include "cri/message_bytes.h"
#include "cri/tracked_call.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

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
      PreStart(context, *key, [context, id, key = *key, call, bytes, decide](Result<Done> ready) {
        if (!ready.ok()) {
          decide(rpc::ToStatus(ready.error()));
          return;
        }
        // The plugin may have taken its time.
        context.reconciler.BeforeStart(id, [context, key, call, bytes,
                                            decide](Result<Done> still_safe) {
          if (still_safe.ok()) {
            context.allocation.ContainerStarts(key);
            call->Begin();
          }
          decide(still_safe.ok() ? Decision(bytes) : Decision(rpc::ToStatus(still_safe.error())));
        });
      });
    });
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override {
    if (call_) call_->End();  // not of a request that nobody can read
    context_.reconciler.Started();
  }

 private:
  const HandlerContext context_;
  std::shared_ptr<ContainerCall> call_;  // null if the request cannot be read
};

}  // namespace

std::unique_ptr<CallHandler> MakeStartContainer(const HandlerContext& context) {
  return std::make_unique<StartContainerHandler>(context);
}

}  // namespace alignd::cri
