#include "simulator/runtime_state.h"

namespace alignd::simulator {
namespace {

namespace cri = runtime::v1;

int64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool Contains(const std::string& bytes, const std::string& text) {
  return bytes.find(text) != std::string::npos;
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

}  // namespace

std::pair<std::string, std::string> SplitMethod(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return {"", path};
  return {path.substr(1, slash - 1), path.substr(slash + 1)};
}

RuntimeState::RuntimeState(EmbeddedRuntime::Observer observer)
    : observer_(std::move(observer)), model_(Now) {}

bool RuntimeState::IsKnownService(const std::string& service) {
  static const std::set<std::string> kServices = {
      "runtime.v1.RuntimeService", "runtime.v1.ImageService", "runtime.v1alpha2.RuntimeService",
      "runtime.v1alpha2.ImageService"};
  return kServices.contains(service);
}

std::chrono::milliseconds RuntimeState::Record(const std::string& path, const std::string& bytes) {
  MutexLock lock(mutex_);
  requests_.push_back({path, bytes});
  const auto delay = delays_.find(SplitMethod(path).second);
  const bool slow = delay != delays_.end() && Contains(bytes, delay->second.second);
  return slow ? delay->second.first : std::chrono::milliseconds(0);
}

grpc::Status RuntimeState::Answer(const std::string& path, const std::string& request,
                                  std::string& response) {
  const auto [service, method] = SplitMethod(path);
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

grpc::Status RuntimeState::FailureOf(const std::string& path) const {
  MutexLock lock(mutex_);
  const auto failure = failures_.find(SplitMethod(path).second);
  return failure == failures_.end() ? grpc::Status::OK : failure->second.first;
}

void RuntimeState::Subscribe(Subscriber* subscriber) {
  MutexLock lock(mutex_);
  subscribers_.insert(subscriber);
}

void RuntimeState::Unsubscribe(Subscriber* subscriber) {
  MutexLock lock(mutex_);
  subscribers_.erase(subscriber);
}

std::vector<EmbeddedRuntime::Request> RuntimeState::Requests(
    std::optional<std::string_view> method) const {
  MutexLock lock(mutex_);
  std::vector<EmbeddedRuntime::Request> requests;
  for (const EmbeddedRuntime::Request& request : requests_) {
    if (!method.has_value() || SplitMethod(request.method).second == *method) {
      requests.push_back(request);
    }
  }
  return requests;
}

bool RuntimeState::EndContainer(const std::string& id, int32_t exit_code) {
  MutexLock lock(mutex_);
  const bool ended = model_.EndContainer(id, exit_code);
  Publish();
  return ended;
}

bool RuntimeState::EndSandbox(const std::string& id) {
  MutexLock lock(mutex_);
  return model_.EndSandbox(id);
}

void RuntimeState::SetFailure(const std::string& method, grpc::Status status,
                              const std::string& containing) {
  MutexLock lock(mutex_);
  if (status.ok()) {
    failures_.erase(method);
  } else {
    failures_[method] = {std::move(status), containing};
  }
}

void RuntimeState::SetDelay(const std::string& method, std::chrono::milliseconds delay,
                            const std::string& containing) {
  MutexLock lock(mutex_);
  delays_[method] = {delay, containing};
}

void RuntimeState::Add(Delayed* call) {
  MutexLock lock(mutex_);
  delayed_.insert(call);
}

void RuntimeState::Remove(Delayed* call) {
  MutexLock lock(mutex_);
  delayed_.erase(call);
}

void RuntimeState::EndDelays() {
  MutexLock lock(mutex_);
  for (Delayed* call : delayed_) call->GoOn();
}

void RuntimeState::Publish() {
  for (const RuntimeModel::Event& event : model_.TakeEvents()) {
    if (observer_) observer_(event);
    if (event.change == RuntimeModel::Change::kUpdated || subscribers_.empty()) continue;
    const std::string bytes = ToCri(event).SerializeAsString();
    for (Subscriber* subscriber : subscribers_) subscriber->Send(bytes);
  }
}

cri::ContainerEventResponse RuntimeState::ToCri(const RuntimeModel::Event& event) const {
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

}  // namespace alignd::simulator
