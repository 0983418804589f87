#include "extender/leader_endpoint.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/object_json.h"

namespace alignd::extender {

LeaderEndpoint::LeaderEndpoint(Settings settings, LeaderElector::Connect connect)
    : settings_(std::move(settings)), connect_(std::move(connect)) {}

Result<Done> LeaderEndpoint::Announce() {
  const BootClock::time_point now = BootClock::now();
  if (!call_ || now - connected_ >= LeaderElector::kConnectionAge) {
    Result<apiserver::ApiCall> call = connect_();
    if (!call.ok()) return call.error();
    call_ = *std::move(call);
    connected_ = now;
  }
  const nlohmann::json endpoint = {{"addresses", {settings_.address}},
                                   {"conditions", {{"ready", true}}}};
  const nlohmann::json patch = {{"endpoints", nlohmann::json::array({endpoint})}};
  const std::string path = "/apis/discovery.k8s.io/v1/namespaces/" + settings_.name_space +
                           "/endpointslices/" + settings_.slice;
  const auto answer = (*call_)("PATCH", path, patch.dump());
  if (answer.ok() && answer->status == 200) return Done{};
  call_.reset();
  if (!answer.ok()) return answer.error();
  const std::string shown = settings_.name_space + "/" + settings_.slice;
  std::string text =
      "patch EndpointSlice " + shown + ": the API server answers " + std::to_string(answer->status);
  const nlohmann::json status = apiserver::ParsedObject(answer->body);
  const nlohmann::json* const message = apiserver::MemberIn(status, "message");
  if (message != nullptr && message->is_string()) text += ": " + message->get<std::string>();
  std::string remedy = "see the API server's log";
  if (answer->status == 403) {
    remedy = "allow the credential to patch endpointslices.discovery.k8s.io in the namespace " +
             settings_.name_space;
  } else if (answer->status == 404) {
    remedy = "create the EndpointSlice " + shown;
  } else if (answer->status == 422) {
    remedy = "see that the addressType of the EndpointSlice " + shown + " is that of " +
             settings_.address + ", of --leader-endpoint-address";
  }
  return Error{ErrorCode::kUnavailable, text, remedy};
}

}  // namespace alignd::extender
