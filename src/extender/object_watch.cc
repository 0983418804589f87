#include "extender/object_watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "alignd/base/json_depth.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using WatchJson = nlohmann::json;
using WatchClock = std::chrono::steady_clock;

constexpr char kSeeDocs[] = "see docs/scheduler-extender.md, \"Nodes from the API server\"";

const char* PathOf(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNode:
      return "/api/v1/nodes?";
    case ObjectKind::kTopology:
      return "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies?";
    // As kube-scheduler: a pod that ends is as deleted.
    case ObjectKind::kPod:
      return "/api/v1/pods?fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2C"
             "status.phase%21%3DFailed&";
  }
  return "";
}

const char* NameOfKind(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::kNode:
      return "Node";
    case ObjectKind::kTopology:
      return "NodeResourceTopology";
    case ObjectKind::kPod:
      return "Pod";
  }
  return "";
}

std::string UrlEncoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (is_plain) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

// The object at the name, or null.
const WatchJson* MemberIn(const WatchJson& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? &*found : nullptr;
}

std::string TextOf(const WatchJson& object, const char* outer, const char* inner) {
  const WatchJson* const holder = MemberIn(object, outer);
  const WatchJson* const text = holder == nullptr ? nullptr : MemberIn(*holder, inner);
  return text != nullptr && text->is_string() ? text->get<std::string>() : std::string();
}

// Null: the text is no JSON object of a bearable depth.
WatchJson ParsedObject(std::string_view text) {
  if (JsonDepthOf(text) > kMaxJsonDepth) return {};
  WatchJson parsed = WatchJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : WatchJson();
}

// Without what is not read, and large or new with each write.
std::string Pruned(ObjectKind kind, WatchJson object) {
  object["kind"] = NameOfKind(kind);
  object["apiVersion"] = kind == ObjectKind::kTopology ? "topology.node.k8s.io/v1alpha2" : "v1";
  WatchJson& metadata = object["metadata"];
  metadata.erase("managedFields");
  metadata.erase("resourceVersion");
  metadata.erase("generation");
  if (kind == ObjectKind::kPod) {
    WatchJson status = WatchJson::object();
    if (const std::string phase = TextOf(object, "status", "phase"); !phase.empty()) {
      status["phase"] = phase;
    }
    object["status"] = std::move(status);
  }
  return object.dump(-1, ' ', false, WatchJson::error_handler_t::replace);
}

// Empty: the object has no name.
std::string KeyOf(ObjectKind kind, const WatchJson& object) {
  const std::string name = TextOf(object, "metadata", "name");
  if (kind != ObjectKind::kPod || name.empty()) return name;
  return TextOf(object, "metadata", "namespace") + "/" + name;
}

Error NotRead(ObjectKind kind, const std::string& what, std::string remedy) {
  return {ErrorCode::kUnavailable, std::string(ToString(kind)) + ": " + what, std::move(remedy)};
}

}  // namespace

// The connection of the step that runs, for Stop.
class ObjectWatch::Reader {
 public:
  // Null: Stop was called.
  events::ApiReader* Use(std::unique_ptr<events::ApiReader> reader) {
    const MutexLock lock(mutex_);
    reader_ = has_stopped_ ? nullptr : std::move(reader);
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

 private:
  mutable Mutex mutex_;
  std::unique_ptr<events::ApiReader> reader_ GUARDED_BY(mutex_);
  bool has_stopped_ GUARDED_BY(mutex_) = false;
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

std::chrono::milliseconds ObjectWatch::Step() {
  const WatchClock::time_point begun = WatchClock::now();
  Result<std::unique_ptr<events::ApiReader>> connected = connect_();
  if (!connected.ok()) return AfterFailure(Failure{connected.error().In(ToString(kind_))});
  events::ApiReader* const reader = reader_->Use(*std::move(connected));
  if (reader == nullptr) return settings_.first_pause;  // Stop was called
  const bool is_list = version_.empty();
  const Attempt attempt = is_list ? List(*reader) : Watch(*reader);
  if (reader_->HasStopped()) return settings_.first_pause;
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

std::chrono::milliseconds ObjectWatch::AfterFailure(const Failure& failure) {
  has_failed_ = true;
  sink_.Failed(kind_, failure.error);
  if (failure.pause) {
    return std::clamp<std::chrono::milliseconds>(*failure.pause, settings_.first_pause,
                                                 kLongestRetryAfter);
  }
  return std::exchange(pause_, std::min(2 * pause_, settings_.last_pause));
}

ObjectWatch::Attempt ObjectWatch::List(events::ApiReader& reader) {
  const WatchClock::time_point begun = WatchClock::now();
  std::set<std::string> keys;
  std::string next;
  std::string version;
  do {
    const Attempt page = ListPage(reader, keys, next, version);
    if (page) return page;
  } while (!next.empty());
  version_ = version;
  sink_.Listed(kind_, keys, begun);
  return std::nullopt;
}

ObjectWatch::Attempt ObjectWatch::ListPage(events::ApiReader& reader, std::set<std::string>& keys,
                                           std::string& next, std::string& version) {
  std::string path = PathOf(kind_) + ("limit=" + std::to_string(settings_.page));
  if (!next.empty()) path += "&continue=" + UrlEncoded(next);
  std::string body;
  bool is_too_large = false;
  const Result<events::ApiAnswer> answer = reader.Get(path, [&](std::string_view part) {
    is_too_large = body.size() + part.size() > kMaxPageBytes;
    if (!is_too_large) body += part;
    return !is_too_large;
  });
  if (!answer.ok()) return Failure{answer.error().In(ToString(kind_))};
  if (answer->status != 200) return FailureOf(*answer, "list");
  if (is_too_large) {
    return Failure{NotRead(
        kind_, "a page of the list has more than " + std::to_string(kMaxPageBytes) + " bytes",
        "find the objects that are so large")};
  }
  WatchJson list = ParsedObject(body);
  version = TextOf(list, "metadata", "resourceVersion");
  if (version.empty()) {
    return Failure{NotRead(kind_, "the list is no JSON list with a resourceVersion", kSeeDocs)};
  }
  next = TextOf(list, "metadata", "continue");
  if (const auto items = list.find("items"); items != list.end() && items->is_array()) {
    for (WatchJson& item : *items) {
      const std::string key = KeyOf(kind_, item);
      if (key.empty()) return Failure{NotRead(kind_, "an object has no name", kSeeDocs)};
      keys.insert(key);
      sink_.Set(kind_, key, Pruned(kind_, std::move(item)));
    }
  }
  return std::nullopt;
}

ObjectWatch::Attempt ObjectWatch::Watch(events::ApiReader& reader) {
  const WatchClock::time_point begun = WatchClock::now();
  const auto seconds = has_failed_ ? settings_.watch_after_failure : settings_.watch;
  const std::string path =
      PathOf(kind_) +
      ("watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(seconds.count())) +
      "&resourceVersion=" + UrlEncoded(version_);
  std::string buffer;
  Attempt failure;
  const Result<events::ApiAnswer> answer = reader.Get(path, [&](std::string_view part) {
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
      failure = Failure{NotRead(
          kind_, "an event of the watch has more than " + std::to_string(kMaxEventBytes) + " bytes",
          "find the object that is so large")};
    }
    return !failure;
  });
  if (failure) return failure;
  if (!answer.ok()) return Failure{answer.error().In(ToString(kind_))};
  if (answer->status != 200) return FailureOf(*answer, "watch");
  if (!buffer.empty()) {
    return Failure{NotRead(kind_, "the watch has ended within an event", kSeeDocs)};
  }
  // The API server has sent all there is.
  sink_.Current(kind_, std::min(WatchClock::now(), begun + seconds));
  return std::nullopt;
}

ObjectWatch::Attempt ObjectWatch::TakeEvent(std::string_view line) {
  // What does not arrive as it should may be missing: everything is listed again.
  const auto broken = [this](const std::string& what) {
    version_.clear();
    return Failure{NotRead(kind_, "watch: " + what, kSeeDocs)};
  };
  WatchJson event = ParsedObject(line);
  const WatchJson* const type = MemberIn(event, "type");
  const auto object = event.is_object() ? event.find("object") : event.end();
  if (type == nullptr || !type->is_string() || object == event.end() || !object->is_object()) {
    return broken("an event is no JSON object with type and object");
  }
  const std::string name = type->get<std::string>();
  if (name == "ERROR") {
    const WatchJson* const code = MemberIn(*object, "code");
    if (code != nullptr && *code == 410) {
      return Failure{.error = NotRead(kind_, "the watch has expired", ""), .is_expired = true};
    }
    const WatchJson* const message = MemberIn(*object, "message");
    return broken(message != nullptr && message->is_string() ? message->get<std::string>()
                                                             : "an error without a message");
  }
  const std::string version = TextOf(*object, "metadata", "resourceVersion");
  if (version.empty()) return broken("an object has no resourceVersion");
  if (name != "BOOKMARK") {
    const std::string key = KeyOf(kind_, *object);
    if (key.empty()) return broken("an object has no name");
    if (name == "ADDED" || name == "MODIFIED") {
      sink_.Set(kind_, key, Pruned(kind_, std::move(*object)));
    } else if (name == "DELETED") {
      sink_.Remove(kind_, key);
    } else {
      return broken("an event of type \"" + name + "\"");
    }
  }
  version_ = version;
  return std::nullopt;
}

ObjectWatch::Failure ObjectWatch::FailureOf(const events::ApiAnswer& answer,
                                            const char* verb) const {
  // A list whose next page has expired begins again; so does a watch.
  if (answer.status == 410) {
    return {.error = NotRead(kind_, std::string(verb) + ": expired", ""), .is_expired = true};
  }
  const WatchJson status = ParsedObject(answer.body);
  const WatchJson* const message = MemberIn(status, "message");
  std::string text =
      std::string(verb) + ": the API server answers " + std::to_string(answer.status);
  if (message != nullptr && message->is_string()) text += ": " + message->get<std::string>();
  std::string remedy = "see the API server's log";
  if (answer.status == 401) remedy = "renew the token or certificate of the credential";
  if (answer.status == 403) {
    remedy = "allow the credential to list and watch " + std::string(ToString(kind_)) +
             ": config/scheduler/rbac.yaml";
  }
  if (answer.status == 404 && kind_ != ObjectKind::kTopology) {
    remedy = "correct the server of the kubeconfig: it does not serve the API of Kubernetes";
  } else if (answer.status == 404) {
    remedy = "install the CustomResourceDefinition of NodeResourceTopology, v1alpha2";
  }
  if (answer.status == 429 || answer.status >= 500)
    remedy = "see why the API server is busy; the call is repeated";
  return {.error = NotRead(kind_, text, remedy), .pause = answer.retry_after};
}

}  // namespace alignd::extender
