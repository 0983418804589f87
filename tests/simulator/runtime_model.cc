#include "simulator/runtime_model.h"

#include <cstdio>
#include <iterator>
#include <utility>

namespace alignd::simulator {
namespace {

namespace cri = runtime::v1;
using grpc::StatusCode;

constexpr int32_t kKilled = 137;  // 128 + SIGKILL

grpc::Status NotFound(const std::string& what, const std::string& id) {
  return {StatusCode::NOT_FOUND,
          "an error occurred when try to find " + what + " \"" + id + "\": not found"};
}

template <typename Labels>
bool Selects(const Labels& selector, const Labels& labels) {
  for (const auto& [key, value] : selector) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) return false;
  }
  return true;
}

// CRI clients may send a prefix of an id in a filter.
bool MatchesId(const std::string& filter, const std::string& id) {
  return filter.empty() || id.starts_with(filter);
}

// A unique prefix of an id is accepted.
template <typename Value>
std::string WholeId(const std::map<std::string, Value>& values, const std::string& named) {
  const auto first = values.lower_bound(named);
  if (named.empty() || first == values.end() || !first->first.starts_with(named)) return named;
  const auto second = std::next(first);
  const bool ambiguous = second != values.end() && second->first.starts_with(named);
  return ambiguous ? named : first->first;
}

// Zero and empty keep the old value, as in a runtime that reads the message as proto3.
void Merge(cri::LinuxContainerResources change, cri::LinuxContainerResources& to) {
  if (change.hugepage_limits_size() > 0) to.clear_hugepage_limits();
  if (change.cpu_period() == 0) change.clear_cpu_period();
  if (change.cpu_quota() == 0) change.clear_cpu_quota();
  if (change.cpu_shares() == 0) change.clear_cpu_shares();
  if (change.memory_limit_in_bytes() == 0) change.clear_memory_limit_in_bytes();
  if (change.oom_score_adj() == 0) change.clear_oom_score_adj();
  if (change.cpuset_cpus().empty()) change.clear_cpuset_cpus();
  if (change.cpuset_mems().empty()) change.clear_cpuset_mems();
  if (change.memory_swap_limit_in_bytes() == 0) change.clear_memory_swap_limit_in_bytes();
  to.MergeFrom(change);
}

}  // namespace

RuntimeModel::RuntimeModel(Clock clock) : clock_(std::move(clock)) {
  Add("Version", &RuntimeModel::Version);
  Add("Status", &RuntimeModel::Status);
  AddSandboxMethods();
  AddContainerMethods();
  AddImageMethods();
}

template <typename Request, typename Response>
void RuntimeModel::Add(const std::string& name,
                       grpc::Status (RuntimeModel::*method)(const Request&, Response&)) {
  methods_[name] = [this, name, method](const std::string& bytes, std::string& answer) {
    Request request;
    if (!request.ParseFromString(bytes)) {
      return grpc::Status(StatusCode::INVALID_ARGUMENT, name + ": the request does not parse");
    }
    Response response;
    grpc::Status status = (this->*method)(request, response);
    if (status.ok()) answer = response.SerializeAsString();
    return status;
  };
}

void RuntimeModel::AddSandboxMethods() {
  Add<cri::RunPodSandboxRequest>("RunPodSandbox", &RuntimeModel::Run);
  Add<cri::StopPodSandboxRequest, cri::StopPodSandboxResponse>("StopPodSandbox",
                                                               &RuntimeModel::Stop);
  Add<cri::RemovePodSandboxRequest, cri::RemovePodSandboxResponse>("RemovePodSandbox",
                                                                   &RuntimeModel::Remove);
  Add<cri::PodSandboxStatusRequest, cri::PodSandboxStatusResponse>("PodSandboxStatus",
                                                                   &RuntimeModel::Show);
  Add<cri::ListPodSandboxRequest, cri::ListPodSandboxResponse>("ListPodSandbox",
                                                               &RuntimeModel::List);
}

void RuntimeModel::AddContainerMethods() {
  Add("CreateContainer", &RuntimeModel::Create);
  Add("StartContainer", &RuntimeModel::Start);
  Add<cri::StopContainerRequest, cri::StopContainerResponse>("StopContainer", &RuntimeModel::Stop);
  Add<cri::RemoveContainerRequest, cri::RemoveContainerResponse>("RemoveContainer",
                                                                 &RuntimeModel::Remove);
  Add<cri::ContainerStatusRequest, cri::ContainerStatusResponse>("ContainerStatus",
                                                                 &RuntimeModel::Show);
  Add<cri::ListContainersRequest, cri::ListContainersResponse>("ListContainers",
                                                               &RuntimeModel::List);
  Add("UpdateContainerResources", &RuntimeModel::Update);
}

void RuntimeModel::AddImageMethods() {
  Add<cri::ListImagesRequest, cri::ListImagesResponse>("ListImages", &RuntimeModel::List);
  Add<cri::ImageStatusRequest, cri::ImageStatusResponse>("ImageStatus", &RuntimeModel::Show);
  Add("PullImage", &RuntimeModel::Pull);
  Add<cri::RemoveImageRequest, cri::RemoveImageResponse>("RemoveImage", &RuntimeModel::Remove);
  Add("ImageFsInfo", &RuntimeModel::FsInfo);
}

grpc::Status RuntimeModel::Answer(const std::string& method, const std::string& request,
                                  std::string& response) {
  const auto found = methods_.find(method);
  if (found == methods_.end()) {
    return {StatusCode::UNIMPLEMENTED, "method " + method + " not implemented"};
  }
  return found->second(request, response);
}

bool RuntimeModel::EndContainer(const std::string& id, int32_t exit_code) {
  const auto found = containers_.find(id);
  if (found == containers_.end() || found->second.state != cri::CONTAINER_RUNNING) return false;
  End(found->second, exit_code);
  return true;
}

bool RuntimeModel::EndSandbox(const std::string& id) {
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || found->second.state != cri::SANDBOX_READY) return false;
  found->second.state = cri::SANDBOX_NOTREADY;
  return true;
}

// --- Node

grpc::Status RuntimeModel::Version(const cri::VersionRequest&, cri::VersionResponse& response) {
  response.set_version("0.1.0");  // the kubelet's own API version, not the runtime's
  response.set_runtime_name("alignsim");
  response.set_runtime_version("0.1.0");
  response.set_runtime_api_version("v1");
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Status(const cri::StatusRequest&, cri::StatusResponse& response) {
  for (const char* type : {"RuntimeReady", "NetworkReady"}) {
    cri::RuntimeCondition& condition = *response.mutable_status()->add_conditions();
    condition.set_type(type);
    condition.set_status(true);
  }
  return grpc::Status::OK;
}

// --- Sandboxes

grpc::Status RuntimeModel::Run(const cri::RunPodSandboxRequest& request,
                               cri::RunPodSandboxResponse& response) {
  if (request.config().metadata().uid().empty()) {
    return {StatusCode::INVALID_ARGUMENT, "sandbox config has no uid"};
  }
  const std::string id = NewId();
  sandboxes_[id] = {id, request.config(), request.runtime_handler(), cri::SANDBOX_READY, clock_()};
  response.set_pod_sandbox_id(id);
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Stop(const cri::StopPodSandboxRequest& request,
                                cri::StopPodSandboxResponse&) {
  const auto found = sandboxes_.find(WholeId(sandboxes_, request.pod_sandbox_id()));
  if (found == sandboxes_.end()) return NotFound("sandbox", request.pod_sandbox_id());
  for (auto& [id, container] : containers_) {
    if (container.sandbox_id == found->first && container.state == cri::CONTAINER_RUNNING) {
      End(container, kKilled);
    }
  }
  found->second.state = cri::SANDBOX_NOTREADY;
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Remove(const cri::RemovePodSandboxRequest& request,
                                  cri::RemovePodSandboxResponse&) {
  const auto found = sandboxes_.find(WholeId(sandboxes_, request.pod_sandbox_id()));
  if (found == sandboxes_.end()) return grpc::Status::OK;  // removing twice is no error
  for (auto container = containers_.begin(); container != containers_.end();) {
    const auto next = std::next(container);
    if (container->second.sandbox_id == found->first) Forget(container);
    container = next;
  }
  sandboxes_.erase(found);
  return grpc::Status::OK;
}

cri::PodSandboxStatus RuntimeModel::StatusOf(const SimulatedSandbox& sandbox) const {
  cri::PodSandboxStatus status;
  status.set_id(sandbox.id);
  *status.mutable_metadata() = sandbox.config.metadata();
  status.set_state(sandbox.state);
  status.set_created_at(sandbox.created_at);
  *status.mutable_labels() = sandbox.config.labels();
  *status.mutable_annotations() = sandbox.config.annotations();
  // Without them, a kubelet recreates the sandbox of a pod with hostNetwork at every sync.
  *status.mutable_linux()->mutable_namespaces()->mutable_options() =
      sandbox.config.linux().security_context().namespace_options();
  status.set_runtime_handler(sandbox.runtime_handler);
  return status;
}

grpc::Status RuntimeModel::Show(const cri::PodSandboxStatusRequest& request,
                                cri::PodSandboxStatusResponse& response) {
  const auto found = sandboxes_.find(WholeId(sandboxes_, request.pod_sandbox_id()));
  if (found == sandboxes_.end()) return NotFound("sandbox", request.pod_sandbox_id());
  *response.mutable_status() = StatusOf(found->second);
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::List(const cri::ListPodSandboxRequest& request,
                                cri::ListPodSandboxResponse& response) {
  const cri::PodSandboxFilter& filter = request.filter();
  for (const auto& [id, sandbox] : sandboxes_) {
    if (!MatchesId(filter.id(), id)) continue;
    if (filter.has_state() && filter.state().state() != sandbox.state) continue;
    if (!Selects(filter.label_selector(), sandbox.config.labels())) continue;
    cri::PodSandbox& item = *response.add_items();
    item.set_id(id);
    *item.mutable_metadata() = sandbox.config.metadata();
    item.set_state(sandbox.state);
    item.set_created_at(sandbox.created_at);
    *item.mutable_labels() = sandbox.config.labels();
    *item.mutable_annotations() = sandbox.config.annotations();
    item.set_runtime_handler(sandbox.runtime_handler);
  }
  return grpc::Status::OK;
}

// --- Containers

grpc::Status RuntimeModel::Create(const cri::CreateContainerRequest& request,
                                  cri::CreateContainerResponse& response) {
  const auto sandbox = sandboxes_.find(WholeId(sandboxes_, request.pod_sandbox_id()));
  if (sandbox == sandboxes_.end()) return NotFound("sandbox", request.pod_sandbox_id());
  if (sandbox->second.state != cri::SANDBOX_READY) {
    return {StatusCode::UNKNOWN, "sandbox \"" + sandbox->first + "\" is not running"};
  }
  const cri::ContainerMetadata& metadata = request.config().metadata();
  for (const auto& [id, other] : containers_) {
    if (other.sandbox_id == sandbox->first && other.config.metadata().name() == metadata.name() &&
        other.config.metadata().attempt() == metadata.attempt()) {
      return {StatusCode::UNKNOWN, "failed to reserve container name \"" + metadata.name() +
                                       "\": it is reserved for \"" + id + "\""};
    }
  }
  SimulatedContainer container;
  container.id = NewId();
  container.sandbox_id = sandbox->first;
  container.config = request.config();
  container.resources = request.config().linux().resources();
  const std::string& parent = sandbox->second.config.linux().cgroup_parent();
  container.cgroup = (parent.empty() ? "/simulated" : parent) + "/" + container.id;
  container.created_at = clock_();
  response.set_container_id(container.id);
  const auto created = containers_.emplace(container.id, std::move(container)).first;
  events_.push_back({Change::kCreated, created->second});
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Start(const cri::StartContainerRequest& request,
                                 cri::StartContainerResponse&) {
  const auto found = containers_.find(WholeId(containers_, request.container_id()));
  if (found == containers_.end()) return NotFound("container", request.container_id());
  SimulatedContainer& container = found->second;
  if (container.state != cri::CONTAINER_CREATED) {
    return {StatusCode::UNKNOWN, "container \"" + found->first + "\" is in state " +
                                     cri::ContainerState_Name(container.state)};
  }
  // As containerd: a container never starts in a sandbox that was stopped.
  if (sandboxes_.at(container.sandbox_id).state != cri::SANDBOX_READY) {
    return {StatusCode::UNKNOWN,
            "sandbox container \"" + container.sandbox_id + "\" is not running"};
  }
  container.state = cri::CONTAINER_RUNNING;
  container.started_at = clock_();
  events_.push_back({Change::kStarted, container});
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Stop(const cri::StopContainerRequest& request,
                                cri::StopContainerResponse&) {
  const auto found = containers_.find(WholeId(containers_, request.container_id()));
  if (found == containers_.end()) return NotFound("container", request.container_id());
  if (found->second.state == cri::CONTAINER_RUNNING) End(found->second, kKilled);
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Remove(const cri::RemoveContainerRequest& request,
                                  cri::RemoveContainerResponse&) {
  const auto found = containers_.find(WholeId(containers_, request.container_id()));
  if (found != containers_.end()) Forget(found);
  return grpc::Status::OK;  // removing twice is no error
}

cri::ContainerStatus RuntimeModel::StatusOf(const SimulatedContainer& container) const {
  const cri::ContainerConfig& config = container.config;
  cri::ContainerStatus status;
  status.set_id(container.id);
  *status.mutable_metadata() = config.metadata();
  status.set_state(container.state);
  status.set_created_at(container.created_at);
  status.set_started_at(container.started_at);
  status.set_finished_at(container.finished_at);
  status.set_exit_code(container.exit_code);
  *status.mutable_image() = config.image();
  status.set_image_ref(config.image().image());
  if (container.state == cri::CONTAINER_EXITED) {
    status.set_reason(container.exit_code == 0 ? "Completed" : "Error");
  }
  *status.mutable_labels() = config.labels();
  *status.mutable_annotations() = config.annotations();
  *status.mutable_mounts() = config.mounts();
  status.set_log_path(config.log_path());
  *status.mutable_resources()->mutable_linux() = container.resources;
  return status;
}

// As containerd shows it: an empty list is left out.
static std::string RequestOf(const cri::ContainerConfig& config) {
  std::string devices;
  for (const cri::CDIDevice& device : config.cdi_devices()) {
    devices += std::string(devices.empty() ? R"(,"CDI_devices":[)" : ",") + R"({"name":")" +
               device.name() + R"("})";
  }
  return R"({"metadata":{"name":")" + config.metadata().name() + R"("})" + devices +
         (devices.empty() ? "}" : "]}");
}

grpc::Status RuntimeModel::Show(const cri::ContainerStatusRequest& request,
                                cri::ContainerStatusResponse& response) {
  const auto found = containers_.find(WholeId(containers_, request.container_id()));
  if (found == containers_.end()) return NotFound("container", request.container_id());
  *response.mutable_status() = StatusOf(found->second);
  if (request.verbose()) {
    const cri::LinuxContainerResources& now = found->second.resources;
    (*response.mutable_info())["info"] =
        R"({"runtimeSpec":{"linux":{"cgroupsPath":")" + found->second.cgroup +
        R"(","resources":{"cpu":{"cpus":")" + now.cpuset_cpus() + R"(","shares":)" +
        std::to_string(now.cpu_shares()) + R"(,"quota":)" + std::to_string(now.cpu_quota()) +
        R"(,"period":)" + std::to_string(now.cpu_period()) + R"(},"memory":{"limit":)" +
        std::to_string(now.memory_limit_in_bytes()) + R"(}}}},"config":)" +
        RequestOf(found->second.config) + "}";
  }
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::List(const cri::ListContainersRequest& request,
                                cri::ListContainersResponse& response) {
  const cri::ContainerFilter& filter = request.filter();
  for (const auto& [id, container] : containers_) {
    if (!MatchesId(filter.id(), id)) continue;
    if (!MatchesId(filter.pod_sandbox_id(), container.sandbox_id)) continue;
    if (filter.has_state() && filter.state().state() != container.state) continue;
    if (!Selects(filter.label_selector(), container.config.labels())) continue;
    cri::Container& item = *response.add_containers();
    item.set_id(id);
    item.set_pod_sandbox_id(container.sandbox_id);
    *item.mutable_metadata() = container.config.metadata();
    *item.mutable_image() = container.config.image();
    item.set_image_ref(container.config.image().image());
    item.set_state(container.state);
    item.set_created_at(container.created_at);
    *item.mutable_labels() = container.config.labels();
    *item.mutable_annotations() = container.config.annotations();
  }
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Update(const cri::UpdateContainerResourcesRequest& request,
                                  cri::UpdateContainerResourcesResponse&) {
  const auto found = containers_.find(WholeId(containers_, request.container_id()));
  if (found == containers_.end()) return NotFound("container", request.container_id());
  SimulatedContainer& container = found->second;
  if (container.state == cri::CONTAINER_EXITED) {
    return {StatusCode::UNKNOWN, "container \"" + found->first + "\" has exited"};
  }
  Merge(request.linux(), container.resources);
  events_.push_back({Change::kUpdated, container});
  return grpc::Status::OK;
}

// --- Shared

std::string RuntimeModel::NewId() {
  const auto number = static_cast<unsigned long long>(++ids_given_);
  char id[65];  // the last digits differ for people, the first for short ids
  std::snprintf(id, sizeof(id), "%012llx%040x%012llx", number, 0U, number);
  return id;
}

void RuntimeModel::End(SimulatedContainer& container, int32_t exit_code) {
  container.state = cri::CONTAINER_EXITED;
  container.finished_at = clock_();
  container.exit_code = exit_code;
  events_.push_back({Change::kStopped, container});
}

void RuntimeModel::Forget(std::map<std::string, SimulatedContainer>::iterator container) {
  if (container->second.state == cri::CONTAINER_RUNNING) End(container->second, kKilled);
  const SimulatedContainer last = std::move(container->second);
  containers_.erase(container);
  events_.push_back({Change::kRemoved, last});
}

}  // namespace alignd::simulator
