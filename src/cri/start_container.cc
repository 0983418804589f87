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

class StartContainerHandler final : public proxy::CallHandler {
 public:
  explicit StartContainerHandler(const HandlerContext& context)
      : context_(context), call_(context.registry, context.reconciler, /*changes_cpus=*/false) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    if (!Parse(bytes, request_)) {
      decide(std::move(bytes));
      return;
    }
    context_.reconciler.BeforeStart(
        request_.container_id(),
        [this, bytes = std::move(bytes), decide = std::move(decide)](const Result<Done>& safe) {
          // Not earlier: one that was not known has been looked for since.
          const std::optional<std::string> id = Find();
          const std::optional<ContainerKey> key = id ? context_.registry.KeyOf(*id) : std::nullopt;
          if (!safe.ok() || !key) {
            decide(safe.ok() ? Decision(bytes) : Decision(rpc::ToStatus(safe.error())));
            return;
          }
          PreStart(context_, *key,
                   [this, id = *id, key = *key, bytes, decide](const Result<Done>& ready) {
                     if (ready.ok()) {
                       StartNow(id, key, bytes, decide);
                     } else {
                       decide(rpc::ToStatus(ready.error()));
                     }
                   });
        });
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override {
    call_.End();
    context_.reconciler.Started();
  }

 private:
  // The whole id of the container that the request names.
  std::optional<std::string> Find() const {
    return context_.registry.ContainerNamed(request_.container_id());
  }

  // The plugins may have taken their time.
  void StartNow(const std::string& id, const ContainerKey& key, const grpc::ByteBuffer& bytes,
                const Decide& decide) {
    context_.reconciler.BeforeStart(id, [this, id, key, bytes, decide](Result<Done> safe) {
      if (safe.ok() && request_.container_id() != id && Find() != id) safe = NoLonger(id);
      if (!safe.ok()) {
        decide(rpc::ToStatus(safe.error()));
        return;
      }
      context_.allocation.ContainerStarts(key);
      call_.Begin(id);
      decide(bytes);
    });
  }

  Error NoLonger(const std::string& id) const {
    return {ErrorCode::kUnavailable,
            "\"" + request_.container_id() + "\" no longer names container " + id + " alone",
            "give its whole id, if it is still there"};
  }

  const HandlerContext context_;
  v1::StartContainerRequest request_;
  ContainerCall call_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeStartContainer(const HandlerContext& context) {
  return std::make_unique<StartContainerHandler>(context);
}

}  // namespace alignd::cri
