#include "node_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "edge/process.h"
#include "real_node.h"
#include "simulated_node.h"

namespace alignd::node_suites {
namespace {

namespace v1 = runtime::v1;
using std::chrono::milliseconds;

constexpr char kImage[] = "localhost/busybox:1";
// Runs until a signal, which gives the exit code (RealNode::EndContainer).
constexpr char kCommand[] =
    "trap 'exit 0' TERM; trap 'exit 1' USR1; while :; do sleep 100000 & wait; done";

}  // namespace

NodeFixture::~NodeFixture() {
  Stop();
  plugins_.clear();
  node_.reset();
}

daemon::Options NodeFixture::DaemonOptions() const {
  daemon::Options options = DaemonTest::DaemonOptions();
  options.node.clear();
  options.metrics_address = "unix:" + MetricsSocket();
  const auto duration = [this](const char* name, milliseconds& value) {
    if (flags_.contains(name)) value = milliseconds(flags_[name].get<int>());
  };
  duration("plugin-patience", options.plugin_patience);
  duration("plugin-grace", options.plugin_grace);
  duration("runtime-timeout", options.runtime_timeout);
  options.keep_pod_cpu_quota = flags_.value("keep-pod-cpu-quota", false);
  node_->Complete(options);
  return options;
}

void NodeFixture::RunSteps(const Case& row, const Machine& machine) {
  ASSERT_NO_FATAL_FAILURE(StartNode(row, machine));
  for (size_t i = 0; i < row.steps.size(); ++i) {
    const std::string fault = DoStep(row.steps[i]);
    ASSERT_EQ(fault, "") << "step " << i + 1 << ": " << row.steps[i].dump();
  }
}

void NodeFixture::StartNode(const Case& row, const Machine& machine) {
  machine_ = machine;
  config_ = row.config;
  flags_ = row.flags;
  for (const auto& [name, value] : flags_.items()) {
    ASSERT_TRUE(name == "plugin-patience" || name == "plugin-grace" || name == "runtime-timeout" ||
                name == "keep-pod-cpu-quota" || name == "cfs-period")
        << "unknown flag " << name;
  }
  host_.memory_bytes = int64_t{64} << 30;
  for (const auto& [size, pages] : machine.numa().front().hugepages) {
    host_.hugepage_sizes_kb.push_back(static_cast<int64_t>(size / 1024));
  }
  host_.cpu_period = flags_.value("cfs-period", host_.cpu_period);
  tree_.Write({"config.yaml", ConfigText(row)});
  if (RealSettings()) {
    node_ = std::make_unique<RealNode>(*RealSettings(), tree_.root());
  } else {
    node_ = std::make_unique<SimulatedNode>(tree_, watch_);
  }
  patience_ = node_->Patience();
  call_deadline_ = node_->CallDeadline();
  const std::string fault = node_->Start(machine);
  ASSERT_EQ(fault, "");
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  api_ = *std::move(api);
  TryStart();
  const bool refusal = !row.steps.empty() && row.steps.front().contains("start-refused");
  ASSERT_TRUE(refusal || start_error_.empty()) << start_error_;
}

void NodeFixture::TryStart() {
  start_error_ = node_->StartDaemon(DaemonOptions());
  if (!start_error_.empty()) return;
  client_ = *simulator::Dial(DaemonOptions().listen);
  // On a busy machine, the first call could fail for want of a connection.
  if (!client_->WaitForConnected(std::chrono::system_clock::now() + call_deadline_)) {
    start_error_ = "alignd takes no connection";
  }
}

void NodeFixture::Stop() {
  client_.reset();
  if (node_) node_->StopDaemon();
}

bool NodeFixture::Await(const std::function<bool()>& is_so) const {
  return testing::WaitUntil(is_so, call_deadline_);
}

// --- Steps --------------------------------------------------------------------------------------

std::string NodeFixture::DoStep(const Json& step) {
  const std::string verb = VerbOf(step);
  try {
    if (verb == "expect") return CheckAll(step[verb]);
    if (verb == "remember") {
      remembered_[step[verb]] = FactsOf(step["of"]);
      return "";
    }
    for (const auto run : {&NodeFixture::DoPodStep, &NodeFixture::DoPluginStep,
                           &NodeFixture::DoDaemonStep, &NodeFixture::DoCallStep}) {
      const std::string fault = (this->*run)(verb, step);
      if (fault != "other") return fault;
    }
  } catch (const std::exception& fault) {
    return fault.what();
  }
  return "unknown step";
}

std::string NodeFixture::DoPodStep(const std::string& verb, const Json& step) {
  if (verb == "run" || verb == "refused") {
    RunningPod pod = MakePod(step[verb]);
    const std::string name = pod.manifest.pod.name;
    const std::string message = RunPod(pods_[name] = std::move(pod));
    return verb == "run" ? message : Refused(message, step.value("reason", ""));
  }
  if (verb == "retry") return RunPod(PodOf(step[verb]));
  if (verb == "retry-refused") return Refused(RunPod(PodOf(step[verb])), step.value("reason", ""));
  if (verb == "end") {
    return node_->EndContainer(PlaceOf(step[verb]), 0);
  }
  if (verb == "again") {
    const std::string name = step[verb];
    if (std::string fault = node_->EndContainer(PlaceOf(name), 1); !fault.empty()) return fault;
    RunningPod& pod = PodOf(name.substr(0, name.find('/')));
    ++pod.attempt;
    for (const Container& container : pod.manifest.pod.containers) {
      if (container.name == name.substr(name.find('/') + 1)) return CreateAndStart(pod, container);
    }
    return "no such container";
  }
  if (verb == "complete") return EndContainers(PodOf(step[verb]));
  if (verb == "remove") {
    const std::string uid = PodOf(step[verb]).manifest.pod.uid;
    if (const std::string fault = Remove(PodOf(step[verb])); !fault.empty()) return fault;
    // No other pod is assigned its CPUs before the release is on the disk.
    const auto is_released = [&] { return State().find("\"" + uid + "\"") == std::string::npos; };
    return Await(is_released) ? "" : "its CPUs are still assigned";
  }
  if (verb == "remove-unseen") {
    const std::shared_ptr<grpc::Channel> ours =
        std::exchange(client_, *simulator::Dial(DaemonOptions().runtime_endpoint));
    const std::string fault = Remove(PodOf(step[verb]));
    client_ = ours;
    return fault;
  }
  return "other";
}

std::string NodeFixture::DoPluginStep(const std::string& verb, const Json& step) {
  if (verb != "plugin" && verb != "unplug" && verb != "health" && verb != "end-lists") {
    return "other";
  }
  const std::string resource = step[verb];
  if (verb == "unplug") return plugins_.erase(resource) == 1 ? "" : "no such plugin";
  if (verb == "plugin") {
    simulator::DeviceProfile profile;
    profile.directory = DaemonOptions().DevicePluginDir();
    profile.resource = resource;
    profile.options_fail = step.value("fails", "") == "GetDevicePluginOptions";
    const Json devices = step.value("devices", Json::object());
    for (const auto& [id, nodes] : devices.items()) {
      profile.devices.push_back({id, nodes.get<std::vector<int64_t>>(), true});
    }
    if (profile.devices.empty()) profile.devices = devices_[resource];
    devices_[resource] = profile.devices;
    profile.envs = {{"DEVICES", "{ids}"}};
    if (step.contains("cdi")) profile.cdi_devices = {step["cdi"].get<std::string>()};
    auto plugin = simulator::DevicePlugin::Start(profile);
    if (!plugin.ok()) return plugin.error().Text();
    plugins_[resource] = *std::move(plugin);
    const bool fails = profile.options_fail;
    const bool registered =
        plugins_[resource]->WaitForRegistrations(1, fails ? milliseconds(1'000) : call_deadline_);
    return registered || fails ? "" : "the plugin was not registered";
  }
  const auto plugin = plugins_.find(resource);
  if (plugin == plugins_.end()) return "no such plugin";
  if (verb == "end-lists") {
    // Before the devices are announced, none are allocatable either: the next check would pass.
    const auto checkpoint = DaemonOptions().DevicePluginDir() / "kubelet_internal_checkpoint";
    const auto is_announced = [&] {
      return ReadText(checkpoint).find(resource) != std::string::npos;
    };
    if (!Await(is_announced)) return "the devices were not announced";
    plugin->second->EndLists();
    return "";
  }
  const Result<Done> done = plugin->second->SetHealth(step.at("id"), step.at("healthy"));
  return done.ok() ? "" : done.error().Text();
}

std::string NodeFixture::DoDaemonStep(const std::string& verb, const Json& step) {
  if (verb == "start-refused") {
    const std::string part = step[verb];
    return start_error_.find(part) != std::string::npos
               ? ""
               : "alignd " + (start_error_.empty() ? "started" : "said: " + start_error_);
  }
  if (verb != "stop" && verb != "start" && verb != "restart" && verb != "reboot") return "other";
  if (verb != "start") Stop();
  if (verb == "reboot") {
    node_->Reboot();
    for (auto& [name, pod] : pods_) pod.containers.clear(), pod.sandbox.clear();
  }
  if (verb == "stop") return "";
  TryStart();
  return start_error_;
}

std::string NodeFixture::DoCallStep(const std::string& verb, const Json& step) {
  if (verb == "fail") {
    const std::string message = step.value("message", "");
    node_->Simulated().SetFailure(
        step[verb],
        message.empty() ? grpc::Status::OK : grpc::Status(grpc::StatusCode::INTERNAL, message));
    return "";
  }
  if (verb == "delay") {
    node_->Simulated().SetDelay(step[verb], milliseconds(step.at("milliseconds").get<int>()));
    return "";
  }
  if (verb != "call") return "other";
  const std::string method = step[verb];
  grpc::Status status;
  if (method == "PullImage" || method == "ImageStatus") {
    service_ = "runtime.v1.ImageService";
    v1::PullImageRequest pull;  // ImageStatus has the image in the same field
    pull.mutable_image()->set_image(kImage);
    status = Call<v1::PullImageResponse>(method, pull).status;
    service_ = "runtime.v1.RuntimeService";
  } else {
    status = Call<v1::ListContainersResponse>(method, v1::ListContainersRequest()).status;
  }
  const std::string code = status.ok() ? "OK" : std::to_string(status.error_code());
  if (code != step.value("code", "OK")) return "code " + code + ": " + status.error_message();
  const std::string message = step.value("message", "");
  return status.error_message().find(message) != std::string::npos
             ? ""
             : "the message is: " + status.error_message();
}

// --- Pods ---------------------------------------------------------------------------------------

NodeFixture::RunningPod NodeFixture::MakePod(const Json& json) const {
  RunningPod pod;
  pod.manifest.pod = PodOfTable(json);
  for (const Container& container : pod.manifest.pod.containers) {
    pod.manifest.containers[container.name].image = kImage;
    pod.manifest.containers[container.name].command = {"sh", "-c", kCommand};
  }
  pod.manifest.host_network = true;  // no network plugin is needed
  simulator::KubeletSettings settings;
  settings.annotate_resources = false;
  settings.cpu_period = host_.cpu_period;
  pod.config = simulator::MakeSandboxConfig(pod.manifest, settings);
  return pod;
}

// As the kubelet writes it to the pod's cgroup before it creates the sandbox.
std::string NodeFixture::PodQuota(const v1::PodSandboxConfig& config) const {
  const v1::LinuxContainerResources& resources = config.linux().resources();
  const std::string quota =
      resources.cpu_quota() > 0 ? std::to_string(resources.cpu_quota()) : "max";
  return quota + " " + std::to_string(resources.cpu_period());
}

std::string NodeFixture::RunPod(RunningPod& pod) {
  api_->SetPod(pod.manifest.pod);
  if (pod.sandbox.empty()) {
    node_->MakePodCgroup(pod.config.linux().cgroup_parent(), PodQuota(pod.config));
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = pod.config;
    const auto answer = Call<v1::RunPodSandboxResponse>("RunPodSandbox", request);
    if (!answer.status.ok()) return answer.status.error_message();
    pod.sandbox = answer.response.pod_sandbox_id();
  }
  for (const Container& container : pod.manifest.pod.containers) {
    if (pod.containers.contains(container.name)) continue;
    const std::string fault = CreateAndStart(pod, container);
    if (!fault.empty()) return fault;
    if (container.kind != ContainerKind::kInit) continue;
    const std::string end = node_->EndContainer(
        {pod.config.linux().cgroup_parent(), pod.containers[container.name]}, 0);
    if (!end.empty()) return container.name + ": " + end;
  }
  return "";
}

std::string NodeFixture::CreateAndStart(RunningPod& pod, const Container& container) {
  v1::ContainerConfig config =
      simulator::MakeContainerConfig(pod.manifest, container, kImage, host_);
  config.mutable_metadata()->set_attempt(pod.attempt);
  const auto created = Create(pod.sandbox, pod.config, config);
  if (!created.status.ok()) return created.status.error_message();
  pod.sent[container.name] = config;
  pod.containers[container.name] = created.response.container_id();
  const grpc::Status started = StartContainer(created.response.container_id());
  return started.ok() ? "" : started.error_message();
}

std::string NodeFixture::Refused(const std::string& message, const std::string& reason) const {
  if (message.empty()) return "the pod was not refused";
  return message.find(reason) != std::string::npos ? "" : "refused because of: " + message;
}

std::string NodeFixture::EndContainers(RunningPod& pod) {
  for (const auto& [name, id] : pod.containers) {
    const ContainerPlace place = {pod.config.linux().cgroup_parent(), id};
    const auto facts = node_->Find(place);
    if (!facts || !facts->runs) continue;
    if (std::string fault = node_->EndContainer(place, 0); !fault.empty()) return fault;
  }
  const grpc::Status stopped = StopSandbox(pod.sandbox);
  return stopped.ok() ? "" : stopped.error_message();
}

std::string NodeFixture::Remove(RunningPod& pod) {
  const grpc::Status stopped = StopSandbox(pod.sandbox);
  if (!stopped.ok()) return stopped.error_message();
  const grpc::Status removed = RemoveSandbox(pod.sandbox);
  if (!removed.ok()) return removed.error_message();
  node_->RemovePodCgroup(pod.config.linux().cgroup_parent());
  pods_.erase(pod.manifest.pod.name);
  return "";
}

}  // namespace alignd::node_suites
