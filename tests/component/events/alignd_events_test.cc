// alignd-events as a process, between a daemon and an API server with TLS.
#include <gtest/gtest.h>
#include <httplib.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../daemon/daemon_fixture.h"
#include "apiserver/api_client.h"
#include "certificates.h"
#include "edge/process.h"

namespace alignd::events {
namespace {

using nlohmann::json;

// Keeps the Events, as an API server does.
class FakeApiServer {
 public:
  FakeApiServer(const Certificates& certificates, const std::string& certificate,
                const std::string& client_ca)
      : server_(certificates.Path(certificate + ".crt").c_str(),
                certificates.Path(certificate + ".key").c_str(),
                client_ca.empty() ? nullptr : certificates.Path(client_ca).c_str()) {
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      const MutexLock lock(mutex_);
      headers_ = request.headers;
      const json body = json::parse(request.body, nullptr, false);
      if (!body.is_object()) {
        response.status = 400;
        return;
      }
      const std::string name = request.method == "POST"
                                   ? body["metadata"]["name"].get<std::string>()
                                   : request.path.substr(request.path.rfind('/') + 1);
      const bool exists = events_.contains(name);
      response.status = request.method == "POST" ? (exists ? 409 : 201) : (exists ? 200 : 404);
      if (response.status < 300) events_[name].merge_patch(body);
      response.set_content("{}", "application/json");
    };
    server_.Post("/api/v1/namespaces/.*/events", answer);
    server_.Patch("/api/v1/namespaces/.*/events/.*", answer);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  FakeApiServer(const FakeApiServer&) = delete;
  FakeApiServer& operator=(const FakeApiServer&) = delete;
  ~FakeApiServer() {
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }
  // The Event with that reason of that pod; null if there is none.
  json Find(const std::string& pod, const std::string& reason) const {
    const MutexLock lock(mutex_);
    for (const auto& [name, event] : events_) {
      if (event["involvedObject"]["name"] == pod && event["reason"] == reason) return event;
    }
    return json();
  }
  std::string Header(const std::string& name) const {
    const MutexLock lock(mutex_);
    const auto found = headers_.find(name);
    return found == headers_.end() ? "" : found->second;
  }

 private:
  httplib::SSLServer server_;
  int port_ = 0;
  mutable Mutex mutex_;
  std::map<std::string, json> events_ GUARDED_BY(mutex_);
  httplib::Headers headers_ GUARDED_BY(mutex_);
  std::thread thread_;
};

class AligndEventsTest : public daemon::DaemonTest {
 protected:
  ~AligndEventsTest() override { StopDaemon(); }

  apiserver::ApiCredential Credential(const FakeApiServer& server) const {
    apiserver::ApiCredential credential;
    credential.host = "127.0.0.1";
    credential.port = server.port();
    credential.ca = {.file = certificates_.Path("ca.crt")};
    credential.token = "secret";
    return credential;
  }
  Result<apiserver::ApiAnswer> CallOnce(const apiserver::ApiCredential& credential) const {
    const auto call = apiserver::ConnectTo(credential, "alignd-events");
    if (!call.ok()) return call.error();
    return (*call)("POST", "/api/v1/namespaces/ns/events", "{\"metadata\":{\"name\":\"a\"}}");
  }

  const Certificates certificates_{tree_.root() / "pki"};
};

TEST_F(AligndEventsTest, BelievesOnlyTheServerOfItsCa) {
  const FakeApiServer server(certificates_, "server", "");
  apiserver::ApiCredential credential = Credential(server);
  auto answer = CallOnce(credential);
  ASSERT_TRUE(answer.ok()) << answer.error().Text();
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(server.Header("Authorization"), "Bearer secret");
  credential.ca = {.file = certificates_.Path("other-ca.crt")};
  answer = CallOnce(credential);
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.error().message.find("not of the credential's CA"), std::string::npos)
      << answer.error().Text();
  const FakeApiServer elsewhere(certificates_, "elsewhere", "");
  answer = CallOnce(Credential(elsewhere));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(elsewhere.Header("Authorization"), "");
}

TEST_F(AligndEventsTest, ShowsTheClientsCertificate) {
  const FakeApiServer server(certificates_, "server", "ca.crt");
  apiserver::ApiCredential credential = Credential(server);
  EXPECT_FALSE(CallOnce(credential).ok());
  credential.token.clear();
  credential.certificate = {.text = testing::ReadText(certificates_.Path("client.crt"))};
  credential.key = {.file = certificates_.Path("client.key")};
  const auto answer = CallOnce(credential);
  ASSERT_TRUE(answer.ok()) << answer.error().Text();
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(server.Header("Authorization"), "");
  credential.key = {.file = certificates_.Path("server.key")};
  EXPECT_FALSE(CallOnce(credential).ok());
  credential.key = {.file = certificates_.Path("none.key")};
  EXPECT_FALSE(CallOnce(credential).ok());
}

TEST_F(AligndEventsTest, ReportsWhatTheDaemonDecides) {
  const FakeApiServer server(certificates_, "server", "ca.crt");
  Start(daemon::StaticConfig("topologyManagerPolicy: single-numa-node\n"));
  tree_.Write({"kubelet.conf",
               "current-context: here\n"
               "contexts: [{name: here, context: {cluster: c, user: u}}]\n"
               "clusters:\n- {name: c, cluster: {certificate-authority: pki/ca.crt, server: "
               "'https://127.0.0.1:" +
                   std::to_string(server.port()) +
                   "'}}\nusers:\n- {name: u, user: {client-certificate: pki/client.crt, "
                   "client-key: pki/client.key}}\n"});
  testing::Process events(
      {ALIGND_EVENTS_PROGRAM, "--kubeconfig", (tree_.root() / "kubelet.conf").string(),
       "--control-socket", DaemonOptions().ControlSocket(), "--node-name", "node-1", "--interval-s",
       "1"},
      tree_.root() / "events.log");
  ASSERT_TRUE(events.WaitForLog("as node node-1")) << events.Log();
  // Twenty CPUs are on no NUMA node.
  const auto pod = daemon::PodConfig("big");
  const auto refused = Create(Run(pod), pod, daemon::Pinned(20));
  ASSERT_FALSE(refused.status.ok());
  ASSERT_TRUE(Eventually([&] {
    return !server.Find("pod-big", "TopologyAffinityError").is_null();
  })) << events.Log();
  const json event = server.Find("pod-big", "TopologyAffinityError");
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["involvedObject"]["uid"], "big");
  EXPECT_EQ(event["source"]["host"], "node-1");
  // By a handler: as process 1 of a container, it would not end otherwise.
  const int status = events.Kill(SIGTERM);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), EXIT_SUCCESS);
}

}  // namespace
}  // namespace alignd::events
