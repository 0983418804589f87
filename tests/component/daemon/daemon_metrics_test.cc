// Metrics and health of a whole daemon.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon_fixture.h"
#include "edge/http_client.h"
#include "edge/status_conditions.h"
#include "metrics/listen_address.h"

namespace alignd::daemon {
namespace {

using testing::HttpReply;

class DaemonMetrics : public DaemonTest {
 protected:
  ~DaemonMetrics() override { StopDaemon(); }

  std::string Socket() const { return (tree_.root() / "metrics.sock").string(); }
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.metrics_address = address_.empty() ? "unix:" + Socket() : address_;
    return options;
  }
  HttpReply GetPage(const std::string& path) const {
    return testing::Get(testing::ConnectUnix(Socket()), path);
  }
  // The value of a series; "" if it is not there.
  std::string Value(const std::string& series) const {
    const std::string text = "\n" + GetPage("/metrics").body;
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "";
    const size_t value = at + series.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }
  bool BecomesEqual(const std::string& series, const std::string& value) const {
    const bool equal = Eventually([&] { return Value(series) == value; });
    if (!equal) ADD_FAILURE() << series << " is " << Value(series) << ", not " << value;
    return equal;
  }

  std::string address_;  // empty: the unix socket
};

TEST_F(DaemonMetrics, FollowPodsAndCalls) {
  Start();
  StartGpus();
  EXPECT_TRUE(BecomesEqual("alignd_runtime_listed", "1"));
  const HttpReply page = GetPage("/metrics");
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.headers.find("Content-Type: text/plain; version=0.0.4; charset=utf-8"),
            std::string::npos)
      << page.headers;
  EXPECT_EQ(Value("kubelet_device_plugin_registration_total{resource_name=\"nvidia.com/gpu\"}"),
            "1");
  const Running running = RunOne(PodConfig("a", "", Annotation(3, 1)), Pinned(3));
  EXPECT_TRUE(BecomesEqual("alignd_calls_total{code=\"OK\",method=\"CreateContainer\"}", "1"));
  EXPECT_EQ(Value("alignd_call_added_seconds_count{method=\"CreateContainer\"}"), "1");
  EXPECT_EQ(Value("alignd_call_added_seconds_count{method=\"Version\"}"), "");  // only relayed
  EXPECT_EQ(Value("kubelet_cpu_manager_pinning_requests_total"), "1");
  EXPECT_EQ(Value("kubelet_cpu_manager_exclusive_cpu_allocation_count"), "3");
  EXPECT_EQ(Value("kubelet_cpu_manager_shared_pool_size_millicores"), "24000");
  EXPECT_EQ(Value("alignd_numa_free_cpus{numa_node=\"0\"}"), "10");
  EXPECT_EQ(Value("alignd_allocated_devices{resource=\"nvidia.com/gpu\"}"), "1");
  EXPECT_EQ(
      Value("kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"nvidia.com/gpu\"}"),
      "1");
  EXPECT_EQ(Call<v1::VersionResponse>("Version", v1::VersionRequest()).status.error_code(),
            grpc::StatusCode::OK);
  EXPECT_TRUE(BecomesEqual("alignd_calls_total{code=\"OK\",method=\"Version\"}", "1"));
  // A call that the runtime answers with an error, and one that alignd ends itself.
  EXPECT_FALSE(StartContainer("no such container").ok());
  EXPECT_TRUE(Eventually([&] {
    return GetPage("/metrics").body.find("method=\"StartContainer\"") != std::string::npos;
  }));
  ASSERT_TRUE(StopSandbox(running.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running.sandbox).ok());
  EXPECT_TRUE(BecomesEqual("kubelet_cpu_manager_exclusive_cpu_allocation_count", "0"));
}

TEST_F(DaemonMetrics, TheLivePageShowsPodsAndDevices) {
  Start();
  StartGpus();
  const Running running = RunOne(PodConfig("a", "", Annotation(3, 1)), Pinned(3));
  const std::string cpus = CpusOf(running.container);
  const std::string cpu = cpus.substr(0, cpus.find_first_of(",-"));
  EXPECT_TRUE(Eventually([&] {
    return GetPage("/topology.svg").body.find("CPU " + cpu + ": exclusive to default/pod-a,") !=
           std::string::npos;
  }));
  const HttpReply picture = GetPage("/topology.svg");
  EXPECT_EQ(picture.status, 200);
  EXPECT_NE(picture.headers.find("Content-Type: image/svg+xml"), std::string::npos);
  EXPECT_NE(picture.body.find("nvidia.com/gpu"), std::string::npos);
  const HttpReply page = GetPage("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.headers.find("Content-Type: text/html; charset=utf-8"), std::string::npos);
  EXPECT_NE(page.body.find("id=\"cpu-" + cpu + "\""), std::string::npos);
  EXPECT_NE(page.body.find("assigned to default/pod-a, container app"), std::string::npos);
  EXPECT_NE(GetPage("/live.js").body.find("fetch("), std::string::npos);
  EXPECT_NE(GetPage("/live.css").body.find("#picture"), std::string::npos);
}

TEST_F(DaemonMetrics, HealthSaysOkAndReadyOnceTheRuntimeIsListed) {
  StartDaemon();  // without a runtime
  const HttpReply ready = GetPage("/readyz");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, "the runtime has not been listed since alignd started\n");
  for (const std::string path : {"/livez", "/healthz"}) {
    const HttpReply alive = GetPage(path);
    EXPECT_EQ(alive.status, 200) << path;
    EXPECT_EQ(alive.body, "ok") << path;
  }
  EXPECT_TRUE(BecomesEqual("alignd_conditions{type=\"RuntimeUnavailable\"}", "1"));
  StartRuntime();
  EXPECT_TRUE(Eventually([&] { return GetPage("/readyz").status == 200; }));
  EXPECT_EQ(GetPage("/readyz").body, "ok");
}

TEST_F(DaemonMetrics, AnAddressInUseIsAConditionAndStopsNothing) {
  Result<host::Descriptor> taken = metrics::Listen({.ip = "127.0.0.1"});
  ASSERT_TRUE(taken.ok()) << taken.error().Text();
  address_ = "127.0.0.1:" + std::to_string(metrics::PortOf(*taken));
  Start();
  const auto conditions = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                                reconcile::ConditionType::kMetricsUnavailable);
  ASSERT_EQ(conditions.size(), 1U);
  EXPECT_EQ(conditions[0].message(), "listen on " + address_ + ": Address already in use");
  const Running running = RunOne(PodConfig("a"), Pinned(3));
  EXPECT_EQ(CpusOf(running.container), "1-3");
}

TEST_F(DaemonMetrics, OffServesNothing) {
  address_ = "off";
  Start();
  EXPECT_LT(testing::ConnectUnix(Socket()).fd(), 0);
  RunOne(PodConfig("a"), Pinned(3));
}

}  // namespace
}  // namespace alignd::daemon
