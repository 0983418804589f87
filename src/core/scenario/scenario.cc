#include "alignd/scenario/scenario.h"

#include <optional>

#include "alignd/machine/node_json.h"
#include "alignd/pod/kubernetes_pod.h"
#include "core/json/json_view.h"

namespace alignd::scenario {
namespace {

using json::View;

// The text of a part, for readers of text.
std::string TextOf(const View& view) {
  return view.value().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<devicemanager::Device> ReadDevice(const View& view) {
  devicemanager::Device device;
  const Result<std::optional<View>> numa = view.Find("numa");
  if (!numa.ok()) return numa.error();
  if (!*numa) return device;
  const Result<std::vector<View>> ids = (*numa)->Elements();
  if (!ids.ok()) return ids.error();
  for (const View& id : *ids) {
    const Result<int64_t> number = id.Integer(INT64_MIN, INT64_MAX);
    if (!number.ok()) return number.error();
    device.numa.push_back(*number);
  }
  return device;
}

Result<DeviceList> ReadDeviceList(const View& view) {
  const Result<std::vector<View>> elements = view.Elements();
  if (!elements.ok()) return elements.error();
  DeviceList list;
  std::set<std::string> ids;
  for (const View& element : *elements) {
    const Result<View> id_view = element.Require("id");
    if (!id_view.ok()) return id_view.error();
    Result<std::string> id = id_view->String();
    if (!id.ok()) return id.error();
    if (!ids.insert(*id).second) return id_view->Wrong("\"" + *id + "\" occurs twice");
    Result<devicemanager::Device> device = ReadDevice(element);
    if (!device.ok()) return device.error();
    list.emplace_back(*std::move(id), *std::move(device));
  }
  return list;
}

Result<std::map<std::string, DeviceList>> ReadDevices(const View& node) {
  std::map<std::string, DeviceList> devices;
  const Result<std::optional<View>> view = node.Find("devices");
  if (!view.ok()) return view.error();
  if (!*view) return devices;
  const auto members = (*view)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [resource, list_view] : *members) {
    Result<DeviceList> list = ReadDeviceList(list_view);
    if (!list.ok()) return list.error();
    devices.emplace(resource, *std::move(list));
  }
  return devices;
}

Result<std::set<std::string>> ReadPreferred(const View& node) {
  std::set<std::string> preferred;
  const Result<std::optional<View>> view = node.Find("preferred");
  if (!view.ok()) return view.error();
  if (!*view) return preferred;
  const Result<std::vector<View>> elements = (*view)->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& element : *elements) {
    Result<std::string> resource = element.String();
    if (!resource.ok()) return resource.error();
    preferred.insert(*std::move(resource));
  }
  return preferred;
}

Result<NodeDescription> ReadNode(const View& view) {
  Result<Machine> machine = MachineFromNodeJson(TextOf(view));
  if (!machine.ok()) {
    return view.path().empty() ? machine.error() : machine.error().In(view.path());
  }
  Result<std::map<std::string, DeviceList>> devices = ReadDevices(view);
  if (!devices.ok()) return devices.error();
  Result<std::set<std::string>> preferred = ReadPreferred(view);
  if (!preferred.ok()) return preferred.error();
  return NodeDescription{*std::move(machine), *std::move(devices), *std::move(preferred)};
}

Result<std::string> ReadText(const View& step, std::string_view key) {
  const Result<View> view = step.Require(key);
  if (!view.ok()) return view.error();
  return view->String();
}

Result<Step> ReadAdmit(const View& step) {
  const Result<View> view = step.Require("pod");
  if (!view.ok()) return view.error();
  Result<Pod> pod = ParseKubernetesPod(TextOf(*view));
  if (!pod.ok()) return pod.error().In(view->path());
  return Step(AdmitPod{*std::move(pod)});
}

Result<Step> ReadDeviceHealth(const View& step) {
  Result<std::string> resource = ReadText(step, "resource");
  if (!resource.ok()) return resource.error();
  Result<std::string> id = ReadText(step, "id");
  if (!id.ok()) return id.error();
  const Result<View> healthy_view = step.Require("healthy");
  if (!healthy_view.ok()) return healthy_view.error();
  const Result<bool> healthy = healthy_view->Bool();
  if (!healthy.ok()) return healthy.error();
  return Step(SetDeviceHealth{*std::move(resource), *std::move(id), *healthy});
}

Result<Step> ReadPodStep(const View& step, const std::string& op) {
  Result<std::string> uid = ReadText(step, "podUID");
  if (!uid.ok()) return uid.error();
  if (op == "start") return Step(StartPod{*std::move(uid)});
  if (op == "removePod") return Step(RemovePod{*std::move(uid)});
  Result<std::string> container = ReadText(step, "container");
  if (!container.ok()) return container.error();
  return Step(RemoveContainer{{*std::move(uid), *std::move(container)}});
}

Result<Step> ReadStep(const View& step) {
  const Result<View> op_view = step.Require("op");
  if (!op_view.ok()) return op_view.error();
  const Result<std::string> op = op_view->String();
  if (!op.ok()) return op.error();
  if (*op == "admit") return ReadAdmit(step);
  if (*op == "deviceHealth") return ReadDeviceHealth(step);
  if (*op == "restart") return Step(Restart{});
  if (*op == "start" || *op == "removePod" || *op == "removeContainer") {
    return ReadPodStep(step, *op);
  }
  return op_view->IsNot("admit, start, removeContainer, removePod, deviceHealth or restart");
}

Result<std::vector<Step>> ReadSteps(const View& scenario) {
  std::vector<Step> steps;
  const Result<std::optional<View>> view = scenario.Find("steps");
  if (!view.ok()) return view.error();
  if (!*view) return steps;
  const Result<std::vector<View>> elements = (*view)->Elements();
  if (!elements.ok()) return elements.error();
  for (const View& element : *elements) {
    Result<Step> step = ReadStep(element);
    if (!step.ok()) return step.error();
    steps.push_back(*std::move(step));
  }
  return steps;
}

Result<KubeletConfig> ReadConfig(const View& scenario) {
  const Result<std::optional<View>> view = scenario.Find("config");
  if (!view.ok()) return view.error();
  Result<KubeletConfig> config = ParseKubeletConfig(*view ? TextOf(**view) : "{}");
  if (!config.ok()) return config.error().In("config");
  const Result<std::optional<View>> kubelet = scenario.Find("kubelet");
  if (!kubelet.ok()) return kubelet.error();
  if (!*kubelet) {
    const Result<std::optional<View>> stated =
        *view ? (*view)->Find("compatibility") : Result<std::optional<View>>(std::nullopt);
    if (!stated.ok()) return stated.error();
    // As in the recorded scenarios, whose format is older than 1.37.
    if (!*stated) config->compatibility = Compatibility::k1_36;
    return config;
  }
  const Result<std::string> release = (*kubelet)->String();
  if (!release.ok()) return release.error();
  for (const auto known : {Compatibility::k1_20, Compatibility::k1_36, Compatibility::k1_37}) {
    if (*release != ToString(known)) continue;
    config->compatibility = known;
    return config;
  }
  return (*kubelet)->IsNot("\"1.20\", \"1.36\" or \"1.37\"");
}

Result<StateFiles> ReadFiles(const View& scenario) {
  StateFiles files;
  const Result<std::optional<View>> view = scenario.Find("files");
  if (!view.ok()) return view.error();
  if (!*view) return files;
  const auto members = (*view)->Members();
  if (!members.ok()) return members.error();
  for (const auto& [name, member] : *members) {
    Result<std::string> text = member.String();
    if (!text.ok()) return text.error();
    if (name == "cpu_manager_state") {
      files.cpu_manager_state = *std::move(text);
    } else if (name == "memory_manager_state") {
      files.memory_manager_state = *std::move(text);
    } else {
      return member.Wrong("is not known; known are cpu_manager_state and memory_manager_state");
    }
  }
  return files;
}

Result<std::string> ReadName(const View& scenario) {
  const Result<std::optional<View>> view = scenario.Find("name");
  if (!view.ok()) return view.error();
  return *view ? (*view)->String() : Result<std::string>("");
}

}  // namespace

Result<NodeDescription> ParseNode(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  return ReadNode(View(*parsed, ""));
}

Result<Scenario> ParseScenario(std::string_view text) {
  const Result<nlohmann::json> parsed = json::Parse(text);
  if (!parsed.ok()) return parsed.error();
  const View top(*parsed, "");
  Result<std::string> name = ReadName(top);
  if (!name.ok()) return name.error();
  const Result<View> node_view = top.Require("node");
  if (!node_view.ok()) return node_view.error();
  Result<NodeDescription> node = ReadNode(*node_view);
  if (!node.ok()) return node.error();
  Result<KubeletConfig> config = ReadConfig(top);
  if (!config.ok()) return config.error();
  Result<std::vector<Step>> steps = ReadSteps(top);
  if (!steps.ok()) return steps.error();
  Result<StateFiles> files = ReadFiles(top);
  if (!files.ok()) return files.error();
  return Scenario{*std::move(name), *std::move(node), *std::move(config), *std::move(files),
                  *std::move(steps)};
}

}  // namespace alignd::scenario
