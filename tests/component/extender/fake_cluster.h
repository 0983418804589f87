// An API server over TLS that lists and watches: nodes, pods and topology objects.
#pragma once

#include <httplib.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../events/certificates.h"
#include "edge/fake_leases.h"

namespace alignd::extender {

inline constexpr char kNodesPath[] = "/api/v1/nodes";
inline constexpr char kPodsPath[] = "/api/v1/pods";
inline constexpr char kTopologiesPath[] =
    "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

// Follows the field selector spec.nodeName!= as an API server does: a pod is there when it is
// bound. Also has Leases of the namespace kube-system, and takes patches of EndpointSlices. Has
// resource versions, pages, bookmarks, and an end of its history, as an API server has. It accepts
// one token.
class FakeCluster {
 public:
  using Object = nlohmann::json;

  explicit FakeCluster(const events::Certificates& certificates)
      : server_(certificates.Path("server.crt").c_str(), certificates.Path("server.key").c_str()) {
    for (const char* path : {kNodesPath, kPodsPath, kTopologiesPath}) {
      server_.Get(path, [this, path](const httplib::Request& request, httplib::Response& response) {
        Answer(path, request, response);
      });
    }
    const auto lease = [this](const httplib::Request& request, httplib::Response& response) {
      AnswerLease(request, response);
    };
    constexpr char kLeases[] = "/apis/coordination.k8s.io/v1/namespaces/.*";
    server_.Get(kLeases, lease);
    server_.Post(kLeases, lease);
    server_.Put(kLeases, lease);
    server_.Patch("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/.*",
                  [this](const httplib::Request& request, httplib::Response& response) {
                    const std::lock_guard<std::mutex> lock(mutex_);
                    endpoints_ = request.body;
                    response.set_content("{}", "application/json");
                  });
    server_.new_task_queue = [] { return new httplib::ThreadPool(32); };
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;
  ~FakeCluster() {
    CloseWatches();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
      wake_.notify_all();
    }
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }

  void Put(const std::string& path, Object object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string key = KeyOf(object);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    auto& objects = objects_[path];
    const char* const type = objects.contains(key) ? "MODIFIED" : "ADDED";
    objects[key] = object;
    Record(path, type, object);
  }
  void Delete(const std::string& path, const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Object object = objects_[path].at(key);
    objects_[path].erase(key);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    Record(path, "DELETED", object);
  }
  // The history until now is lost; `in_stream`: a watch gets an event, else the status 410.
  void Compact(bool in_stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    oldest_ = ++version_;
    is_in_stream_ = in_stream;
    history_.clear();
  }
  // Connections of watches break off.
  void CloseWatches() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++generation_;
    wake_.notify_all();
  }
  void Accept(const std::string& token) {
    const std::lock_guard<std::mutex> lock(mutex_);
    token_ = token;
  }
  // Answers so many calls with that status.
  void Fail(int status, int calls) {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    failures_ = calls;
  }
  // Lists end within their text, as of a server that has died.
  void BreakLists() {
    const std::lock_guard<std::mutex> lock(mutex_);
    breaks_ = true;
  }
  // Answers calls of Leases with that status; 0: no longer.
  void FailLeases(int status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lease_status_ = status;
  }
  void AddReleasedLease(const std::string& name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    leases_.AddReleased(name);
  }
  Object LeaseSpec() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return leases_.Spec();
  }
  // The last patch of an EndpointSlice.
  std::string endpoints() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return endpoints_;
  }
  int lists(const std::string& path) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = lists_.find(path);
    return found == lists_.end() ? 0 : found->second;
  }
  int open_watches() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }

 private:
  struct Event {
    int version;
    std::string path;
    std::string line;
    bool is_bound;
  };

  static std::string KeyOf(const Object& object) {
    const Object& metadata = object.at("metadata");
    const std::string name = metadata.at("name").get<std::string>();
    return metadata.contains("namespace") ? metadata["namespace"].get<std::string>() + "/" + name
                                          : name;
  }

  void Record(const std::string& path, const char* type, const Object& object) {
    history_.push_back({version_, path, Object({{"type", type}, {"object", object}}).dump() + "\n",
                        IsBound(object)});
    wake_.notify_all();
  }

  static std::string Status(int code, const std::string& message) {
    return Object({{"kind", "Status"}, {"code", code}, {"message", message}}).dump();
  }

  void Answer(const std::string& path, const httplib::Request& request,
              httplib::Response& response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (request.get_header_value("Authorization") != "Bearer " + token_) {
      response.status = 401;
      response.set_content(Status(401, "Unauthorized"), "application/json");
    } else if (failures_ > 0) {
      --failures_;
      response.status = status_;
      response.set_content(Status(status_, "trouble"), "application/json");
    } else if (request.get_param_value("watch") == "1") {
      Watch(path, request, response);
    } else {
      List(path, request, response);
    }
  }

  void AnswerLease(const httplib::Request& request, httplib::Response& response) {
    const std::lock_guard<std::mutex> lock(mutex_);
    testing::FakeLeases::Answer answer{.status = lease_status_,
                                       .body = Status(lease_status_, "trouble")};
    if (lease_status_ == 0) answer = leases_.Call(request.method, request.path, request.body);
    response.status = answer.status;
    response.set_content(answer.body, "application/json");
  }

  // Whether the objects that a call asks for are those that are bound to a node.
  static bool AsksForBound(const httplib::Request& request) {
    return request.get_param_value("fieldSelector").find("spec.nodeName!=") != std::string::npos;
  }
  static bool IsBound(const Object& object) {
    return object.contains("spec") && object["spec"].contains("nodeName");
  }

  // Two objects a page, so that small lists have pages.
  void List(const std::string& path, const httplib::Request& request, httplib::Response& response) {
    constexpr int kPage = 2;
    const auto& objects = objects_[path];
    Object items = Object::array();
    auto next = objects.lower_bound(request.get_param_value("continue"));
    for (; next != objects.end() && items.size() < kPage; ++next) {
      if (AsksForBound(request) && !IsBound(next->second)) continue;
      items.push_back(next->second);
    }
    Object metadata = {{"resourceVersion", std::to_string(version_)}};
    if (next != objects.end()) metadata["continue"] = next->first;
    if (next == objects.end()) ++lists_[path];
    const std::string text =
        Object({{"kind", "List"}, {"metadata", metadata}, {"items", items}}).dump();
    if (!breaks_) {
      response.set_content(text, "application/json");
      return;
    }
    response.set_content_provider(text.size(), "application/json",
                                  [text](size_t offset, size_t, httplib::DataSink& sink) {
                                    return offset == 0 && sink.write(text.data(), text.size() / 2);
                                  });
  }

  void Watch(const std::string& path, const httplib::Request& request,
             httplib::Response& response) {
    const int from = std::stoi(request.get_param_value("resourceVersion"));
    if (from < oldest_ && !is_in_stream_) {
      response.status = 410;
      response.set_content(Status(410, "too old resource version"), "application/json");
      return;
    }
    struct Place {
      int version;
      int generation;
      std::chrono::steady_clock::time_point until;
      bool has_bookmark = false;
    };
    ++open_;
    const auto place = std::make_shared<Place>(
        Place{from, generation_,
              std::chrono::steady_clock::now() +
                  std::chrono::seconds(std::stoi(request.get_param_value("timeoutSeconds")))});
    response.set_chunked_content_provider(
        "application/json",
        [this, path, place, only_bound = AsksForBound(request)](size_t, httplib::DataSink& sink) {
          std::unique_lock<std::mutex> wait(mutex_);
          std::string text;
          if (place->version < oldest_) {
            text = Object({{"type", "ERROR"},
                           {"object", {{"kind", "Status"}, {"code", 410}, {"message", "gone"}}}})
                       .dump() +
                   "\n";
            place->version = version_;
          }
          for (const Event& event : history_) {
            if (event.version <= place->version || event.path != path) continue;
            if (event.is_bound || !only_bound) text += event.line;
          }
          place->version = version_;
          if (text.empty() && !place->has_bookmark) {
            place->has_bookmark = true;
            text = Object({{"type", "BOOKMARK"},
                           {"object",
                            {{"metadata", {{"resourceVersion", std::to_string(version_)}}}}}})
                       .dump() +
                   "\n";
          }
          if (place->generation != generation_ || is_ending_) return false;
          if (!text.empty()) {
            wait.unlock();
            return sink.write(text.data(), text.size());
          }
          if (std::chrono::steady_clock::now() >= place->until) {
            wait.unlock();
            sink.done();
            return true;
          }
          wake_.wait_for(wait, std::chrono::milliseconds(100));
          return true;
        },
        [this](bool) {
          const std::lock_guard<std::mutex> lock(mutex_);
          --open_;
        });
  }

  httplib::SSLServer server_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::map<std::string, Object>> objects_;  // by path and key
  std::vector<Event> history_;
  int version_ = 1;
  int oldest_ = 0;
  int generation_ = 0;
  int open_ = 0;
  int status_ = 500;
  int failures_ = 0;
  bool is_in_stream_ = true;
  bool breaks_ = false;
  bool is_ending_ = false;
  std::string token_ = "first";
  std::map<std::string, int> lists_;
  testing::FakeLeases leases_{"kube-system"};
  int lease_status_ = 0;
  std::string endpoints_;
  std::thread thread_;
};

}  // namespace alignd::extender
