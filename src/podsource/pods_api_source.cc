#include "podsource/pods_api_source.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "pods/v1alpha1/pods.pb.h"
#include "podsource/api_pod.h"
#include "podsource/v1_pod.h"
#include "rpc/grpc_status.h"
#include "rpc/unix_socket.h"
#include "service/client.h"
#include "sync/mutex.h"

namespace alignd::podsource {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kSource = kPodsApi;

// In the kubelet's text of FAILED_PRECONDITION if the gate is off. The other one is "not ready".
constexpr std::string_view kGateIsOff = "feature gate is disabled";

// Between two calls that the kubelet's rate limit refuses: it allows 100 per second.
constexpr std::chrono::milliseconds kRepeatAfter{25};

// RESOURCE_EXHAUSTED has other causes: an answer that is too long or has too many parts, a call
// that was reset. Source of the text: kubelet pkg/kubelet/apis/grpc/ratelimit.go.
bool IsRateLimit(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         status.error_message() == "rejected by rate limit";
}

}  // namespace

// Calls the API and caches its last answers: the API is called once when a pod's sandbox is
// created, not for each of its containers. Thread-safe.
class PodsApiSource::Client {
 public:
  using Got = std::function<void(Result<ApiPod>)>;

  Client(const Options& options, std::filesystem::path socket,
         std::shared_ptr<service::Client> client)
      : options_(options), socket_(std::move(socket)), client_(std::move(client)) {}

  ~Client() {
    std::set<std::shared_ptr<Call>> calls;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      calls = calls_;
    }
    for (const auto& call : calls) call->Cancel();
    const MutexLock lock(mutex_);
    while (!calls_.empty()) idle_.Wait(mutex_);
  }

  std::optional<ApiPod> Cached(const std::string& uid) const {
    const MutexLock lock(mutex_);
    const auto pod = pods_.find(uid);
    return pod == pods_.end() ? std::nullopt : std::optional(pod->second);
  }

  // Calls the API and caches the answer. Errors: kUnavailable, at once, if the API is not served;
  // kDeadlineExceeded, if it is not ready; kNotFound; those of the call.
  void Get(const std::string& uid, Got got) {
    const auto call = std::make_shared<Call>();
    if (const std::optional<Error> error = Begin(call)) {
      got(*error);
      return;
    }
    call->uid = uid;
    call->got = std::move(got);
    call->repeat_until = Clock::now() + options_.repeat_for;
    Send(call);
  }

 private:
  // One question, and its attempts.
  struct Call {
    std::string uid;
    Got got;
    Clock::time_point repeat_until;
    ::v1alpha1::GetPodRequest request{};
    ::v1alpha1::GetPodResponse response{};

    // The attempt under way.
    Mutex mutex;
    bool cancelled GUARDED_BY(mutex) = false;
    std::shared_ptr<service::ClientCall> attempt GUARDED_BY(mutex);

    void Cancel() {
      std::shared_ptr<service::ClientCall> under_way;
      {
        const MutexLock lock(mutex);
        cancelled = true;
        under_way = attempt;
      }
      if (under_way) under_way->Cancel();
      // A pause ends by itself, soon.
    }
  };

  void Send(const std::shared_ptr<Call>& call) {
    const auto attempt = std::make_shared<service::ClientCall>(
        service::ClientCall::Options{.timeout = options_.timeout});
    {
      const MutexLock lock(call->mutex);
      call->attempt = attempt;
      if (call->cancelled) attempt->Cancel();
    }
    call->request.set_poduid(call->uid);
    client_->StartUnary(*attempt, "/v1alpha1.Pods/GetPod", call->request, call->response,
                        [this, call](const grpc::Status& status) {
                          if (!MayRepeat(*call, status)) return Finish(call, status);
                          client_->After(kRepeatAfter, [this, call] { Send(call); });
                        });
  }

  bool MayRepeat(Call& call, const grpc::Status& status) const {
    const MutexLock lock(call.mutex);
    return !call.cancelled && IsRateLimit(status) && Clock::now() < call.repeat_until;
  }

  void Finish(const std::shared_ptr<Call>& call, const grpc::Status& status) {
    // `got` is destroyed before End, too: its captures may belong to this object's owner.
    std::exchange(call->got, nullptr)(Read(call->uid, status, call->response.pod()));
    End(call);  // the client may be destroyed from here on
  }

  // More than the pods of a node.
  static constexpr size_t kMaxPods = 1024;

  // The feature gate is off: the API is not called with this socket until then.
  struct Off {
    std::filesystem::file_time_type socket;  // when it was made
    Clock::time_point until;
  };

  static constexpr char kEnable[] = "enable the feature gate PodsAPI of the kubelet";

  // The reason why the API is not to be called now; nullopt: the call begins.
  std::optional<Error> Begin(const std::shared_ptr<Call>& call) {
    std::error_code code;
    const auto made = std::filesystem::last_write_time(socket_, code);
    const bool there = !code;
    const MutexLock lock(mutex_);
    if (there != there_) {
      there_ = there;
      spdlog::info("the socket of the kubelet's Pods API {} at {}",
                   there ? "has appeared" : "has gone", socket_.string());
    }
    if (!there || stopped_) {
      return Error{ErrorCode::kUnavailable, std::string(kSource) + ": is not served", kEnable};
    }
    if (off_ && made == off_->socket && Clock::now() < off_->until) {
      return Error{ErrorCode::kUnavailable, std::string(kSource) + ": its feature gate is off",
                   kEnable};
    }
    if (Clock::now() < silent_until_) {
      return Error{ErrorCode::kDeadlineExceeded,
                   std::string(kSource) + ": is not called for a while after a timeout",
                   "see in the kubelet's log why it does not answer"};
    }
    calls_.insert(call);
    return std::nullopt;
  }

  void End(const std::shared_ptr<Call>& call) {
    const MutexLock lock(mutex_);
    calls_.erase(call);
    if (calls_.empty()) idle_.NotifyAll();
  }

  // The kubelet serves the socket with the feature gate off, too.
  Error GateIsOff() {
    std::error_code ignored;  // a socket that is gone will have another time
    const auto made = std::filesystem::last_write_time(socket_, ignored);
    const MutexLock lock(mutex_);
    if (!off_) {
      spdlog::info(
          "the feature gate PodsAPI of the kubelet is off; the next source of resources is used");
    }
    off_ = Off{made, Clock::now() + options_.pause};
    return {ErrorCode::kUnavailable, std::string(kSource) + ": its feature gate is off", kEnable};
  }

  // The kubelet has not seen all sources of pods yet.
  Error NotReady(const std::string& text) {
    const MutexLock lock(mutex_);
    if (!std::exchange(not_ready_, true)) {
      spdlog::info(
          "the kubelet's Pods API is not ready: {}; until then, the next source of resources is "
          "used; after a start of the kubelet this is expected",
          text);
    }
    return {ErrorCode::kDeadlineExceeded, std::string(kSource) + ": is not ready: " + text,
            "if this lasts, see in the kubelet's log whether it reaches the API server"};
  }

  // The API knows the pods.
  void Ready() {
    const MutexLock lock(mutex_);
    off_.reset();
    if (std::exchange(not_ready_, false)) spdlog::info("the kubelet's Pods API is ready");
  }

  Result<ApiPod> Read(const std::string& uid, const grpc::Status& status,
                      const std::string& bytes) {
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      return status.error_message().find(kGateIsOff) != std::string::npos
                 ? GateIsOff()
                 : NotReady(status.error_message());
    }
    if (status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND) Ready();
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      const MutexLock lock(mutex_);
      silent_until_ = Clock::now() + options_.pause;
      spdlog::warn(
          "the kubelet's Pods API does not answer within {} ms; for the next {} s, the next source "
          "of resources is used",
          options_.timeout.count(),
          std::chrono::duration_cast<std::chrono::seconds>(options_.pause).count());
    }
    if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      return Error{ErrorCode::kInternal, std::string(kSource) + ": " + status.error_message(),
                   IsRateLimit(status)
                       ? "find the other programs that call the Pods API"
                       : "see the kubelet's log, and whether the pod is very large"};
    }
    if (!status.ok()) return rpc::ToError(status, kSource, "the kubelet");
    Result<Pod> pod = ParseV1Pod(bytes);
    if (!pod.ok()) return pod.error().In(kSource);
    if (pod->uid != uid) {
      return Error{ErrorCode::kInvalidArgument,
                   std::string(kSource) + ": requested pod " + uid + ", got pod " + pod->uid,
                   "check that --pods-api-endpoint is the kubelet's socket"};
    }
    ApiPod known{*std::move(pod), EphemeralContainers(bytes), ShowsExtendedClaim(bytes),
                 HasLaterGeneration(bytes) && !HasRequestsSinceCreation(bytes)};
    Cache(known);
    return known;
  }

  void Cache(const ApiPod& known) {
    const std::string& uid = known.pod.uid;
    const MutexLock lock(mutex_);
    if (pods_.insert_or_assign(uid, known).second) oldest_first_.push_back(uid);
    if (oldest_first_.size() <= kMaxPods) return;
    pods_.erase(oldest_first_.front());
    oldest_first_.pop_front();
  }

  const Options options_;
  const std::filesystem::path socket_;
  const std::shared_ptr<service::Client> client_;

  mutable Mutex mutex_;
  CondVar idle_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool there_ GUARDED_BY(mutex_) = false;
  Clock::time_point silent_until_ GUARDED_BY(mutex_);
  std::optional<Off> off_ GUARDED_BY(mutex_);
  bool not_ready_ GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Call>> calls_ GUARDED_BY(mutex_);  // under way
  std::map<std::string, ApiPod> pods_ GUARDED_BY(mutex_);
  std::deque<std::string> oldest_first_ GUARDED_BY(mutex_);
};

namespace {

// "namespace/name (uid)", from the answer or from the question. The question of an update has the
// UID only.
std::string PodNameOf(const Pod* pod, const Question& question) {
  const runtime::v1::PodSandboxMetadata& metadata = question.sandbox->metadata();
  std::string name = pod != nullptr ? pod->name_space + "/" + pod->name
                                    : metadata.namespace_() + "/" + metadata.name();
  return name == "/" ? metadata.uid() : name + " (" + metadata.uid() + ")";
}

// A kubelet need not serve the API, and does not know the pods of other clients.
bool IsExpected(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotFound;
}

// The answer about a pod that the API has just shown.
Result<std::optional<PodAsk>> Know(const ApiPod& pod, const Question& question,
                                   bool claims_add_sizes) {
  Result<std::optional<PodAsk>> known = CompareWithCri(pod, question, claims_add_sizes);
  if (!known.ok()) known = WithSizesOfCri(pod, question, claims_add_sizes, known.error());
  if (known.ok() && !*known) known = std::optional(Unlisted(pod, question));
  return known;
}

// The API does not answer now. What it has said of the pod before is true but for its sizes.
// Errors: `why`, if it has not said anything.
Result<std::optional<PodAsk>> Earlier(const std::optional<ApiPod>& cached, const Error& why,
                                      const Question& question, bool claims_add_sizes) {
  if (!cached || !question.container || why.code == ErrorCode::kNotFound) return why;
  Result<std::optional<PodAsk>> known = WithSizesOfCri(*cached, question, claims_add_sizes, why);
  if (known.ok() && !*known) return why;
  return known;
}

}  // namespace

Result<std::unique_ptr<ResourceSource>> PodsApiSource::Make(const Options& options) {
  Result<std::string> path = rpc::SocketPath(options.endpoint);
  if (!path.ok()) return path.error();
  const Result<std::shared_ptr<service::Client>> client = service::Client::Dial(options.endpoint);
  if (!client.ok()) return client.error();
  return std::unique_ptr<ResourceSource>(new PodsApiSource(
      std::make_unique<Client>(options, *std::move(path), *client), options.claims_add_sizes));
}

PodsApiSource::PodsApiSource(std::unique_ptr<Client> client, bool claims_add_sizes)
    : client_(std::move(client)), claims_add_sizes_(claims_add_sizes) {}

PodsApiSource::~PodsApiSource() = default;

void PodsApiSource::Ask(const Question& question, Answer answer) {
  const std::string& uid = question.sandbox->metadata().uid();
  std::optional<ApiPod> cached = client_->Cached(uid);
  if (question.container && cached) {
    Result<std::optional<PodAsk>> known = CompareWithCri(*cached, question, claims_add_sizes_);
    if (known.ok() && *known) {
      answer(std::move(known));
      return;
    }
    // The pod may have changed since, by a resize or an ephemeral container.
  }
  client_->Get(uid, [question, claims_add_sizes = claims_add_sizes_, cached = std::move(cached),
                     answer = std::move(answer)](const Result<ApiPod>& pod) {
    Result<std::optional<PodAsk>> known =
        pod.ok() ? Know(*pod, question, claims_add_sizes)
                 : Earlier(cached, pod.error(), question, claims_add_sizes);
    if (!known.ok() && !pod.ok()) {
      const bool expected = IsExpected(known.error());
      if (!expected && question.remarks) *question.remarks = known.error().message;
      // A timeout, and an API that is not ready, have been logged once for all.
      const bool late = known.error().code == ErrorCode::kDeadlineExceeded;
      spdlog::log(expected || late ? spdlog::level::debug : spdlog::level::warn,
                  "pod {}: {}; the next source of resources is used", PodNameOf(nullptr, question),
                  known.error().message);
      known = std::optional<PodAsk>();
    } else if (!known.ok()) {
      spdlog::info("pod {}: {}; it is decided about when its containers are created",
                   PodNameOf(&pod->pod, question), known.error().message);
    }
    answer(std::move(known));
  });
}

}  // namespace alignd::podsource
