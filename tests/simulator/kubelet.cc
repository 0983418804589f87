#include "simulator/kubelet.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"
#include "simulator/client_call.h"

namespace alignd::simulator {
namespace {

namespace v1 = runtime::v1;

constexpr std::chrono::milliseconds kPollInterval{100};

}  // namespace

// Unary calls with one timeout. Errors: `<Method>: <the peer's message>`.
class Kubelet::Calls {
 public:
  Calls(std::shared_ptr<grpc::Channel> channel, std::chrono::milliseconds timeout)
      : channel_(std::move(channel)), timeout_(timeout) {}

  template <typename Response, typename Request>
  Result<Response> Runtime(const std::string& method, const Request& request) {
    return Call<Response>("/runtime.v1.RuntimeService/", method, request);
  }
  // The same, with the code of the answer.
  template <typename Response, typename Request>
  grpc::Status RuntimeStatus(const std::string& method, const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    Response response;
    return CallUnaryAndWait(channel_, &context, "/runtime.v1.RuntimeService/" + method, request,
                            &response);
  }
  template <typename Response, typename Request>
  Result<Response> Image(const std::string& method, const Request& request) {
    return Call<Response>("/runtime.v1.ImageService/", method, request);
  }

  std::chrono::milliseconds timeout() const { return timeout_; }

 private:
  template <typename Response, typename Request>
  Result<Response> Call(const std::string& service, const std::string& method,
                        const Request& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    Response response;
    const grpc::Status status =
        CallUnaryAndWait(channel_, &context, service + method, request, &response);
    if (!status.ok()) return rpc::ToError(status, method, "the program that serves the CRI socket");
    return response;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::chrono::milliseconds timeout_;
};

Kubelet::Kubelet(std::shared_ptr<grpc::Channel> runtime, KubeletSettings settings,
                 std::chrono::milliseconds timeout)
    : settings_(std::move(settings)),
      host_(ReadKubeletHost()),
      calls_(std::make_unique<Calls>(std::move(runtime), timeout)) {}

Kubelet::~Kubelet() = default;

Result<std::string> Kubelet::RunSandbox(const PodManifest& manifest) {
  v1::RunPodSandboxRequest request;
  *request.mutable_config() = MakeSandboxConfig(manifest, settings_);
  if (!request.config().log_directory().empty()) {
    std::error_code fault;
    std::filesystem::create_directories(request.config().log_directory(), fault);
    if (fault) {
      return Error{ErrorCode::kIo,
                   "create " + request.config().log_directory() + ": " + fault.message()};
    }
  }
  const auto response = calls_->Runtime<v1::RunPodSandboxResponse>("RunPodSandbox", request);
  if (!response.ok()) return response.error();
  return response->pod_sandbox_id();
}

Result<std::string> Kubelet::ImageId(const ContainerManifest& container) {
  v1::ImageStatusRequest request;
  request.mutable_image()->set_image(container.image);
  const auto status = calls_->Image<v1::ImageStatusResponse>("ImageStatus", request);
  if (!status.ok()) return status.error();
  if (status->has_image()) return status->image().id();
  if (container.never_pull) {
    return Error{ErrorCode::kNotFound,
                 "image " + container.image + " is missing, and its pull policy is Never"};
  }
  v1::PullImageRequest pull;
  pull.mutable_image()->set_image(container.image);
  const auto pulled = calls_->Image<v1::PullImageResponse>("PullImage", pull);
  if (!pulled.ok()) return pulled.error();
  return pulled->image_ref();
}

Result<std::string> Kubelet::Create(const PodManifest& manifest, const std::string& sandbox_id,
                                    const Container& container) {
  const Result<std::string> image = ImageId(manifest.containers.at(container.name));
  if (!image.ok()) return image.error();
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox_id);
  *request.mutable_config() = MakeContainerConfig(manifest, container, *image, host_);
  *request.mutable_sandbox_config() = MakeSandboxConfig(manifest, settings_);
  const std::string& logs = request.sandbox_config().log_directory();
  if (!logs.empty()) {
    std::error_code fault;
    std::filesystem::create_directories(std::filesystem::path(logs) / container.name, fault);
    if (fault) return Error{ErrorCode::kIo, "create " + logs + ": " + fault.message()};
  }
  const auto response = calls_->Runtime<v1::CreateContainerResponse>("CreateContainer", request);
  if (!response.ok()) return response.error();
  return response->container_id();
}

Result<Done> Kubelet::Start(const std::string& container_id) {
  v1::StartContainerRequest request;
  request.set_container_id(container_id);
  const auto response = calls_->Runtime<v1::StartContainerResponse>("StartContainer", request);
  if (!response.ok()) return response.error();
  return Done{};
}

Result<v1::ContainerStatus> Kubelet::Status(const std::string& container_id) {
  v1::ContainerStatusRequest request;
  request.set_container_id(container_id);
  const auto response = calls_->Runtime<v1::ContainerStatusResponse>("ContainerStatus", request);
  if (!response.ok()) return response.error();
  return response->status();
}

Result<std::string> Kubelet::Exec(const std::string& container_id,
                                  std::vector<std::string> command) {
  v1::ExecSyncRequest request;
  request.set_container_id(container_id);
  request.mutable_cmd()->Assign(command.begin(), command.end());
  request.set_timeout(std::chrono::duration_cast<std::chrono::seconds>(calls_->timeout()).count());
  const auto response = calls_->Runtime<v1::ExecSyncResponse>("ExecSync", request);
  if (!response.ok()) return response.error();
  if (response->exit_code() != 0) {
    return Error{ErrorCode::kInternal, "exit status " + std::to_string(response->exit_code()) +
                                           ": " + response->stderr()};
  }
  return response->stdout();
}

Result<std::vector<ListedPod>> Kubelet::List() {
  const auto sandboxes =
      calls_->Runtime<v1::ListPodSandboxResponse>("ListPodSandbox", v1::ListPodSandboxRequest());
  if (!sandboxes.ok()) return sandboxes.error();
  const auto containers =
      calls_->Runtime<v1::ListContainersResponse>("ListContainers", v1::ListContainersRequest());
  if (!containers.ok()) return containers.error();
  std::vector<v1::Container> oldest_first(containers->containers().begin(),
                                          containers->containers().end());
  std::ranges::stable_sort(oldest_first, {}, &v1::Container::created_at);

  std::vector<ListedPod> pods;
  for (const v1::PodSandbox& sandbox : sandboxes->items()) {
    const v1::PodSandboxMetadata& metadata = sandbox.metadata();
    ListedPod pod{sandbox.id(), metadata.uid(), metadata.name(), metadata.namespace_(), false, {}};
    pod.ready = sandbox.state() == v1::SANDBOX_READY;
    for (const v1::Container& container : oldest_first) {
      if (container.pod_sandbox_id() != sandbox.id()) continue;
      const Result<v1::ContainerStatus> status = Status(container.id());
      if (!status.ok() && status.error().code != ErrorCode::kNotFound) return status.error();
      pod.containers.push_back({container.id(), container.metadata().name(), container.state(),
                                status.ok() ? status->resources().linux().cpuset_cpus() : ""});
    }
    pods.push_back(std::move(pod));
  }
  std::ranges::sort(pods, [](const ListedPod& a, const ListedPod& b) {
    return std::tie(a.name_space, a.name, a.uid, a.sandbox_id) <
           std::tie(b.name_space, b.name, b.uid, b.sandbox_id);
  });
  return pods;
}

Result<Done> Kubelet::AwaitEnd(const std::string& container_id) {
  const auto deadline = std::chrono::steady_clock::now() + calls_->timeout();
  while (std::chrono::steady_clock::now() < deadline) {
    const Result<v1::ContainerStatus> status = Status(container_id);
    if (!status.ok()) return status.error();
    if (status->state() == v1::CONTAINER_EXITED) {
      if (status->exit_code() == 0) return Done{};
      return Error{ErrorCode::kInternal,
                   "the init container exited with " + std::to_string(status->exit_code())};
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return Error{ErrorCode::kDeadlineExceeded, "the init container has not ended within the timeout"};
}

Result<std::string> Kubelet::CreateAndStart(const PodManifest& manifest,
                                            const std::string& sandbox_id,
                                            const Container& container, const ListedPod* listed) {
  std::string id;
  v1::ContainerState state = v1::CONTAINER_CREATED;
  for (const ListedPod::Container& known :
       listed == nullptr ? std::vector<ListedPod::Container>() : listed->containers) {
    if (known.name == container.name) std::tie(id, state) = std::tie(known.id, known.state);
  }
  if (id.empty()) {
    const Result<std::string> created = Create(manifest, sandbox_id, container);
    if (!created.ok()) return created.error();
    id = *created;
  }
  if (state == v1::CONTAINER_CREATED) {
    const Result<Done> started = Start(id);
    if (!started.ok()) return started.error();
  }
  if (container.kind == ContainerKind::kInit) {
    const Result<Done> ended = AwaitEnd(id);
    if (!ended.ok()) return ended.error();
  }
  return id;
}

Result<Kubelet::RunPod> Kubelet::Run(const PodManifest& manifest) {
  const Result<std::vector<ListedPod>> pods = List();
  if (!pods.ok()) return pods.error();
  const auto listed = std::ranges::find_if(*pods, [&manifest](const ListedPod& pod) {
    return pod.ready && pod.uid == manifest.pod.uid;
  });
  const ListedPod* const known = listed == pods->end() ? nullptr : &*listed;
  const Result<std::string> sandbox =
      known != nullptr ? Result<std::string>(known->sandbox_id) : RunSandbox(manifest);
  if (!sandbox.ok()) return sandbox.error();
  RunPod run{*sandbox, {}};
  for (const Container& container : manifest.pod.containers) {
    run.containers.push_back(
        {container.name, CreateAndStart(manifest, *sandbox, container, known)});
    if (!run.containers.back().id.ok()) break;
  }
  return run;
}

Result<Done> Kubelet::PodStep(const ListedPod& pod, const v1::LinuxContainerResources& sizes) {
  v1::UpdatePodSandboxResourcesRequest request;
  request.set_pod_sandbox_id(pod.sandbox_id);
  *request.mutable_resources() = sizes;
  const std::string method = "UpdatePodSandboxResources";
  const grpc::Status status =
      calls_->RuntimeStatus<v1::UpdatePodSandboxResourcesResponse>(method, request);
  const bool is_missing = status.error_code() == grpc::StatusCode::UNIMPLEMENTED ||
                          (status.error_code() == grpc::StatusCode::UNKNOWN &&
                           status.error_message().find("not implemented") != std::string::npos);
  if (status.ok() || is_missing) return Done{};
  return rpc::ToError(status, method, "the program that serves the CRI socket");
}

Result<Done> Kubelet::Resize(const ListedPod& pod, const std::string& container, int64_t cpus,
                             int64_t from) {
  int64_t others = 0;  // shares
  int64_t memory = 0;
  std::string id;
  v1::LinuxContainerResources now;
  for (const ListedPod::Container& listed : pod.containers) {
    if (listed.state != v1::CONTAINER_RUNNING) continue;
    const Result<v1::ContainerStatus> status = Status(listed.id);
    if (!status.ok()) return status.error();
    const v1::LinuxContainerResources& sizes = status->resources().linux();
    memory += sizes.memory_limit_in_bytes();
    if (listed.name == container) {
      id = listed.id;
      now = sizes;
    } else {
      others += sizes.cpu_shares();
    }
  }
  if (id.empty()) {
    return Error{ErrorCode::kNotFound, container + ": no such running container"};
  }
  if (now.cpu_shares() == 0) now.set_cpu_shares(SharesOfCpus(from));
  if (now.cpu_shares() == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 container + ": the runtime does not report how many CPUs it has", "give --from"};
  }
  const v1::LinuxContainerResources before =
      MakeResizedResources(others + now.cpu_shares(), memory);
  const int64_t shares = SharesOfCpus(cpus);
  const v1::LinuxContainerResources after = MakeResizedResources(others + shares, memory);
  const bool grows = shares > now.cpu_shares();
  // What grows: limit, then request. What shrinks: request, then limit.
  v1::LinuxContainerResources halfway = before;
  if (grows) {
    halfway.set_cpu_quota(after.cpu_quota());
  } else {
    halfway.set_cpu_shares(after.cpu_shares());
  }
  const auto resize_pod = [&]() -> Result<Done> {
    Result<Done> step = PodStep(pod, halfway);
    return step.ok() ? PodStep(pod, after) : step;
  };
  if (grows) {
    const Result<Done> resized = resize_pod();
    if (!resized.ok()) return resized;
  }
  v1::UpdateContainerResourcesRequest update;
  update.set_container_id(id);
  *update.mutable_linux() = MakeResizedResources(shares, now.memory_limit_in_bytes());
  const auto updated =
      calls_->Runtime<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", update);
  if (!updated.ok()) return updated.error();
  return grows ? Result<Done>(Done{}) : resize_pod();
}

Result<Done> Kubelet::Remove(const ListedPod& pod, std::chrono::seconds grace) {
  for (const ListedPod::Container& container : pod.containers) {
    if (container.state != v1::CONTAINER_RUNNING) continue;
    v1::StopContainerRequest request;
    request.set_container_id(container.id);
    request.set_timeout(grace.count());
    const auto stopped = calls_->Runtime<v1::StopContainerResponse>("StopContainer", request);
    if (!stopped.ok()) return stopped.error();
  }
  v1::StopPodSandboxRequest stop;
  stop.set_pod_sandbox_id(pod.sandbox_id);
  const auto stopped = calls_->Runtime<v1::StopPodSandboxResponse>("StopPodSandbox", stop);
  if (!stopped.ok()) return stopped.error();
  for (const ListedPod::Container& container : pod.containers) {
    v1::RemoveContainerRequest request;
    request.set_container_id(container.id);
    const auto removed = calls_->Runtime<v1::RemoveContainerResponse>("RemoveContainer", request);
    if (!removed.ok()) return removed.error();
  }
  v1::RemovePodSandboxRequest remove;
  remove.set_pod_sandbox_id(pod.sandbox_id);
  const auto removed = calls_->Runtime<v1::RemovePodSandboxResponse>("RemovePodSandbox", remove);
  if (!removed.ok()) return removed.error();
  return Done{};
}

}  // namespace alignd::simulator
