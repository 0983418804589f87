#include "simulator/embedded_runtime.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "rpc/unix_socket.h"
#include "sync/mutex.h"

namespace alignd::simulator {
namespace {

namespace cri = runtime::v1;

std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

grpc::ByteBuffer ToBuffer(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

int64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// "/service/method" in two.
std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {"", path};
  return {path.substr(1, slash - 1), path.substr(slash + 1)};
}

bool IsKnownService(const std::string& service) {
  static const std::set<std::string> kServices = {
      "runtime.v1.RuntimeService", "runtime.v1.ImageService", "runtime.v1alpha2.RuntimeService",
      "runtime.v1alpha2.ImageService"};
  return kServices.contains(service);
}

cri::ContainerEventType EventType(RuntimeModel::Change change) {
  switch (change) {
    case RuntimeModel::Change::kCreated:
      return cri::CONTAINER_CREATED_EVENT;
    case RuntimeModel::Change::kStarted:
      return cri::CONTAINER_STARTED_EVENT;
    case RuntimeModel::Change::kRemoved:
      return cri::CONTAINER_DELETED_EVENT;
    default:
      return cri::CONTAINER_STOPPED_EVENT;
  }
}

// Everything that calls share; outlives them all.
class State {
 public:
  // One open GetContainerEvents.
  class Subscriber {
   public:
    virtual ~Subscriber() = default;
    virtual void Send(const std::string& event) = 0;
  };

  explicit State(EmbeddedRuntime::Observer observer)
      : observer_(std::move(observer)), model_(Now) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static bool Contains(const std::string& bytes, const std::string& text) {
    return bytes.find(text) != std::string::npos;
  }

  std::chrono::milliseconds Record(const std::string& path, const std::string& bytes) {
    MutexLock lock(mutex_);
    requests_.push_back({path, bytes});
    const auto delay = delays_.find(Split(path).second);
    const bool slow = delay != delays_.end() && Contains(bytes, delay->second.second);
    return slow ? delay->second.first : std::chrono::milliseconds(0);
  }

  grpc::Status Answer(const std::string& path, const std::string& request, std::string& response) {
    const auto [service, method] = Split(path);
    if (!IsKnownService(service)) {
      return {grpc::StatusCode::UNIMPLEMENTED, "unknown service " + service};
    }
    MutexLock lock(mutex_);
    const auto failure = failures_.find(method);
    if (failure != failures_.end() && Contains(request, failure->second.second)) {
      return failure->second.first;
    }
    grpc::Status status = model_.Answer(method, request, response);
    Publish();
    return status;
  }

  void Subscribe(Subscriber* subscriber) {
    MutexLock lock(mutex_);
    subscribers_.insert(subscriber);
  }
  void Unsubscribe(Subscriber* subscriber) {
    MutexLock lock(mutex_);
    subscribers_.erase(subscriber);
  }

  template <typename Use>
  auto With(Use use) const {
    MutexLock lock(mutex_);
    return use(model_);
  }

  std::vector<EmbeddedRuntime::Request> Requests(std::optional<std::string_view> method) const {
    MutexLock lock(mutex_);
    std::vector<EmbeddedRuntime::Request> requests;
    for (const EmbeddedRuntime::Request& request : requests_) {
      if (!method.has_value() || Split(request.method).second == *method) {
        requests.push_back(request);
      }
    }
    return requests;
  }

  bool EndContainer(const std::string& id, int32_t exit_code) {
    MutexLock lock(mutex_);
    const bool ended = model_.EndContainer(id, exit_code);
    Publish();
    return ended;
  }

  void SetFailure(const std::string& method, grpc::Status status, const std::string& containing) {
    MutexLock lock(mutex_);
    if (status.ok()) {
      failures_.erase(method);
    } else {
      failures_[method] = {std::move(status), containing};
    }
  }

  void SetDelay(const std::string& method, std::chrono::milliseconds delay,
                const std::string& containing) {
    MutexLock lock(mutex_);
    delays_[method] = {delay, containing};
  }

 private:
  void Publish() REQUIRES(mutex_) {
    for (const RuntimeModel::Event& event : model_.TakeEvents()) {
      if (observer_) observer_(event);
      if (event.change == RuntimeModel::Change::kUpdated || subscribers_.empty()) continue;
      const std::string bytes = ToCri(event).SerializeAsString();
      for (Subscriber* subscriber : subscribers_) subscriber->Send(bytes);
    }
  }

  cri::ContainerEventResponse ToCri(const RuntimeModel::Event& event) const REQUIRES(mutex_) {
    cri::ContainerEventResponse response;
    response.set_container_id(event.container.id);
    response.set_container_event_type(EventType(event.change));
    response.set_created_at(Now());
    const auto sandbox = model_.sandboxes().find(event.container.sandbox_id);
    if (sandbox != model_.sandboxes().end()) {
      *response.mutable_pod_sandbox_status() = model_.StatusOf(sandbox->second);
    }
    *response.add_containers_statuses() = model_.StatusOf(event.container);
    return response;
  }

  const EmbeddedRuntime::Observer observer_;

  mutable Mutex mutex_;
  RuntimeModel model_ GUARDED_BY(mutex_);
  std::vector<EmbeddedRuntime::Request> requests_ GUARDED_BY(mutex_);
  // By method; those whose request contains the text.
  std::map<std::string, std::pair<grpc::Status, std::string>> failures_ GUARDED_BY(mutex_);
  std::map<std::string, std::pair<std::chrono::milliseconds, std::string>> delays_
      GUARDED_BY(mutex_);
  std::set<Subscriber*> subscribers_ GUARDED_BY(mutex_);
};

// A unary call: read, wait, answer.
class UnaryCall final : public grpc::ServerGenericBidiReactor {
 public:
  UnaryCall(State& state, std::string path) : state_(state), path_(std::move(path)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish({grpc::StatusCode::INTERNAL, path_ + ": no request message"});
      return;
    }
    const std::string request = ToText(request_);
    const std::chrono::milliseconds delay = state_.Record(path_, request);
    if (delay.count() == 0) {
      Reply(request);
      return;
    }
    MutexLock lock(mutex_);
    alarm_.Set(std::chrono::system_clock::now() + delay, [this, request](bool) {
      if (IsCancelled()) {
        Finish(grpc::Status::CANCELLED);
      } else {
        Reply(request);
      }
      // This call may be gone now.
    });
    if (cancelled_) alarm_.Cancel();
  }

  void OnCancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    alarm_.Cancel();
  }

  void OnDone() override { delete this; }

 private:
  bool IsCancelled() {
    MutexLock lock(mutex_);
    return cancelled_;
  }

  void Reply(const std::string& request) {
    std::string answer;
    const grpc::Status status = state_.Answer(path_, request, answer);
    if (!status.ok()) {
      Finish(status);
      return;
    }
    response_ = ToBuffer(answer);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), status);
  }

  State& state_;
  const std::string path_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_;
};

// GetContainerEvents: lasts until the caller goes.
class EventStream final : public grpc::ServerGenericBidiReactor, public State::Subscriber {
 public:
  EventStream(State& state, std::string path) : state_(state), path_(std::move(path)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End({grpc::StatusCode::INTERNAL, path_ + ": no request message"});
      return;
    }
    state_.Record(path_, ToText(request_));
    state_.Subscribe(this);
    MutexLock lock(mutex_);
    // Tells the caller that nothing is missed from here on; a first event has done so already.
    if (!ended_ && waiting_.empty()) StartSendInitialMetadata();
  }

  void Send(const std::string& event) override {
    MutexLock lock(mutex_);
    if (ended_) return;
    waiting_.push_back(event);
    if (waiting_.size() == 1) WriteFirst();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    waiting_.pop_front();
    if (ok && !ended_ && !waiting_.empty()) WriteFirst();
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }
  void OnDone() override {
    state_.Unsubscribe(this);
    delete this;
  }

 private:
  void WriteFirst() REQUIRES(mutex_) {
    writing_ = ToBuffer(waiting_.front());
    StartWrite(&writing_);
  }

  void End(const grpc::Status& status) {
    MutexLock lock(mutex_);
    if (!std::exchange(ended_, true)) Finish(status);
  }

  State& state_;
  const std::string path_;
  grpc::ByteBuffer request_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::deque<std::string> waiting_ GUARDED_BY(mutex_);  // the first is being written
  grpc::ByteBuffer writing_ GUARDED_BY(mutex_);
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(State& state) : state_(state) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    const auto [service, method] = Split(call->method());
    if (method == "GetContainerEvents" && IsKnownService(service)) {
      return new EventStream(state_, call->method());
    }
    return new UnaryCall(state_, call->method());
  }

 private:
  State& state_;
};

class Runtime final : public EmbeddedRuntime {
 public:
  explicit Runtime(Observer observer) : state_(std::move(observer)), service_(state_) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  ~Runtime() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  Result<Done> Listen(const std::string& endpoint) {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    Result<std::unique_ptr<grpc::Server>> server = rpc::Listen(endpoint, builder);
    if (!server.ok()) return server.error();
    server_ = std::move(server).value();
    return Done{};
  }

  std::vector<Request> Requests() const override { return state_.Requests(std::nullopt); }
  std::vector<Request> Requests(const std::string& method) const override {
    return state_.Requests(method);
  }

  std::vector<SimulatedSandbox> Sandboxes() const override {
    return state_.With([](const RuntimeModel& model) {
      std::vector<SimulatedSandbox> sandboxes;
      for (const auto& [id, sandbox] : model.sandboxes()) sandboxes.push_back(sandbox);
      return sandboxes;
    });
  }

  std::vector<SimulatedContainer> Containers() const override {
    return state_.With([](const RuntimeModel& model) {
      std::vector<SimulatedContainer> containers;
      for (const auto& [id, container] : model.containers()) containers.push_back(container);
      return containers;
    });
  }

  std::optional<SimulatedContainer> FindContainer(const std::string& id) const override {
    return state_.With([&id](const RuntimeModel& model) -> std::optional<SimulatedContainer> {
      const auto found = model.containers().find(id);
      if (found == model.containers().end()) return std::nullopt;
      return found->second;
    });
  }

  bool EndContainer(const std::string& id, int32_t exit_code) override {
    return state_.EndContainer(id, exit_code);
  }
  void SetFailure(const std::string& method, grpc::Status status,
                  const std::string& containing) override {
    state_.SetFailure(method, std::move(status), containing);
  }
  void SetDelay(const std::string& method, std::chrono::milliseconds delay,
                const std::string& containing) override {
    state_.SetDelay(method, delay, containing);
  }

 private:
  State state_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;  // last, so that it goes first
};

}  // namespace

Result<std::unique_ptr<EmbeddedRuntime>> EmbeddedRuntime::Start(const std::string& endpoint,
                                                                Observer observer) {
  auto started = std::make_unique<Runtime>(std::move(observer));
  const Result<Done> listening = started->Listen(endpoint);
  if (!listening.ok()) return listening.error();
  return std::unique_ptr<EmbeddedRuntime>(std::move(started));
}

}  // namespace alignd::simulator
