#include "reconcile/runtime_events.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "rpc/decode.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"

namespace alignd::reconcile {
namespace {

constexpr char kEventsMethod[] = "/runtime.v1.RuntimeService/GetContainerEvents";

constexpr size_t kMaxChanged = 1024;  // ids that wait; further ones are as unknown

// Whether the event is about a container that may run now. The end of a container changes nothing
// that could not wait.
bool IsOfStart(runtime::v1::ContainerEventType type) {
  return type == runtime::v1::CONTAINER_CREATED_EVENT ||
         type == runtime::v1::CONTAINER_STARTED_EVENT;
}

}  // namespace

// Owns itself from Follow to its last callback.
class RuntimeEvents::Stream final : public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(RuntimeEvents& events) : events_(events) {}

  void Follow() {
    events_.client_->Start(
        call_, kEventsMethod, runtime::v1::GetEventsRequest(),
        [this](const std::string& message) {
          OnMessage(message);
          return grpc::Status();
        },
        [self = shared_from_this()](const grpc::Status& status) { self->events_.OnEnd(status); });
  }

  void Cancel() { call_.Cancel(); }

 private:
  void OnMessage(const std::string& message) {
    runtime::v1::ContainerEventResponse event;
    const bool readable = rpc::Decode(message, event).ok();
    if (!readable || IsOfStart(event.container_event_type())) {
      events_.OnEvent(readable ? event.container_id() : "");
    }
  }

  RuntimeEvents& events_;
  service::ClientCall call_;
};

RuntimeEvents::RuntimeEvents(TaskQueue& background, std::shared_ptr<service::Client> client,
                             const ContainerRegistry& registry, std::function<void()> relist,
                             Options options)
    : client_(std::move(client)),
      registry_(registry),
      relist_(std::move(relist)),
      options_(options),
      pause_(options.retry),
      task_(background, [this] { return Run(); }) {}

void RuntimeEvents::Stop() {
  std::shared_ptr<Stream> stream;
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    stream = stream_;
  }
  task_.Stop();
  if (stream) stream->Cancel();
  stream.reset();
  const MutexLock lock(mutex_);
  while (stream_) ended_.Wait(mutex_);
}

void RuntimeEvents::ClientReads() {
  std::shared_ptr<Stream> stream;
  bool say = false;
  {
    const MutexLock lock(mutex_);
    if (++clients_ > 1) return;
    open_at_ = RecurringTask::kNever;
    stream = stream_;
    say = !std::exchange(said_left_, true);
  }
  if (stream) stream->Cancel();
  spdlog::log(say ? spdlog::level::info : spdlog::level::debug,
              "a client reads the runtime's container events, which some runtimes give to one "
              "reader only: until it ends, alignd leaves them to it, and finds containers that are "
              "created at the runtime's own socket at the next reconcile");
}

void RuntimeEvents::ClientHasLeft() {
  const MutexLock lock(mutex_);
  if (--clients_ > 0) return;
  OpenLater();
  task_.RunSoon();
}

void RuntimeEvents::RuntimeLost() {
  const MutexLock lock(mutex_);
  pause_ = options_.retry;
  unserved_ = false;
  lost_ = true;
  OpenLater();
  task_.RunSoon();
}

void RuntimeEvents::OpenLater() {
  if (stream_ || clients_ > 0 || unserved_) return;
  open_at_ = std::min(open_at_, Clock::now() + pause_);
}

RuntimeEvents::Clock::time_point RuntimeEvents::Run() {
  bool open = false;
  bool look = false;
  {
    const MutexLock lock(mutex_);
    if (stopped_) return RecurringTask::kNever;
    open = !stream_ && open_at_ <= Clock::now();
    look = due_ <= Clock::now();
  }
  if (open) Open();
  if (look && HasUnknown()) relist_();
  const MutexLock lock(mutex_);
  return std::min(due_, open_at_);
}

void RuntimeEvents::Open() {
  auto stream = std::make_shared<Stream>(*this);
  {
    const MutexLock lock(mutex_);
    if (stopped_ || clients_ > 0) return;
    stream_ = stream;
    opened_ = Clock::now();
    lost_ = false;
    open_at_ = RecurringTask::kNever;
    // What was created before the stream was open was not reported.
    overflow_ = true;
    due_ = std::min(due_, Clock::now() + options_.settle);
  }
  stream->Follow();
}

bool RuntimeEvents::HasUnknown() {
  std::set<std::string> changed;
  bool unknown = false;
  {
    const MutexLock lock(mutex_);
    changed.swap(changed_);
    unknown = std::exchange(overflow_, false) && stream_;
    due_ = RecurringTask::kNever;
  }
  unknown = unknown || std::ranges::any_of(changed, [this](const std::string& id) {
              return !registry_.Manages(id);
            });
  if (!unknown) return false;
  // Events that come from now on wait, so that a flood of them costs few listings.
  const MutexLock lock(mutex_);
  not_before_ = Clock::now() + options_.pause;
  if (due_ != RecurringTask::kNever) due_ = std::max(due_, not_before_);
  return true;
}

void RuntimeEvents::OnEvent(const std::string& id) {
  {
    const MutexLock lock(mutex_);
    if (id.empty() || changed_.size() >= kMaxChanged) {
      overflow_ = true;
    } else {
      changed_.insert(id);
    }
    if (due_ != RecurringTask::kNever) return;  // a look is due already
    due_ = std::max(Clock::now() + options_.settle, not_before_);
  }
  task_.RunSoon();
}

void RuntimeEvents::OnEnd(const grpc::Status& status) {
  const bool unserved = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
  bool say = false;
  {
    const MutexLock lock(mutex_);
    say = unserved && !std::exchange(said_unserved_, true);
    unserved_ = unserved && !lost_;
  }
  const std::string why =
      std::string(rpc::NameOf(status.error_code())) + ": " + status.error_message();
  if (say) {
    spdlog::info(
        "the runtime serves no container events, so containers that are created at its own socket "
        "are found at the next reconcile ({})",
        why);
  } else {
    spdlog::debug("runtime: the container events have ended: {}", why);
  }
  const MutexLock lock(mutex_);
  stream_.reset();
  if (Clock::now() - opened_ >= options_.last_retry) pause_ = options_.retry;
  OpenLater();
  pause_ = std::min(2 * pause_, options_.last_retry);
  // Under the lock: once it is released, Stop may return and this object may be gone.
  task_.RunSoon();
  ended_.NotifyAll();
}

}  // namespace alignd::reconcile
