// The page /metrics: its text, its documentation, and what promtool says about it.
#include "metrics/metrics_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/allocation_node.h"
#include "edge/fake_tree.h"
#include "edge/process.h"

namespace alignd::metrics {
namespace {

namespace fs = std::filesystem;
using testing::AppPod;
using testing::kGpu;
using testing::kNic;

// An allocation manager with a page.
class PageTest : public ::testing::Test {
 protected:
  PageTest() {
    node_.events = &events_;
    node_.Up();
    node_.AnnounceDevices();
    page_ = NewPage();
  }
  ~PageTest() override { node_.Down(); }

  // The value of a series on a new page; "" if it is not there.
  std::string Value(const std::string& series) {
    page_ = NewPage();
    return ValueIn(*page_->Text(), series);
  }
  static std::string ValueIn(const std::string& page, const std::string& series) {
    const std::string text = "\n" + page;
    const size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) return "";
    const size_t value = at + series.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }
  std::unique_ptr<MetricsPage> NewPage() {
    return std::make_unique<MetricsPage>(
        PageSources{.version = "1.2.3",
                    .node = node_.node,
                    .events = events_,
                    .snapshot = [this] { return node_.manager->snapshot(); },
                    .conditions = [this] { return conditions_.Report(); },
                    .repairs = [this] { return conditions_.Repairs(); },
                    .waits = [this] { return node_.manager->waits(); },
                    .waiting_pods = [this] { return node_.manager->WaitingPods(); },
                    .queues =
                        [] {
                          return std::map<std::string, size_t>{{"io", 3}};
                        },
                    .runtime_listed = [] { return true; },
                    .disconnected = [this] { return disconnected_; }});
  }

  std::set<std::string> disconnected_;
  EventMetrics events_;
  reconcile::Conditions conditions_;
  testing::AllocationNode node_;
  std::unique_ptr<MetricsPage> page_;
};

TEST_F(PageTest, HasTheWritesOfTheTopologyObject) {
  EXPECT_EQ(Value("alignd_topology_writes_total{outcome=\"written\"}"), "0");
  events_.TopologyWrites(3, 2, 1);
  EXPECT_EQ(Value("alignd_topology_writes_total{outcome=\"written\"}"), "3");
  EXPECT_EQ(Value("alignd_topology_writes_total{outcome=\"failed\"}"), "2");
  EXPECT_EQ(Value("alignd_topology_writes_total{outcome=\"conflict\"}"), "1");
}

TEST_F(PageTest, ShowsWhatAPodIsAssigned) {
  EXPECT_EQ(Value("alignd_numa_free_cpus{numa_node=\"0\"}"), "7");  // CPU 0 is reserved
  EXPECT_EQ(Value("alignd_assigned_pods"), "0");
  const std::string free = Value("alignd_numa_free_memory_bytes{numa_node=\"0\",type=\"memory\"}");
  node_.Admit(AppPod("a", 2, {{kGpu, "1"}}));
  EXPECT_EQ(Value("alignd_numa_cpus{numa_node=\"0\"}"), "8");
  EXPECT_EQ(Value("alignd_numa_free_cpus{numa_node=\"0\"}"), "5");
  EXPECT_EQ(Value("alignd_numa_free_cpus{numa_node=\"1\"}"), "8");
  EXPECT_EQ(std::stod(free) -
                std::stod(Value("alignd_numa_free_memory_bytes{numa_node=\"0\",type=\"memory\"}")),
            1024.0 * 1024 * 1024);
  const std::string gpu = "resource=\"" + std::string(kGpu) + "\"}";
  EXPECT_EQ(Value("alignd_numa_devices{numa_node=\"0\"," + gpu), "4");
  EXPECT_EQ(Value("alignd_numa_free_devices{numa_node=\"0\"," + gpu), "3");
  EXPECT_EQ(Value("alignd_allocated_devices{" + gpu), "1");
  EXPECT_EQ(Value("alignd_free_devices{" + gpu), "7");
  EXPECT_EQ(Value("alignd_unhealthy_devices{" + gpu), "0");
  EXPECT_EQ(Value("alignd_assigned_pods"), "1");
  EXPECT_EQ(Value("alignd_decisions_total{outcome=\"admitted\"}"), "1");
  EXPECT_EQ(Value("alignd_decision_seconds_count"), "1");
  EXPECT_EQ(Value("kubelet_device_plugin_alloc_duration_seconds_count{resource_name=\"" +
                  std::string(kGpu) + "\"}"),
            "1");
  EXPECT_EQ(Value("alignd_build_info{version=\"1.2.3\"}"), "1");
  EXPECT_EQ(Value("alignd_queue_length{queue=\"io\"}"), "3");
}

TEST_F(PageTest, ShowsADisconnectedPlugin) {
  const std::string gpu = "alignd_device_plugin_connected{resource=\"" + std::string(kGpu) + "\"}";
  const std::string nic = "alignd_device_plugin_connected{resource=\"" + std::string(kNic) + "\"}";
  EXPECT_EQ(Value(gpu), "1");
  disconnected_ = {kGpu};
  EXPECT_EQ(Value(gpu), "0");
  EXPECT_EQ(Value(nic), "1");
}

TEST_F(PageTest, ShowsAWriteThatFails) {
  node_.disk.FailAt(0);
  node_.Admit(AppPod("a", 1));
  EXPECT_EQ(Value("alignd_state_writes_total{result=\"failed\"}"), "1");
  EXPECT_EQ(Value("alignd_state_write_under_way_seconds"), "0");
}

TEST_F(PageTest, ShowsHowLongAWriteLasts) {
  EXPECT_EQ(Value("alignd_state_write_under_way_seconds"), "0");
  node_.disk.Hold();
  auto admitted = std::async(std::launch::async, [this] { node_.Admit(AppPod("a", 1)); });
  node_.disk.AwaitHeld();
  EXPECT_GT(std::stod(Value("alignd_state_write_under_way_seconds")), 0.0);
  node_.disk.LetGo();
  admitted.wait();
  EXPECT_EQ(Value("alignd_state_write_under_way_seconds"), "0");
}

TEST_F(PageTest, ShowsRefusals) {
  const std::string before = Value("alignd_state_writes_total{result=\"succeeded\"}");
  node_.Admit(AppPod("b", 99));
  node_.Admit(AppPod("b", 99));
  EXPECT_EQ(Value("alignd_decisions_total{outcome=\"refused\"}"), "2");
  EXPECT_EQ(Value("kubelet_topology_manager_admission_requests_total"), "1");
  EXPECT_EQ(Value("alignd_state_writes_total{result=\"failed\"}"), "0");
  EXPECT_EQ(Value("alignd_state_writes_total{result=\"succeeded\"}"), before);
  node_.Admit(AppPod("c", 1));
  EXPECT_EQ(Value("alignd_state_writes_total{result=\"succeeded\"}"),
            std::to_string(std::stoi(before) + 1));
}

TEST_F(PageTest, ShowsRequestsThatWaitForAPlugin) {
  node_.plugins->Await("example.com/fpga", true);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::hours(1);
  std::promise<allocation::Outcome> answer;
  node_.manager->Admit({.pod = AppPod("w", 1, {{"example.com/fpga", "1"}}), .wait_until = patience},
                       [&](allocation::Outcome outcome) { answer.set_value(std::move(outcome)); });
  ASSERT_TRUE(testing::WaitUntil([&] { return node_.manager->waits().requests == 1; }));
  EXPECT_EQ(Value("alignd_waiting_requests"), "1");
  EXPECT_GT(std::stod(Value("alignd_oldest_waiting_request_seconds")), 0.0);
  node_.manager->StopWaiting();
  answer.get_future().wait();
  ASSERT_TRUE(testing::WaitUntil([&] { return node_.manager->waits().requests == 0; }));
  EXPECT_EQ(Value("alignd_waiting_requests"), "0");
  EXPECT_EQ(Value("alignd_oldest_waiting_request_seconds"), "0");
}

TEST_F(PageTest, ShowsTheQueue) {
  EXPECT_EQ(Value("alignd_waiting_pods"), "0");
  EXPECT_EQ(Value("alignd_waits_total{outcome=\"admitted\"}"), "0");
  node_.Down();
  node_.waiting.emplace(allocation::WaitLimits());
  node_.Up();
  node_.Admit(AppPod("first", 10));
  node_.Admit(AppPod("second", 10));
  EXPECT_EQ(Value("alignd_waiting_pods"), "1");
  EXPECT_GT(std::stod(Value("alignd_oldest_waiting_pod_seconds")), 0.0);
  ASSERT_TRUE(node_.Release("first").ok());
  node_.Admit(AppPod("second", 10));
  EXPECT_EQ(Value("alignd_waiting_pods"), "0");
  EXPECT_EQ(Value("alignd_oldest_waiting_pod_seconds"), "0");
  EXPECT_EQ(Value("alignd_waits_total{outcome=\"admitted\"}"), "1");
}

TEST_F(PageTest, ShowsConditionsAndRepairs) {
  EXPECT_EQ(Value("alignd_conditions{type=\"RuntimeUnavailable\"}"), "0");
  conditions_.RuntimeFailed({ErrorCode::kUnavailable, "gone"});
  conditions_.Repaired({.time = std::chrono::system_clock::now(),
                        .container = {"c1", {"uid", "app"}},
                        .was = "a",
                        .should = "b"});
  EXPECT_EQ(Value("alignd_conditions{type=\"RuntimeUnavailable\"}"), "1");
  EXPECT_EQ(Value("alignd_conditions{type=\"CpusetRepaired\"}"), "");
  EXPECT_EQ(Value("alignd_cpuset_repairs_total"), "1");
}

TEST_F(PageTest, ScrapesInQuickSuccessionShareOneText) {
  const auto begun = std::chrono::steady_clock::now();
  const auto first = page_->Text();
  const auto second = page_->Text();
  const bool in_time = std::chrono::steady_clock::now() - begun < MetricsPage::kReuse;
  EXPECT_TRUE(first == second || !in_time);
  std::this_thread::sleep_until(begun + 2 * MetricsPage::kReuse);
  EXPECT_NE(page_->Text(), first);
}

// Names of resources come from plugins.
TEST_F(PageTest, ResourcesAreBounded) {
  for (int i = 0; i < 200; ++i) {
    node_.manager->SetResource("example.com/r" + std::to_string(i), testing::EightDevices("d"));
  }
  node_.Settle();
  const std::string text = *NewPage()->Text();
  size_t lines = 0;
  for (size_t at = text.find("\nalignd_unhealthy_devices{"); at != std::string::npos;
       at = text.find("\nalignd_unhealthy_devices{", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 64U);
}

// `# TYPE name type` of the page.
std::map<std::string, std::string> TypesOf(const std::string& page) {
  std::map<std::string, std::string> types;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, keyword, name, type;
    words >> hash >> keyword >> name >> type;
    if (hash == "#" && keyword == "TYPE") types[name] = type;
  }
  return types;
}

// The rows `| `name` | type | ...` of docs/monitoring.md.
TEST_F(PageTest, EveryMetricIsDocumentedWithItsType) {
  static const std::regex row(R"(^\| `((?:alignd|kubelet)_[a-z_]+)` \| ([a-z]+) \|.*$)");
  std::ifstream document(fs::path(ALIGND_SOURCE_DIR) / "docs/monitoring.md");
  ASSERT_TRUE(document.is_open());
  std::map<std::string, std::string> documented;
  for (std::string line; std::getline(document, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    EXPECT_TRUE(documented.emplace(match[1], match[2]).second) << match[1] << " is listed twice";
  }
  // Only with a feature gate: see kubelet_metrics_test.cc.
  EXPECT_EQ(std::erase_if(documented,
                          [](const auto& metric) {
                            return metric.first.starts_with("kubelet_resource_manager_");
                          }),
            3U);
  EXPECT_EQ(documented, TypesOf(*page_->Text()));
}

bool HasPromtool() { return std::system("command -v promtool >/dev/null 2>&1") == 0; }

// Runs promtool with `arguments`, and `input` as its standard input. Returns what it printed if it
// failed, else "".
std::string Promtool(const std::string& arguments, const std::string& input = "") {
  const testing::FakeTree tree;
  tree.Write({"in", input});
  const std::string out = tree.root() / "out";
  const std::string command =
      "promtool " + arguments + " <'" + (tree.root() / "in").string() + "' >'" + out + "' 2>&1";
  return std::system(command.c_str()) == 0 ? "" : "failed: " + testing::ReadText(out);
}

// promtool dislikes some names of the kubelet, which are not ours to choose.
TEST_F(PageTest, PromtoolHasNothingAgainstIt) {
  if (!HasPromtool()) GTEST_SKIP() << "promtool is not installed (Debian: prometheus)";
  node_.Admit(AppPod("a", 2, {{kGpu, "1"}, {kNic, "1"}}));
  events_.PluginRegistered("example.com/\"quoted\"\\\n");
  std::string ours;
  std::istringstream lines(*page_->Text());
  for (std::string line; std::getline(lines, line);) {
    if (line.find("kubelet_") == std::string::npos) ours += line + "\n";
  }
  EXPECT_EQ(Promtool("check metrics", ours), "");
  EXPECT_NE(Promtool("check metrics", "no metric\n"), "");  // the check can fail
  // The kubelet's series must at least be readable: complaints of style are the only ones.
  const std::string all = Promtool("check metrics", *page_->Text());
  EXPECT_EQ(all.find("error while linting"), std::string::npos) << all;
}

TEST(MonitoringFiles, AlertRulesPassTheirTests) {
  if (!HasPromtool()) GTEST_SKIP() << "promtool is not installed (Debian: prometheus)";
  const std::string folder = (fs::path(ALIGND_SOURCE_DIR) / "config/monitoring").string();
  EXPECT_EQ(Promtool("check rules '" + folder + "/alignd-alerts.yaml'"), "");
  EXPECT_EQ(Promtool("test rules '" + folder + "/alignd-alerts-test.yaml'"), "");
  EXPECT_EQ(Promtool("check config --syntax-only '" + folder + "/prometheus.yaml'"), "");
}

// A rule about a metric that no longer exists would never fire.
TEST_F(PageTest, AlertRulesUseMetricsThatExist) {
  static const std::regex name(R"(\b((?:alignd|kubelet)_[a-z_]+)\b)");
  std::set<std::string> known;
  for (const auto& [metric, type] : TypesOf(*page_->Text())) {
    known.insert(metric);
    if (type != "histogram") continue;
    for (const char* const suffix : {"_bucket", "_sum", "_count"}) known.insert(metric + suffix);
  }
  std::ifstream rules(fs::path(ALIGND_SOURCE_DIR) / "config/monitoring/alignd-alerts.yaml");
  ASSERT_TRUE(rules.is_open());
  int used = 0;
  for (std::string line; std::getline(rules, line);) {
    for (std::sregex_iterator match(line.begin(), line.end(), name), end; match != end; ++match) {
      EXPECT_TRUE(known.contains((*match)[1])) << (*match)[1];
      ++used;
    }
  }
  EXPECT_GT(used, 5);
}

}  // namespace
}  // namespace alignd::metrics
