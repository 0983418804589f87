#include "extender/object_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apiserver/object_json.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using WatchJson = nlohmann::json;
using WatchClock = std::chrono::steady_clock;

using apiserver::ApiFailure;
using apiserver::NotRead;

// A pod that is deleted before it is bound goes nowhere: its place is dropped.
constexpr auto kWatchedPods = apiserver::PodSelection::kAll;

constexpr char kSeeDocs[] = "see docs/scheduler-extender.md, \"Nodes from the API server\"";

// What to do if the credential may not read the objects.
std::string AccessTo(ObjectKind kind) {
  return "allow the credential to list and watch " + std::string(ToString(kind)) +
         ": config/scheduler/rbac.yaml";
}

}  // namespace

// The connection of the step that runs, for Stop.
class ObjectWatch::Reader {
 public:
  // Null: Stop or ListAgain was called.
  apiserver::ApiReader* Use(std::unique_ptr<apiserver::ApiReader> reader) {
    const MutexLock lock(mutex_);
    reader_ = has_stopped_ || is_list_due_ ? nullptr : std::move(reader);
    return reader_.get();
  }
  void Drop() { Use(nullptr); }
  void Stop() {
    const MutexLock lock(mutex_);
    has_stopped_ = true;
    if (reader_) reader_->Stop();
  }
  bool HasStopped() const {
    const MutexLock lock(mutex_);
    return has_stopped_;
  }
  void ListAgain() {
    const MutexLock lock(mutex_);
    is_list_due_ = true;
    if (reader_) reader_->Stop();
  }
  bool IsListDue() const {
    const MutexLock lock(mutex_);
    return is_list_due_;
  }
  bool TakeListDue() {
    const MutexLock lock(mutex_);
    return std::exchange(is_list_due_, false);
  }

 private:
  mutable Mutex mutex_;
  std::unique_ptr<apiserver::ApiReader> reader_ GUARDED_BY(mutex_);
  bool has_stopped_ GUARDED_BY(mutex_) = false;
  bool is_list_due_ GUARDED_BY(mutex_) = false;
};

ObjectWatch::ObjectWatch(ObjectKind kind, Settings settings, Connect connect, ObjectSink& sink)
    : kind_(kind),
      settings_(settings),
      connect_(std::move(connect)),
      sink_(sink),
      reader_(std::make_unique<Reader>()),
      pause_(settings.first_pause) {}

ObjectWatch::~ObjectWatch() = default;

void ObjectWatch::Stop() { reader_->Stop(); }

void ObjectWatch::ListAgain() { reader_->ListAgain(); }

std::chrono::milliseconds ObjectWatch::Step() {
  const WatchClock::time_point begun = WatchClock::now();
  if (reader_->TakeListDue()) version_.clear();
  Result<std::unique_ptr<apiserver::ApiReader>> connected = connect_();
  if (!connected.ok()) return AfterFailure(ApiFailure{connected.error().In(ToString(kind_))});
  apiserver::ApiReader* const reader = reader_->Use(*std::move(connected));
  if (reader == nullptr) return AfterStop();
  const bool is_list = version_.empty();
  const Attempt attempt = is_list ? List(*reader) : Watch(*reader);
  if (reader_->HasStopped() || (attempt && reader_->IsListDue())) return AfterStop();
  reader_->Drop();
  if (attempt && attempt->is_expired) {
    version_.clear();
    return settings_.first_pause;
  }
  if (attempt) return AfterFailure(*attempt);
  pause_ = settings_.first_pause;
  if (std::exchange(has_failed_, false)) sink_.Failed(kind_, std::nullopt);
  // An API server that ends each watch at once is not asked without end.
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(WatchClock::now() - begun);
  return is_list ? std::chrono::milliseconds(0)
                 : std::max(settings_.first_pause - took, std::chrono::milliseconds(0));
}

std::chrono::milliseconds ObjectWatch::AfterStop() const {
  return reader_->HasStopped() ? settings_.first_pause : std::chrono::milliseconds(0);
}

std::chrono::milliseconds ObjectWatch::AfterFailure(const ApiFailure& failure) {
  has_failed_ = true;
  sink_.Failed(kind_, failure.error);
  if (failure.pause) {
    return std::max<std::chrono::milliseconds>(settings_.first_pause,
                                               std::min(*failure.pause, kLongestRetryAfter));
  }
  return std::exchange(pause_, std::min(2 * pause_, settings_.last_pause));
}

ObjectWatch::Attempt ObjectWatch::List(apiserver::ApiReader& reader) {
  const WatchClock::time_point begun = WatchClock::now();
  std::set<std::string> keys;
  std::string version;
  Attempt failure = apiserver::ListObjects(
      reader, kind_, {.page = settings_.page, .access = AccessTo(kind_), .pods = kWatchedPods},
      [&](const std::string& key, const std::string& json) -> Result<Done> {
        keys.insert(key);
        sink_.Set(kind_, key, json);
        return Done{};
      },
      version);
  if (failure) return failure;
  version_ = version;
  sink_.Listed(kind_, keys, begun);
  return std::nullopt;
}

ObjectWatch::Attempt ObjectWatch::Watch(apiserver::ApiReader& reader) {
  const WatchClock::time_point begun = WatchClock::now();
  const auto seconds = has_failed_ ? settings_.watch_after_failure : settings_.watch;
  const std::string path =
      apiserver::PathOf(kind_, kWatchedPods) +
      ("watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(seconds.count())) +
      "&resourceVersion=" + apiserver::UrlEncoded(version_);
  std::string buffer;
  Attempt failure;
  const Result<apiserver::ApiAnswer> answer = reader.Get(path, [&](std::string_view part) {
    const size_t searched = buffer.size();
    buffer += part;
    size_t begin = 0;
    for (size_t end = buffer.find('\n', searched); end != std::string::npos && !failure;
         end = buffer.find('\n', begin)) {
      const std::string_view line = std::string_view(buffer).substr(begin, end - begin);
      if (!line.empty()) failure = TakeEvent(line);
      begin = end + 1;
    }
    buffer.erase(0, begin);
    if (!failure && buffer.size() > kMaxEventBytes) {
      failure = ApiFailure{NotRead(
          kind_, "an event of the watch has more than " + std::to_string(kMaxEventBytes) + " bytes",
          "find the object that is so large")};
    }
    return !failure;
  });
  if (failure) return failure;
  if (!answer.ok()) return ApiFailure{answer.error().In(ToString(kind_))};
  if (answer->status != 200) return apiserver::FailureOf(kind_, *answer, "watch", AccessTo(kind_));
  if (!buffer.empty()) {
    return ApiFailure{NotRead(kind_, "the watch has ended within an event", kSeeDocs)};
  }
  // The API server has sent all there is.
  sink_.Current(kind_, std::min(WatchClock::now(), begun + seconds));
  return std::nullopt;
}

ObjectWatch::Attempt ObjectWatch::TakeEvent(std::string_view line) {
  // What does not arrive as it should may be missing: everything is listed again.
  const auto broken = [this](const std::string& what) {
    version_.clear();
    return ApiFailure{NotRead(kind_, "watch: " + what, kSeeDocs)};
  };
  WatchJson event = apiserver::ParsedObject(line);
  const WatchJson* const type = apiserver::MemberIn(event, "type");
  const auto object = event.is_object() ? event.find("object") : event.end();
  if (type == nullptr || !type->is_string() || object == event.end() || !object->is_object()) {
    return broken("an event is no JSON object with type and object");
  }
  const std::string name = type->get<std::string>();
  if (name == "ERROR") {
    const WatchJson* const code = apiserver::MemberIn(*object, "code");
    if (code != nullptr && *code == 410) {
      return ApiFailure{.error = NotRead(kind_, "the watch has expired", ""), .is_expired = true};
    }
    const WatchJson* const message = apiserver::MemberIn(*object, "message");
    return broken(message != nullptr && message->is_string() ? message->get<std::string>()
                                                             : "an error without a message");
  }
  const std::string version = apiserver::TextIn(*object, "metadata", "resourceVersion");
  if (version.empty()) return broken("an object has no resourceVersion");
  if (name != "BOOKMARK") {
    const std::string key = apiserver::KeyOf(kind_, *object);
    if (key.empty()) return broken("an object has no name");
    if (name == "ADDED" || name == "MODIFIED") {
      sink_.Set(kind_, key, apiserver::Pruned(kind_, std::move(*object)));
    } else if (name == "DELETED") {
      sink_.Remove(kind_, key, apiserver::TextIn(*object, "metadata", "uid"));
    } else {
      return broken("an event of type \"" + name + "\"");
    }
  }
  version_ = version;
  return std::nullopt;
}

}  // namespace alignd::extender
