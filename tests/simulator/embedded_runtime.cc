#include "simulator/embedded_runtime.h"

#include <grpcpp/alarm.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <string_view>
#include <utility>

#include "simulator/grpc_socket.h"
#include "simulator/runtime_state.h"
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

// A unary call: read, wait, answer.
class UnaryCall final : public grpc::ServerGenericBidiReactor, public RuntimeState::Delayed {
 public:
  UnaryCall(RuntimeState& state, std::string path) : state_(state), path_(std::move(path)) {
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
    state_.Add(this);
    MutexLock lock(mutex_);
    alarm_.Set(std::chrono::system_clock::now() + delay, [this, request](bool) {
      state_.Remove(this);
      if (IsCancelled()) {
        Finish(grpc::Status::CANCELLED);
      } else {
        Reply(request);
      }
      // The call may be deleted from here on.
    });
    if (cancelled_ || goes_on_) alarm_.Cancel();
  }

  void GoOn() override {
    MutexLock lock(mutex_);
    goes_on_ = true;
    alarm_.Cancel();
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

  RuntimeState& state_;
  const std::string path_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool goes_on_ GUARDED_BY(mutex_) = false;  // before its time
  grpc::Alarm alarm_;
};

// GetContainerEvents: lasts until the caller cancels.
class EventStream final : public grpc::ServerGenericBidiReactor, public RuntimeState::Subscriber {
 public:
  EventStream(RuntimeState& state, std::string path) : state_(state), path_(std::move(path)) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End({grpc::StatusCode::INTERNAL, path_ + ": no request message"});
      return;
    }
    state_.Record(path_, ToText(request_));
    if (const grpc::Status failure = state_.FailureOf(path_); !failure.ok()) {
      End(failure);
      return;
    }
    state_.Subscribe(this);
    MutexLock lock(mutex_);
    // The headers mean that the caller gets all events from here on. A first event has sent them.
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

  RuntimeState& state_;
  const std::string path_;
  grpc::ByteBuffer request_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::deque<std::string> waiting_ GUARDED_BY(mutex_);  // the first is being written
  grpc::ByteBuffer writing_ GUARDED_BY(mutex_);
};

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(RuntimeState& state) : state_(state) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    const auto [service, method] = SplitMethod(call->method());
    if (method == "GetContainerEvents" && RuntimeState::IsKnownService(service)) {
      return new EventStream(state_, call->method());
    }
    return new UnaryCall(state_, call->method());
  }

 private:
  RuntimeState& state_;
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
    Result<std::unique_ptr<grpc::Server>> server = simulator::Listen(endpoint, builder);
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
  bool EndSandbox(const std::string& id) override { return state_.EndSandbox(id); }
  void SetFailure(const std::string& method, grpc::Status status,
                  const std::string& containing) override {
    state_.SetFailure(method, std::move(status), containing);
  }
  void SetDelay(const std::string& method, std::chrono::milliseconds delay,
                const std::string& containing) override {
    state_.SetDelay(method, delay, containing);
  }
  void EndDelays() override { state_.EndDelays(); }

 private:
  RuntimeState state_;
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
