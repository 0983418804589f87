#include "extender/extender_server.h"

#include <httplib.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "extender/messages.h"
#include "extender/metrics_text.h"
#include "sync/mutex.h"

namespace alignd::extender {
namespace {

using ServerClock = std::chrono::steady_clock;

constexpr char kJson[] = "application/json";
constexpr char kPlainText[] = "text/plain; charset=utf-8";
// Connections of kube-scheduler stay open: each occupies a thread while it does.
constexpr size_t kThreads = 16;
constexpr size_t kMaxConnectionsWaiting = 64;
constexpr int kIdleSeconds = 5;
constexpr int kReadSeconds = 5;
constexpr size_t kLargeRequestBytes = size_t{1} << 20;

enum class Verb { kFilter, kPrioritize };
enum class CallOutcome { kAnswered, kBadRequest, kNoNodes, kNotLeader };

// Counts calls, for /metrics.
class CallCounts {
 public:
  void Add(Verb verb, CallOutcome outcome, ServerClock::duration took) {
    Of(verb).calls[static_cast<size_t>(outcome)].fetch_add(1);
    Of(verb).microseconds.fetch_add(
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  }

  std::string Page(const Extender& extender) const {
    const Extender::Counts counts = extender.GetCounts();
    MetricsText page;
    page.Family("alignd_extender_nodes", "gauge", "Nodes that the extender knows.");
    page.Sample(std::to_string(counts.nodes));
    page.Family("alignd_extender_unreadable_nodes", "gauge",
                "Nodes whose objects cannot be read: nothing is let through to them.");
    page.Sample(std::to_string(counts.nodes_with_problem));
    page.Family("alignd_extender_kept_pods", "gauge",
                "Pods that were let through and that the nodes do not show yet.");
    page.Sample(std::to_string(counts.kept_pods));
    page.Family("alignd_extender_dropped_pods_total", "counter",
                "Pods whose places were dropped without having been seen on a node.");
    page.Sample(std::to_string(counts.dropped));
    page.Family("alignd_extender_nodes_readable", "gauge",
                "1 if the nodes could be read, else 0: calls are answered with an error.");
    page.Sample(extender.Problem() ? "0" : "1");
    page.Family("alignd_extender_calls_total", "counter", "Calls by verb and outcome.");
    for (const auto& [verb, name] : kVerbs) {
      for (size_t outcome = 0; outcome < kOutcomes.size(); ++outcome) {
        std::string labels = VerbLabel(name);
        labels.append(",outcome=\"").append(kOutcomes[outcome]).append("\"");
        page.Sample(std::to_string(Of(verb).calls[outcome].load()), labels);
      }
    }
    page.Family("alignd_extender_call_seconds_total", "counter", "Time that calls took, by verb.");
    for (const auto& [verb, name] : kVerbs) {
      page.Sample(std::to_string(static_cast<double>(Of(verb).microseconds.load()) / 1e6),
                  VerbLabel(name));
    }
    return page.text();
  }

 private:
  struct OfVerb {
    std::array<std::atomic<uint64_t>, 4> calls{};
    std::atomic<uint64_t> microseconds = 0;
  };
  static constexpr std::array<std::pair<Verb, const char*>, 2> kVerbs = {
      {{Verb::kFilter, "filter"}, {Verb::kPrioritize, "prioritize"}}};
  static constexpr std::array<const char*, 4> kOutcomes = {"answered", "bad_request", "no_nodes",
                                                           "not_leader"};

  static std::string VerbLabel(const char* name) {
    std::string label = "verb=\"";
    return label.append(name).append("\"");
  }

  OfVerb& Of(Verb verb) { return of_verb_[static_cast<size_t>(verb)]; }
  const OfVerb& Of(Verb verb) const { return of_verb_[static_cast<size_t>(verb)]; }

  std::array<OfVerb, 2> of_verb_;
};

// Whether the PEM file has a certificate.
bool HoldsCertificate(const std::string& file) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> opened(BIO_new_file(file.c_str(), "r"), BIO_free);
  if (!opened) return false;
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(opened.get(), nullptr, nullptr, nullptr), X509_free);
  return certificate != nullptr;
}

// While too many connections wait for a thread, no further one is accepted.
class ExtenderPool final : public httplib::TaskQueue {
 public:
  ExtenderPool() : pool_(kThreads) {}
  void enqueue(std::function<void()> task) override {
    {
      const MutexLock lock(waiting_->mutex);
      while (waiting_->connections >= kMaxConnectionsWaiting) waiting_->wake.Wait(waiting_->mutex);
      ++waiting_->connections;
    }
    pool_.enqueue([waiting = waiting_, task = std::move(task)] {
      {
        const MutexLock lock(waiting->mutex);
        --waiting->connections;
        waiting->wake.NotifyOne();
      }
      task();
    });
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  struct Waiting {
    Mutex mutex;
    CondVar wake;
    size_t connections GUARDED_BY(mutex) = 0;
  };
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
  httplib::ThreadPool pool_;
};

class HttpExtender final : public ExtenderServer {
 public:
  HttpExtender(std::unique_ptr<httplib::Server> server, Extender& extender,
               std::function<std::string()> more_metrics, Permits permits,
               std::chrono::milliseconds settle)
      : server_(std::move(server)),
        extender_(extender),
        more_metrics_(std::move(more_metrics)),
        permits_(permits ? std::move(permits) : []() -> Result<uint64_t> { return 0; }),
        settle_(settle) {
    server_->new_task_queue = [] { return new ExtenderPool; };
    server_->set_payload_max_length(kMaxRequestBytes);
    server_->set_keep_alive_timeout(kIdleSeconds);
    server_->set_keep_alive_max_count(100'000);
    server_->set_read_timeout(kReadSeconds);
    server_->set_write_timeout(kReadSeconds);
    server_->set_tcp_nodelay(true);
    // Without SO_REUSEPORT, which is the library's default: with it, a second extender would get
    // a part of the calls, and neither would know the places that the other keeps.
    server_->set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    server_->Post("/filter", [this](const httplib::Request& request, httplib::Response& response) {
      const ServerClock::time_point since = ServerClock::now();
      CallOutcome outcome = CallOutcome::kAnswered;
      response.set_content(Filter(request.body, outcome), kJson);
      CloseUnlessLeader(outcome, response);
      counts_.Add(Verb::kFilter, outcome, ServerClock::now() - since);
    });
    server_->Post("/prioritize",
                  [this](const httplib::Request& request, httplib::Response& response) {
                    const ServerClock::time_point since = ServerClock::now();
                    CallOutcome outcome = CallOutcome::kAnswered;
                    Prioritize(request.body, response, outcome);
                    CloseUnlessLeader(outcome, response);
                    counts_.Add(Verb::kPrioritize, outcome, ServerClock::now() - since);
                  });
    server_->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
      response.set_content("ok\n", kPlainText);
    });
    server_->Get("/readyz", [this](const httplib::Request& request, httplib::Response& response) {
      const std::optional<Error> problem =
          WhyNotReady(request.get_param_value("exclude") != "leader");
      if (problem) response.status = 503;
      response.set_content(problem ? problem->Text() + "\n" : "ok\n", kPlainText);
    });
    server_->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(counts_.Page(extender_) + (more_metrics_ ? more_metrics_() : ""),
                           "text/plain; version=0.0.4; charset=utf-8");
    });
  }
  ~HttpExtender() override {
    if (!thread_.joinable()) return;
    server_->stop();
    thread_.join();
  }

  // False: the address cannot be used.
  bool Listen(const metrics::ListenAddress& address) {
    if (address.port == 0) {
      const int port = server_->bind_to_any_port(address.ip);
      if (port <= 0) return false;
      port_ = static_cast<uint16_t>(port);
    } else {
      if (!server_->bind_to_port(address.ip, address.port)) return false;
      port_ = address.port;
    }
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    // `stop` has no effect before the server runs.
    while (!server_->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  }

  uint16_t port() const override { return port_; }

 private:
  // A large request is parsed alone: parsed, it can take many times its size.
  Result<Request> Parse(const std::string& body) {
    if (body.size() <= kLargeRequestBytes) return ParseRequest(body);
    const MutexLock lock(parsing_);
    return ParseRequest(body);
  }

  // `if_leader`: a replica that is not the leader is not ready.
  std::optional<Error> WhyNotReady(bool if_leader) const {
    if (const auto problem = extender_.Problem()) return problem;
    if (!if_leader) return std::nullopt;
    const auto permitted = permits_();
    return permitted.ok() ? std::nullopt : std::optional(permitted.error());
  }

  // Connections that are open stay with this replica when the Service leads to another one: without
  // this, kube-scheduler would call the former leader for as long as it has pods.
  static void CloseUnlessLeader(CallOutcome outcome, httplib::Response& response) {
    if (outcome == CallOutcome::kNotLeader) response.set_header("Connection", "close");
  }

  // The term; of a pod that is not concerned, any replica knows all that is needed.
  Result<uint64_t> PermittedFor(const placement::PlannedPod& pod) const {
    if (!extender_.Concerns(pod)) return 0;
    return permits_();
  }

  // Why the answer to a call that was permitted is not sent: this process has stood still since, or
  // the answer took too long.
  std::optional<Error> WhyNotSent(const placement::PlannedPod& pod, uint64_t term) const {
    const Result<uint64_t> permitted = PermittedFor(pod);
    if (!permitted.ok()) return permitted.error();
    if (*permitted == term) return std::nullopt;
    return Error{ErrorCode::kUnavailable, "NotLeader: the term has changed since the call came",
                 "wait; kube-scheduler tries again"};
  }

  // With HTTP status 200 also for errors: kube-scheduler shows the field Error.
  std::string Filter(const std::string& body, CallOutcome& outcome) {
    const Result<Request> request = Parse(body);
    if (!request.ok()) {
      outcome = CallOutcome::kBadRequest;
      return FilterError(request.error());
    }
    const Result<uint64_t> permitted = PermittedFor(request->pod);
    if (!permitted.ok()) {
      outcome = CallOutcome::kNotLeader;
      return FilterError(permitted.error());
    }
    Result<Extender::Filtered> filtered =
        extender_.Filter(request->pod, request->names, ServerClock::now());
    const bool is_refused = filtered.ok() && filtered->nodes.empty() && !request->names.empty();
    // A pod that can be nowhere is refused at once.
    if (is_refused && request->pod.faults.empty() && settle_.count() > 0) {
      std::this_thread::sleep_for(settle_);
      filtered = extender_.Filter(request->pod, request->names, ServerClock::now());
    }
    if (filtered.ok() && filtered->waits) return FilterError(*filtered->waits);
    if (!filtered.ok()) {
      outcome = CallOutcome::kNoNodes;
      return FilterError(filtered.error());
    }
    std::string answer = FilterResult(*request, *filtered);
    if (const auto problem = WhyNotSent(request->pod, *permitted)) {
      // The end of the leader would wait for a pod that goes nowhere.
      extender_.DropPlace(request->pod.pod.uid, filtered->place);
      outcome = CallOutcome::kNotLeader;
      return FilterError(*problem);
    }
    return answer;
  }

  // A HostPriorityList has no field for an error. kube-scheduler then scores without.
  void Prioritize(const std::string& body, httplib::Response& response, CallOutcome& outcome) {
    const Result<Request> request = Parse(body);
    if (!request.ok()) {
      outcome = CallOutcome::kBadRequest;
      response.status = 400;
      response.set_content(request.error().Text() + "\n", kPlainText);
      return;
    }
    const auto refuse = [&](CallOutcome why, const Error& error) {
      outcome = why;
      response.status = 503;
      response.set_content(error.Text() + "\n", kPlainText);
    };
    const Result<uint64_t> permitted = PermittedFor(request->pod);
    if (!permitted.ok()) return refuse(CallOutcome::kNotLeader, permitted.error());
    const auto scores = extender_.Prioritize(request->pod, request->names);
    if (!scores.ok()) return refuse(CallOutcome::kNoNodes, scores.error());
    const std::string list = PriorityList(*scores);
    const auto problem = WhyNotSent(request->pod, *permitted);
    if (problem) return refuse(CallOutcome::kNotLeader, *problem);
    response.set_content(list, kJson);
  }

  const std::unique_ptr<httplib::Server> server_;
  Extender& extender_;
  const std::function<std::string()> more_metrics_;
  const Permits permits_;
  const std::chrono::milliseconds settle_;
  Mutex parsing_;
  CallCounts counts_;
  uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ExtenderServer>> ExtenderServer::Start(
    const metrics::ListenAddress& address, const TlsFiles& tls, Extender& extender,
    std::function<std::string()> more_metrics, Permits permits, std::chrono::milliseconds settle) {
  std::unique_ptr<httplib::Server> http;
  if (tls.certificate.empty()) {
    http = std::make_unique<httplib::Server>();
  } else {
    http = std::make_unique<httplib::SSLServer>(
        tls.certificate.c_str(), tls.key.c_str(),
        tls.client_ca.empty() ? nullptr : tls.client_ca.c_str());
  }
  // The library starts without a CA that it cannot read, and refuses every caller.
  const bool has_ca = tls.client_ca.empty() || HoldsCertificate(tls.client_ca);
  if (!http->is_valid() || !has_ca) {
    return Error{ErrorCode::kInvalidArgument,
                 "the certificate " + tls.certificate + ", the key " + tls.key +
                     (tls.client_ca.empty() ? "" : " or the CA " + tls.client_ca) +
                     " cannot be used",
                 "give PEM files of one certificate and its key that this user can read"};
  }
  auto server = std::make_unique<HttpExtender>(std::move(http), extender, std::move(more_metrics),
                                               std::move(permits), settle);
  if (!server->Listen(address)) {
    return Error{ErrorCode::kUnavailable, "listen on " + address.ToString() + ": failed",
                 "give another address with --listen, or end the program that has it"};
  }
  return std::unique_ptr<ExtenderServer>(std::move(server));
}

}  // namespace alignd::extender
