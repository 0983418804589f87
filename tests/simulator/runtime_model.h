// The state of a container runtime (sandboxes, containers and images) and how each CRI request
// changes it. No processes, no sockets.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/v1/cri.pb.h"

namespace alignd::simulator {

struct SimulatedSandbox {
  std::string id;
  runtime::v1::PodSandboxConfig config;
  std::string runtime_handler;
  runtime::v1::PodSandboxState state = runtime::v1::SANDBOX_READY;
  int64_t created_at = 0;  // nanoseconds since 1970
};

struct SimulatedContainer {
  std::string id;
  std::string sandbox_id;
  runtime::v1::ContainerConfig config;  // as it was created
  std::string cgroup;  // its path, as the cgroupfs driver names it; in a verbose ContainerStatus
  // The resources in the cgroup: those of the config, then changed by updates.
  runtime::v1::LinuxContainerResources resources;
  runtime::v1::ContainerState state = runtime::v1::CONTAINER_CREATED;
  int64_t created_at = 0;  // nanoseconds since 1970
  int64_t started_at = 0;
  int64_t finished_at = 0;
  int32_t exit_code = 0;
};

// Not thread-safe. Answers are like containerd's: ids are 64 hex digits, and callers may send a
// unique prefix. Unknown ids are NOT_FOUND except for Remove. Containers end with their sandbox.
class RuntimeModel {
 public:
  enum class Change { kCreated, kStarted, kUpdated, kStopped, kRemoved };
  // A change of a container, and its new state.
  struct Event {
    Change change = Change::kCreated;
    SimulatedContainer container;
  };
  // Nanoseconds since 1970.
  using Clock = std::function<int64_t()>;

  explicit RuntimeModel(Clock clock);

  // Answers one unary method of RuntimeService or ImageService ("CreateContainer") by serialised
  // messages. UNIMPLEMENTED for an unknown method, INVALID_ARGUMENT for a request that
  // does not parse.
  grpc::Status Answer(const std::string& method, const std::string& request, std::string& response);

  // The container's process ends by itself.
  // False if there is no such container or it does not run.
  bool EndContainer(const std::string& id, int32_t exit_code);
  // The sandbox's own process ends by itself; its containers run on.
  // False if there is no such sandbox or it is not ready.
  bool EndSandbox(const std::string& id);

  // The events since the last call, oldest first.
  std::vector<Event> TakeEvents() { return std::exchange(events_, {}); }

  const std::map<std::string, SimulatedSandbox>& sandboxes() const { return sandboxes_; }
  const std::map<std::string, SimulatedContainer>& containers() const { return containers_; }

  runtime::v1::ContainerStatus StatusOf(const SimulatedContainer& container) const;
  runtime::v1::PodSandboxStatus StatusOf(const SimulatedSandbox& sandbox) const;

 private:
  using Method = std::function<grpc::Status(const std::string& request, std::string& response)>;

  template <typename Request, typename Response>
  void Add(const std::string& name,
           grpc::Status (RuntimeModel::*method)(const Request&, Response&));
  void AddSandboxMethods();
  void AddContainerMethods();
  void AddImageMethods();

  grpc::Status Version(const runtime::v1::VersionRequest&, runtime::v1::VersionResponse&);
  grpc::Status Status(const runtime::v1::StatusRequest&, runtime::v1::StatusResponse&);

  grpc::Status Run(const runtime::v1::RunPodSandboxRequest&, runtime::v1::RunPodSandboxResponse&);
  grpc::Status Stop(const runtime::v1::StopPodSandboxRequest&,
                    runtime::v1::StopPodSandboxResponse&);
  grpc::Status Remove(const runtime::v1::RemovePodSandboxRequest&,
                      runtime::v1::RemovePodSandboxResponse&);
  grpc::Status Show(const runtime::v1::PodSandboxStatusRequest&,
                    runtime::v1::PodSandboxStatusResponse&);
  grpc::Status List(const runtime::v1::ListPodSandboxRequest&,
                    runtime::v1::ListPodSandboxResponse&);

  grpc::Status Create(const runtime::v1::CreateContainerRequest&,
                      runtime::v1::CreateContainerResponse&);
  grpc::Status Start(const runtime::v1::StartContainerRequest&,
                     runtime::v1::StartContainerResponse&);
  grpc::Status Stop(const runtime::v1::StopContainerRequest&, runtime::v1::StopContainerResponse&);
  grpc::Status Remove(const runtime::v1::RemoveContainerRequest&,
                      runtime::v1::RemoveContainerResponse&);
  grpc::Status Show(const runtime::v1::ContainerStatusRequest&,
                    runtime::v1::ContainerStatusResponse&);
  grpc::Status List(const runtime::v1::ListContainersRequest&,
                    runtime::v1::ListContainersResponse&);
  grpc::Status Update(const runtime::v1::UpdateContainerResourcesRequest&,
                      runtime::v1::UpdateContainerResourcesResponse&);

  grpc::Status List(const runtime::v1::ListImagesRequest&, runtime::v1::ListImagesResponse&);
  grpc::Status Show(const runtime::v1::ImageStatusRequest&, runtime::v1::ImageStatusResponse&);
  grpc::Status Pull(const runtime::v1::PullImageRequest&, runtime::v1::PullImageResponse&);
  grpc::Status Remove(const runtime::v1::RemoveImageRequest&, runtime::v1::RemoveImageResponse&);
  grpc::Status FsInfo(const runtime::v1::ImageFsInfoRequest&, runtime::v1::ImageFsInfoResponse&);

  std::string NewId();
  void End(SimulatedContainer& container, int32_t exit_code);
  void Forget(std::map<std::string, SimulatedContainer>::iterator container);

  const Clock clock_;
  std::map<std::string, Method> methods_;
  uint64_t ids_given_ = 0;
  std::map<std::string, SimulatedSandbox> sandboxes_;     // by id
  std::map<std::string, SimulatedContainer> containers_;  // by id
  std::vector<Event> events_;
  std::set<std::string> images_;  // names that were pulled
};

}  // namespace alignd::simulator
