#include "extender/leader_endpoint.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace alignd::extender {

LeaderEndpoint::LeaderEndpoint(Settings settings, LeaderElector::Connect connect)
    : settings_(std::move(settings)), call_(std::move(connect)) {}

Result<Done> LeaderEndpoint::Announce() {
  if (Result<Done> connected = call_.Refresh(BootClock::now()); !connected.ok()) return connected;
  const nlohmann::json endpoint = {{"addresses", {settings_.address}},
                                   {"conditions", {{"ready", true}}}};
  const nlohmann::json patch = {{"endpoints", nlohmann::json::array({endpoint})}};
  const std::string path = "/apis/discovery.k8s.io/v1/namespaces/" + settings_.name_space +
                           "/endpointslices/" + settings_.slice;
  const auto answer = (*call_)("PATCH", path, patch.dump());
  if (answer.ok() && answer->status == 200) return Done{};
  call_.Drop();
  if (!answer.ok()) return answer.error();
  const std::string shown = settings_.name_space + "/" + settings_.slice;
  std::string remedy = apiserver::StatusRemedy(*answer);
  if (answer->status == 403) {
    remedy = "allow the credential to patch endpointslices.discovery.k8s.io in the namespace " +
             settings_.name_space;
  } else if (answer->status == 404) {
    remedy = "create the EndpointSlice " + shown;
  } else if (answer->status == 422) {
    remedy = "see that the addressType of the EndpointSlice " + shown + " is that of " +
             settings_.address + ", of --leader-endpoint-address";
  }
  return Error{ErrorCode::kUnavailable,
               "patch EndpointSlice " + shown + ": " + apiserver::StatusText(*answer), remedy};
}

}  // namespace alignd::extender
