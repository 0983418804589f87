#include "reconcile/runtime_client.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "alignd/checkpoint/mark_annotation.h"
#include "cgroup/node_list.h"
#include "host/printable.h"
#include "reconcile/sandbox_annotations.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"
#include "sync/mutex.h"

namespace alignd::reconcile {
namespace {

namespace v1 = runtime::v1;
using host::Escaped;

constexpr char kProgram[] = "the container runtime";
constexpr char kStatusOf[] = "runtime: ContainerStatus of ";
constexpr char kVersion1[] = "/runtime.v1.";
constexpr char kVersion1Alpha2[] = "/runtime.v1alpha2.";
// The annotation of an image that is a checkpoint of a container. Source: CRI-O
// server/container_restore.go, checkIfCheckpointOCIImage.
constexpr char kCheckpointKey[] = "io.kubernetes.cri-o.annotations.checkpoint.name";

Result<Done> ToResult(const grpc::Status& status, const std::string& what) {
  if (status.ok()) return Done{};
  return rpc::ToError(status, what, kProgram);
}

bool CanRun(v1::ContainerState state) {
  return state == v1::CONTAINER_CREATED || state == v1::CONTAINER_RUNNING;
}

// Empty if there is no such entry.
template <typename Entries>
std::string ValueOf(const Entries& entries, const std::string& key) {
  const auto entry = entries.find(key);
  return entry == entries.end() ? std::string() : entry->second;
}

// One container of each key, as RuntimeListing::Marked says.
class MarkedContainers {
 public:
  void Add(const v1::Container& container, RuntimeListing::Marked marked) {
    Candidate candidate{container.created_at(), std::move(marked)};
    const auto [place, is_new] = newest_.try_emplace(candidate.marked.key, candidate);
    if (!is_new && candidate.Rank() > place->second.Rank()) place->second = std::move(candidate);
  }
  std::vector<RuntimeListing::Marked> Take() {
    std::vector<RuntimeListing::Marked> all;
    for (auto& [key, candidate] : newest_) {
      if (!candidate.marked.mark.empty()) all.push_back(std::move(candidate.marked));
    }
    return all;
  }

 private:
  struct Candidate {
    int64_t created_at = 0;
    RuntimeListing::Marked marked;

    std::tuple<bool, bool, int64_t> Rank() const {
      return {marked.runs, marked.has_sandbox, created_at};
    }
  };
  std::map<ContainerKey, Candidate> newest_;
};

// Ids stay as they are: the runtime is called with them. UIDs and names go into state files,
// reports and the log. A sandbox whose pod has a UID or a name that is no text was not created
// through alignd.
RuntimeListing ToListing(const v1::ListPodSandboxResponse& sandboxes,
                         const v1::ListContainersResponse& containers) {
  RuntimeListing listing;
  std::map<std::string, RuntimeListing::Sandbox> sandbox_of;
  for (const v1::PodSandbox& sandbox : sandboxes.items()) {
    const std::string uid = Escaped(PodUidOr(sandbox.metadata().uid(), sandbox.id()));
    listing.sandboxes.push_back(
        {sandbox.id(), uid, sandbox.state() == v1::SANDBOX_READY,
         Escaped(sandbox.metadata().name()), Escaped(sandbox.metadata().namespace_()),
         Escaped(sandbox.runtime_handler()), PoliciesOf(sandbox), sandbox.created_at(),
         DecidedCpus(sandbox), AnnotatedPodOf(sandbox)});
    sandbox_of[sandbox.id()] = listing.sandboxes.back();
  }
  MarkedContainers marked;
  for (const v1::Container& container : containers.containers()) {
    const auto found = sandbox_of.find(container.pod_sandbox_id());
    if (found == sandbox_of.end()) continue;
    const RuntimeListing::Sandbox& sandbox = found->second;
    const ContainerKey key{sandbox.pod_uid, Escaped(container.metadata().name())};
    const bool can_run = CanRun(container.state());
    if (can_run || container.state() == v1::CONTAINER_EXITED) {
      const std::string pod = sandbox.name.empty() ? "" : sandbox.name_space + "/" + sandbox.name;
      marked.Add(container, {container.id(), key, pod, can_run, sandbox.ready,
                             ValueOf(container.annotations(), checkpoint::kMarkAnnotation),
                             ValueOf(container.labels(), checkpoint::kMarkLabel)});
    }
    if (!can_run) continue;
    listing.containers.push_back({container.id(), key, container.pod_sandbox_id(),
                                  container.state() == v1::CONTAINER_RUNNING});
  }
  listing.marked = marked.Take();
  return listing;
}

}  // namespace

class RuntimeClient::Stubs {
 public:
  Stubs(std::shared_ptr<service::Client> client, std::chrono::milliseconds timeout)
      : client_(std::move(client)), timeout_(timeout) {}

  void UseAlpha(bool alpha) { version_ = alpha ? kVersion1Alpha2 : kVersion1; }

  // One unary call of the RuntimeService; `done` runs on the thread `calls`.
  template <typename Request, typename Response>
  void Call(const std::string& method, const Request& request,
            std::function<void(const grpc::Status&, const Response&)> done) {
    CallOf("RuntimeService", method, request, std::move(done));
  }

  // The same, of any service.
  template <typename Request, typename Response>
  void CallOf(const std::string& service, const std::string& method, const Request& request,
              std::function<void(const grpc::Status&, const Response&)> done) {
    auto pending = std::make_shared<service::UnaryCall<Response>>(
        service::ClientCall::Options{.timeout = timeout_});
    const std::shared_ptr<service::ClientCall> call(pending, &pending->call);
    if (!Begin(call)) {
      done({grpc::StatusCode::CANCELLED, "alignd is stopping"}, pending->response);
      return;
    }
    client_->StartUnary(
        *call, version_.load() + service + "/" + method, request, pending->response,
        [this, call, pending, done = std::move(done)](const grpc::Status& status) mutable {
          // `done` is destroyed before End, after which this object may no longer exist.
          std::exchange(done, nullptr)(status, pending->response);
          End(call);
        });
  }

  void Stop() {
    std::set<std::shared_ptr<service::ClientCall>> calls;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      calls = calls_;
    }
    for (const auto& call : calls) call->Cancel();
    calls.clear();
    const MutexLock lock(mutex_);
    while (!calls_.empty()) idle_.Wait(mutex_);
  }

 private:
  bool Begin(const std::shared_ptr<service::ClientCall>& call) {
    const MutexLock lock(mutex_);
    if (!stopped_) calls_.insert(call);
    return !stopped_;
  }
  void End(const std::shared_ptr<service::ClientCall>& call) {
    const MutexLock lock(mutex_);
    calls_.erase(call);
    if (calls_.empty()) idle_.NotifyAll();
  }

  const std::shared_ptr<service::Client> client_;
  const std::chrono::milliseconds timeout_;
  std::atomic<const char*> version_ = kVersion1;

  Mutex mutex_;
  CondVar idle_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<service::ClientCall>> calls_ GUARDED_BY(mutex_);  // under way
};

struct RuntimeClient::ExitCodes {
  explicit ExitCodes(std::function<void(Result<std::vector<SandboxContainer>>)> answer)
      : done(std::move(answer)) {}

  std::function<void(Result<std::vector<SandboxContainer>>)> done;
  std::vector<SandboxContainer> containers;
  std::vector<std::string> ended;  // their ids; empty for those that have not
};

RuntimeClient::RuntimeClient(std::shared_ptr<service::Client> client,
                             std::chrono::milliseconds timeout)
    : client_(std::move(client)), stubs_(std::make_unique<Stubs>(client_, timeout)) {}

RuntimeClient::~RuntimeClient() { stubs_->Stop(); }

void RuntimeClient::Stop() { stubs_->Stop(); }

void RuntimeClient::List(ListDone done) {
  ListDone listed = [this, done = std::move(done)](Result<RuntimeListing> listing) {
    // Another runtime may use the socket now, and support another version.
    if (!listing.ok()) connected_ = false;
    done(std::move(listing));
  };
  if (connected_) {
    ListSandboxes(std::move(listed));
  } else {
    Connect(/*alpha=*/false, std::move(listed));
  }
}

void RuntimeClient::Connect(bool alpha, ListDone done) {
  stubs_->UseAlpha(alpha);
  stubs_->Call<v1::VersionRequest, v1::VersionResponse>(
      "Version", v1::VersionRequest(),
      [this, alpha, done = std::move(done)](const grpc::Status& status,
                                            const v1::VersionResponse& version) mutable {
        if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && !alpha) {
          return Connect(/*alpha=*/true, std::move(done));
        }
        if (!status.ok()) return done(rpc::ToError(status, "runtime: Version", kProgram));
        {
          const MutexLock lock(mutex_);
          runtime_name_ = Escaped(version.runtime_name());
        }
        connected_ = true;
        ListSandboxes(std::move(done));
      });
}

void RuntimeClient::ListSandboxes(ListDone done) {
  stubs_->Call<v1::ListPodSandboxRequest, v1::ListPodSandboxResponse>(
      "ListPodSandbox", v1::ListPodSandboxRequest(),
      [this, done = std::move(done)](const grpc::Status& status,
                                     const v1::ListPodSandboxResponse& sandboxes) mutable {
        if (!status.ok()) return done(rpc::ToError(status, "runtime: ListPodSandbox", kProgram));
        stubs_->Call<v1::ListContainersRequest, v1::ListContainersResponse>(
            "ListContainers", v1::ListContainersRequest(),
            [sandboxes, done = std::move(done)](const grpc::Status& listed,
                                                const v1::ListContainersResponse& containers) {
              if (!listed.ok())
                return done(rpc::ToError(listed, "runtime: ListContainers", kProgram));
              done(ToListing(sandboxes, containers));
            });
      });
}

void RuntimeClient::ListSandbox(const std::string& sandbox_id,
                                std::function<void(Result<std::vector<SandboxContainer>>)> done) {
  v1::ListContainersRequest request;
  request.mutable_filter()->set_pod_sandbox_id(sandbox_id);
  stubs_->Call<v1::ListContainersRequest, v1::ListContainersResponse>(
      "ListContainers", request,
      [this, done = std::move(done)](const grpc::Status& status,
                                     const v1::ListContainersResponse& response) mutable {
        if (!status.ok()) return done(rpc::ToError(status, "runtime: ListContainers", kProgram));
        auto asking = std::make_shared<ExitCodes>(std::move(done));
        for (const v1::Container& container : response.containers()) {
          asking->containers.push_back({Escaped(container.metadata().name()),
                                        container.created_at(), std::nullopt,
                                        container.state() == v1::CONTAINER_RUNNING});
          if (container.state() == v1::CONTAINER_EXITED) asking->ended.push_back(container.id());
          if (container.state() != v1::CONTAINER_EXITED) asking->ended.emplace_back();
        }
        AskExitCode(asking, 0);
      });
}

// One after the other: a sandbox has few ended containers.
void RuntimeClient::AskExitCode(const std::shared_ptr<ExitCodes>& asking, size_t next) {
  while (next < asking->ended.size() && asking->ended[next].empty()) ++next;
  if (next == asking->ended.size()) return asking->done(std::move(asking->containers));
  v1::ContainerStatusRequest request;
  request.set_container_id(asking->ended[next]);
  stubs_->Call<v1::ContainerStatusRequest, v1::ContainerStatusResponse>(
      "ContainerStatus", request,
      [this, asking, next](const grpc::Status& status,
                           const v1::ContainerStatusResponse& response) {
        if (status.ok()) asking->containers[next].exit_code = response.status().exit_code();
        if (!status.ok() && status.error_code() != grpc::StatusCode::NOT_FOUND) {
          return asking->done(rpc::ToError(status, "runtime: ContainerStatus", kProgram));
        }
        AskExitCode(asking, next + 1);
      });
}

void RuntimeClient::UpdateCpuSet(const std::string& container_id, const CpuSet& cpuset,
                                 const std::vector<int>& memory_nodes,
                                 std::function<void(Result<Done>)> done) {
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(container_id);
  request.mutable_linux()->set_cpuset_cpus(cpuset.ToString());
  if (!memory_nodes.empty()) {
    request.mutable_linux()->set_cpuset_mems(cgroup::NodeList(memory_nodes));
  }
  stubs_->Call<v1::UpdateContainerResourcesRequest, v1::UpdateContainerResourcesResponse>(
      "UpdateContainerResources", request,
      [done = std::move(done)](const grpc::Status& status,
                               const v1::UpdateContainerResourcesResponse&) {
        done(ToResult(status, "runtime: UpdateContainerResources"));
      });
}

void RuntimeClient::FindInfo(const std::string& container_id,
                             std::function<void(Result<std::string>)> done) {
  v1::ContainerStatusRequest request;
  request.set_container_id(container_id);
  request.set_verbose(true);
  stubs_->Call<v1::ContainerStatusRequest, v1::ContainerStatusResponse>(
      "ContainerStatus", request,
      [container_id, done = std::move(done)](const grpc::Status& status,
                                             const v1::ContainerStatusResponse& response) {
        if (!status.ok()) return done(rpc::ToError(status, kStatusOf + container_id, kProgram));
        done(ValueOf(response.info(), "info"));
      });
}

void RuntimeClient::FindSpec(const std::string& container_id,
                             std::function<void(Result<ContainerSpec>)> done) {
  FindInfo(container_id, [container_id, done = std::move(done)](const Result<std::string>& info) {
    if (!info.ok()) return done(info.error());
    const Result<ContainerSpec> spec = SpecInStatus(*info);
    done(spec.ok() ? spec : Result<ContainerSpec>(spec.error().In(kStatusOf + container_id)));
  });
}

void RuntimeClient::IsCheckpoint(const std::string& image, std::function<void(Result<bool>)> done) {
  v1::ImageStatusRequest request;
  request.mutable_image()->set_image(image);
  stubs_->CallOf<v1::ImageStatusRequest, v1::ImageStatusResponse>(
      "ImageService", "ImageStatus", request,
      [image, done = std::move(done)](const grpc::Status& status,
                                      const v1::ImageStatusResponse& response) {
        const std::string what = "runtime: ImageStatus of " + Escaped(image);
        if (!status.ok()) return done(rpc::ToError(status, what, kProgram));
        if (!response.has_image()) {
          return done(Error{ErrorCode::kNotFound, what + ": there is no such image",
                            "pull the image first"});
        }
        done(response.image().spec().annotations().contains(kCheckpointKey));
      });
}

void RuntimeClient::FindCgroupDriver(std::function<void(Result<CgroupDriver>)> done) {
  v1::StatusRequest request;
  request.set_verbose(true);
  stubs_->Call<v1::StatusRequest, v1::StatusResponse>(
      "Status", request,
      [done = std::move(done)](const grpc::Status& status, const v1::StatusResponse& response) {
        if (!status.ok()) return done(rpc::ToError(status, "runtime: Status", kProgram));
        const auto config = response.info().find("config");
        done(CgroupDriverInStatus(config == response.info().end() ? "" : config->second));
      });
}

std::string RuntimeClient::RuntimeName() const {
  const MutexLock lock(mutex_);
  return runtime_name_;
}

}  // namespace alignd::reconcile
