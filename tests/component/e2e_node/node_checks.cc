// The matchers of the tables: pod resources, metrics and state files.
#include <grpcpp/client_context.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "edge/http_client.h"
#include "node_fixture.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "podresources/v1alpha1/podresources.grpc.pb.h"

namespace alignd::node_suites {
namespace {

// One call. `limited`: RESOURCE_EXHAUSTED is an answer; otherwise the call is repeated.
template <typename Invoke>
grpc::Status Ask(const Invoke& invoke, bool limited = false) {
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + daemon::kPatience);
    const grpc::Status status = invoke(context);
    if (limited || status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string Joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

template <typename Container>
Json DevicesJson(const Container& container) {
  Json devices = Json::object();
  for (const auto& device : container.devices()) {
    const int before = devices.value(device.resource_name(), 0);
    devices[device.resource_name()] = before + device.device_ids_size();
  }
  return devices;
}

// {"cpus": n, "devices": {"r": n}, "memory": {"memory": bytes}}, without what is empty.
Json ResourcesJson(const ::v1::ContainerResources& container) {
  Json json = Json::object();
  if (container.cpu_ids_size() > 0) json["cpus"] = container.cpu_ids_size();
  if (container.devices_size() > 0) json["devices"] = DevicesJson(container);
  for (const ::v1::ContainerMemory& memory : container.memory()) {
    json["memory"][memory.memory_type()] = memory.size();
  }
  return json;
}

}  // namespace

::v1::ListPodResourcesResponse NodeFixture::ListResources() const {
  const auto lister =
      ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
  ::v1::ListPodResourcesResponse response;
  const grpc::Status status =
      Ask([&](auto& context) { return lister->List(&context, {}, &response); });
  if (!status.ok()) throw std::runtime_error("List: " + status.error_message());
  return response;
}

std::string NodeFixture::DevicesOf(const std::string& name) const {
  const size_t slash = name.find('/');
  std::string text;
  const ::v1::ListPodResourcesResponse listed = ListResources();
  for (const auto& pod : listed.pod_resources()) {
    if (pod.name() != name.substr(0, slash)) continue;
    for (const auto& container : pod.containers()) {
      if (container.name() != name.substr(slash + 1)) continue;
      for (const auto& device : container.devices()) {
        text += device.resource_name();
        for (const std::string& id : device.device_ids()) text += " " + id;
      }
    }
  }
  return text;
}

// Exactly these pods.
std::string NodeFixture::CheckListed(const Json& matcher) const {
  std::set<std::string> listed;
  if (matcher.value("api", "v1") == "v1alpha1") {
    const auto lister = ::v1alpha1::PodResourcesLister::NewStub(
        *simulator::Dial(DaemonOptions().PodResourcesSocket()));
    ::v1alpha1::ListPodResourcesResponse response;
    const grpc::Status status =
        Ask([&](auto& context) { return lister->List(&context, {}, &response); });
    if (!status.ok()) return status.error_message();
    for (const auto& pod : response.pod_resources()) listed.insert(pod.name());
  } else {
    const ::v1::ListPodResourcesResponse response = ListResources();
    for (const auto& pod : response.pod_resources()) listed.insert(pod.name());
  }
  const auto wanted = matcher["listed"].get<std::set<std::string>>();
  return listed == wanted ? "" : "listed: " + Joined(listed);
}

// The answer to Get, by container. `containers`: exactly these, each with exactly that.
std::string NodeFixture::CheckGet(const Json& matcher) const {
  const auto lister =
      ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
  ::v1::GetPodResourcesRequest request;
  request.set_pod_name(matcher["get"].get<std::string>());
  request.set_pod_namespace("default");
  ::v1::GetPodResourcesResponse response;
  const grpc::Status status =
      Ask([&](auto& context) { return lister->Get(&context, request, &response); });
  if (matcher.contains("code")) {
    const bool failed = !status.ok() && matcher["code"] == "NOT_FOUND" &&
                        status.error_code() == grpc::StatusCode::NOT_FOUND;
    return failed ? "" : "code " + std::to_string(status.error_code());
  }
  if (!status.ok()) return status.error_message();
  std::map<std::string, Json> found;
  for (const auto& container : response.pod_resources().containers()) {
    found[container.name()] = ResourcesJson(container);
  }
  // List and Get agree.
  const ::v1::ListPodResourcesResponse listed = ListResources();
  for (const auto& pod : listed.pod_resources()) {
    if (pod.name() != request.pod_name()) continue;
    for (const auto& container : pod.containers()) {
      if (found.count(container.name()) == 0 ||
          found[container.name()] != ResourcesJson(container)) {
        return "List says of " + container.name() + ": " + ResourcesJson(container).dump();
      }
    }
  }
  std::map<std::string, Json> wanted;
  for (const auto& [name, json] : matcher.at("containers").items()) wanted[name] = json;
  return found == wanted ? "" : Json(found).dump();
}

std::string NodeFixture::CheckAllocatable(const Json& matcher) const {
  const auto lister =
      ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
  ::v1::AllocatableResourcesResponse response;
  const grpc::Status status =
      Ask([&](auto& context) { return lister->GetAllocatableResources(&context, {}, &response); });
  if (!status.ok()) return status.error_message();
  if (matcher.contains("cpus")) {
    const Result<CpuSet> wanted = CpuSet::Parse(matcher["cpus"].get<std::string>());
    std::vector<int64_t> ids(response.cpu_ids().begin(), response.cpu_ids().end());
    std::vector<int64_t> expected;
    for (const int cpu : *wanted) expected.push_back(cpu);
    if (ids != expected) return std::to_string(ids.size()) + " CPUs";
  }
  if (matcher.contains("devices") && DevicesJson(response) != matcher["devices"]) {
    return DevicesJson(response).dump();
  }
  if (!matcher.contains("memory")) return "";
  Json memory = Json::object();
  for (const ::v1::ContainerMemory& block : response.memory()) {
    if (block.topology().nodes_size() != 1) return "memory of several nodes";
    memory[std::to_string(block.topology().nodes(0).id())][block.memory_type()] = block.size();
  }
  if (matcher["memory"] != "as in the state file") {
    return memory == matcher["memory"] ? "" : memory.dump();
  }
  Json expected = Json::object();
  const Json state = Json::parse(ReadText(StateDir() / "memory_manager_state"));
  for (const auto& [node, table] : state.at("machineState").items()) {
    for (const auto& [type, amounts] : table.at("memoryMap").items()) {
      if (amounts.at("allocatable") != 0) expected[node][type] = amounts["allocatable"];
    }
  }
  return !memory.empty() && memory == expected ? "" : memory.dump() + " and " + expected.dump();
}

std::string NodeFixture::CheckMetric(const Json& matcher) const {
  const std::string series = matcher["metric"];
  const std::string page =
      "\n" + testing::Get(testing::ConnectUnix(MetricsSocket()), "/metrics").body;
  const size_t at = page.find("\n" + series + " ");
  if (at == std::string::npos) return "no such series";
  const double value = std::stod(page.substr(at + series.size() + 2));
  if (matcher.contains("at-least")) {
    return value >= matcher["at-least"].get<double>() ? "" : std::to_string(value);
  }
  return value == matcher.at("is").get<double>() ? "" : std::to_string(value);
}

std::string NodeFixture::CheckMemoryState(const Json& matcher) const {
  const Json state = Json::parse(ReadText(StateDir() / "memory_manager_state"));
  const std::string node = std::to_string(matcher["memory-state"].get<int>());
  const Json& memory = state.at("machineState").at(node).at("memoryMap").at("memory");
  if (matcher.contains("reserved-at-least")) {
    if (memory.at("reserved") < matcher["reserved-at-least"]) return memory.dump();
  }
  if (matcher.contains("free") && memory.at("free") != matcher["free"]) return memory.dump();
  return "";
}

// Some of so many calls of List in a row are refused by the rate limit.
std::string NodeFixture::CheckThrottled(const Json& matcher) const {
  const auto lister =
      ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
  int refused = 0;
  for (int i = 0; i < matcher.at("of-calls").get<int>(); ++i) {
    ::v1::ListPodResourcesResponse response;
    const grpc::Status status =
        Ask([&](auto& context) { return lister->List(&context, {}, &response); }, /*limited=*/true);
    refused += status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
  }
  return (refused > 0) == matcher["throttled"].get<bool>() ? "" : std::to_string(refused);
}

}  // namespace alignd::node_suites
