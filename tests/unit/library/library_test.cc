// libalignd as its callers see it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "alignd/machine/node_json.h"
#include "core/machine_builder.h"
#include "library/alignd.h"

namespace alignd {
namespace {

using nlohmann::json;

std::string NodeJson(const std::string& name, const std::string& machine) {
  return R"({"name":")" + name +
         R"(","config":{"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
         R"("topologyManagerPolicy":"single-numa-node"},"node":)" +
         MachineToNodeJson(MakeMachine(machine)) + "}";
}

std::string PodJson(const std::string& cpus) {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[)"
         R"({"name":"app","resources":{"limits":{"cpu":")" +
         cpus + R"(","memory":"1Gi"}}}]}})";
}

struct Answered {
  int status = 0;
  json result;
};

Answered Take(int status, char* text) {
  Answered answered{status, text == nullptr ? json() : json::parse(text, nullptr, false)};
  alignd_free(text);
  return answered;
}

Answered Simulated(const std::string& node, const std::string& pod) {
  char* text = nullptr;
  const int status = alignd_simulate(node.c_str(), pod.c_str(), &text);
  return Take(status, text);
}

Answered Fitted(const std::string& nodes, const std::string& pods, const char* options = nullptr) {
  char* text = nullptr;
  const int status = alignd_fit(nodes.c_str(), pods.c_str(), options, &text);
  return Take(status, text);
}

TEST(Library, HasAVersion) {
  EXPECT_EQ(alignd_api_version(), static_cast<unsigned>(ALIGND_API_VERSION));
  EXPECT_NE(std::string(alignd_version()), "");
}

TEST(Library, SimulatesOnePod) {
  const std::string node = NodeJson("w", "socket:2 numa:1 core:20");
  Answered answered = Simulated(node, PodJson("20"));
  EXPECT_EQ(answered.status, ALIGND_OK);
  EXPECT_EQ(answered.result["outcome"], "fits");
  EXPECT_EQ(answered.result["assignments"]["app"]["exclusive_cpus"], "20-39");
  EXPECT_EQ(answered.result["assignments"]["app"]["cpu_nodes"], json::array({1}));
  answered = Simulated(node, PodJson("21"));
  EXPECT_EQ(answered.status, ALIGND_OK);
  EXPECT_EQ(answered.result["outcome"], "refused");
  EXPECT_EQ(answered.result["stage"], "kubelet");
  EXPECT_EQ(answered.result["reason"], "TopologyAffinityError");
  const std::string message = answered.result["message"];
  EXPECT_NE(message.find("Requested: app: 21 exclusive CPUs"), std::string::npos) << message;
  EXPECT_NE(message.find("NUMA node 1: 20 of 20"), std::string::npos) << message;
}

TEST(Library, FindsNodes) {
  const std::string nodes = "[" + NodeJson("a", "socket:2 numa:1 core:10") + "," +
                            NodeJson("b", "socket:2 numa:1 core:20") + "]";
  Answered answered = Fitted(nodes, PodJson("20"));
  EXPECT_EQ(answered.status, ALIGND_OK);
  EXPECT_EQ(answered.result["workloads"][0]["fitting"][0]["node"], "b");
  answered =
      Fitted(nodes, "[" + PodJson("9") + "]",
             R"({"replicas":"max","score":"MostAllocated","compare":["policy=restricted"]})");
  EXPECT_EQ(answered.status, ALIGND_OK);
  EXPECT_EQ(answered.result["admitted"], 6);
  EXPECT_EQ(answered.result["comparisons"][0]["admitted"], 6);
  EXPECT_EQ(Fitted(nodes, PodJson("1"), R"({"replicas":3})").result["admitted"], 3);
}

// Two pods run, and no state file says where.
TEST(Library, LeavesOpenWhatDependsOnWherePodsRun) {
  const auto node = [](const std::vector<std::string>& cpus) {
    json text = json::parse(NodeJson("w", "socket:2 numa:1 core:10"));
    for (size_t i = 0; i < cpus.size(); ++i) {
      json pod = json::parse(PodJson(cpus[i]));
      pod["metadata"]["name"] = "r" + std::to_string(i);
      text["running"].push_back(pod);
    }
    return text.dump();
  };
  EXPECT_EQ(Simulated(node({"4", "4"}), PodJson("5")).result["outcome"], "fits");
  Answered answered = Simulated(node({"4", "4"}), PodJson("7"));
  EXPECT_EQ(answered.status, ALIGND_OK);
  EXPECT_EQ(answered.result["outcome"], "undecided");
  answered = Fitted("[" + node({"4", "4"}) + "]", PodJson("7"));
  EXPECT_EQ(answered.result["undecided"], 1) << answered.result;
  // The node would not admit a pod with 12 CPUs. It runs all the same.
  answered = Simulated(node({"12"}), PodJson("2"));
  EXPECT_EQ(answered.status, ALIGND_OK) << answered.result;
  EXPECT_EQ(answered.result["outcome"], "undecided");
  answered = Fitted("[" + node({"12"}) + "]", PodJson("2"), R"({"compare":["policy=restricted"]})");
  EXPECT_EQ(answered.status, ALIGND_OK) << answered.result;
  EXPECT_EQ(answered.result["undecided"], 1) << answered.result;
}

TEST(Library, PlansThePodsOfAControllerOnce) {
  const std::string deployment =
      R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2,)"
      R"("template":{"spec":{"containers":[{"name":"app"}]}}}})";
  json pod = json::parse(PodJson("1"));
  pod["metadata"]["ownerReferences"] = {
      {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", "d"}, {"controller", true}}};
  const Answered answered = Fitted("[" + NodeJson("w", "socket:2 numa:1 core:10") + "]",
                                   "[" + deployment + "," + pod.dump() + "]");
  EXPECT_EQ(answered.result["admitted"], 2) << answered.result;
  EXPECT_EQ(answered.result["skipped"], json::array({"Pod default/p is of Deployment default/d"}));
}

TEST(Library, NamesCodeMessageAndRemedyOfErrors) {
  const std::string node = NodeJson("w", "core:4");
  const std::string nodes = "[" + node + "]";
  std::vector<Answered> all = {Simulated("", PodJson("1")),
                               Simulated(node, "{}"),
                               Simulated(R"({"name":"w"})", PodJson("1")),
                               Simulated(node, R"({"apiVersion":"v1","kind":"List","items":[]})"),
                               Simulated(node, std::string(200, '[')),
                               Fitted("{}", PodJson("1")),
                               Fitted("[]", PodJson("1")),
                               Fitted(nodes, "[]"),
                               Fitted("[" + node + "," + node + "]", PodJson("1")),
                               Fitted(nodes, PodJson("1"), "[]"),
                               Fitted(nodes, PodJson("1"), R"({"replicas":0})"),
                               Fitted(nodes, PodJson("1"), R"({"replicas":-1})"),
                               Fitted(nodes, PodJson("1"), R"({"score":"Best"})"),
                               Fitted(nodes, PodJson("1"), R"({"compare":"policy=none"})"),
                               Fitted(nodes, PodJson("1"), R"({"compare":["a=b"]})"),
                               Fitted(nodes, PodJson("1"), R"({"replica":1})")};
  char* text = nullptr;
  int status = alignd_simulate(nullptr, "{}", &text);
  all.push_back(Take(status, text));
  status = alignd_fit(nullptr, nullptr, nullptr, &text);
  all.push_back(Take(status, text));
  for (const Answered& answered : all) {
    EXPECT_EQ(answered.status, ALIGND_ERROR) << answered.result;
    EXPECT_NE(answered.result["error"]["message"], "");
    EXPECT_NE(answered.result["error"]["remedy"], "") << answered.result;
    EXPECT_EQ(answered.result["error"]["code"], "InvalidArgument");
  }
  EXPECT_EQ(alignd_simulate("{}", "{}", nullptr), ALIGND_ERROR);
  alignd_free(nullptr);
}

// Each error names the argument, and the member in it.
TEST(Library, NamesTheFaultyArgument) {
  const std::string node = NodeJson("w", "core:4");
  const std::string nodes = "[" + node + "]";
  const auto message = [](const Answered& answered) {
    EXPECT_EQ(answered.status, ALIGND_ERROR);
    return answered.result["error"]["message"].get<std::string>();
  };
  EXPECT_TRUE(message(Simulated("null", PodJson("1"))).starts_with("node: "));
  EXPECT_TRUE(message(Simulated(node, "null")).starts_with("pod"));
  EXPECT_TRUE(message(Fitted("[null]", PodJson("1"))).starts_with("nodes[0]: "));
  EXPECT_TRUE(message(Fitted(nodes, "[null]")).starts_with("pods[0]: "));
  EXPECT_EQ(message(Fitted(nodes, PodJson("1"), R"({"config":5})")),
            "options.config: is no object");
  EXPECT_TRUE(message(Fitted(nodes, PodJson("1"), R"({"compare":["a=b"]})"))
                  .starts_with("options.compare: a=b: is not KEY=VALUE"));
  std::string many;
  for (int i = 0; i < 101; ++i) many += std::string(i > 0 ? "," : "") + "none";
  EXPECT_EQ(
      message(Fitted(nodes, PodJson("1"), (R"({"compare":["policy=)" + many + "\"]}").c_str())),
      "more than 100 comparisons");
}

// 3,000 containers took minutes when the pod's class was found out for each of them.
TEST(Library, DecidesAboutManyContainers) {
  std::string containers;
  for (int i = 0; i < 3'000; ++i) {
    containers += (i > 0 ? "," : "") + (R"({"name":"c)" + std::to_string(i)) +
                  R"(","resources":{"limits":{"cpu":"1m","memory":"1Mi"}}})";
  }
  const std::string pod =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[)" +
      containers + "]}}";
  const auto start = std::chrono::steady_clock::now();
  const Answered answered = Fitted("[" + NodeJson("w", "socket:2 numa:1 core:20") + "]", pod);
  EXPECT_EQ(answered.result["admitted"], 1) << answered.result;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Library, AnswersManyThreads) {
  const std::string node = NodeJson("w", "socket:2 numa:1 core:20");
  std::vector<int> fitting(4);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < fitting.size(); ++i) {
      threads.emplace_back([&, i] {
        for (int call = 0; call < 5; ++call) {
          if (Simulated(node, PodJson("20")).result["outcome"] == "fits") ++fitting[i];
        }
      });
    }
  }
  EXPECT_EQ(fitting, std::vector<int>(4, 5));
}

std::string OutputOf(const std::string& command) {
  std::string text;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  return pclose(pipe) == 0 ? text : "";
}

TEST(Library, ExportsItsFunctionsOnly) {
  std::istringstream lines(OutputOf("nm -D --defined-only '" ALIGND_LIBRARY "'"));
  std::set<std::string> names;
  for (std::string address, type, name; lines >> address >> type >> name;) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"alignd_api_version", "alignd_fit", "alignd_free",
                                          "alignd_simulate", "alignd_version"}));
}

TEST(Library, HasAnExampleThatRuns) {
  namespace fs = std::filesystem;
  const fs::path directory =
      fs::temp_directory_path() / ("alignd-library-" + std::to_string(getpid()));
  fs::create_directories(directory);
  std::ofstream(directory / "nodes") << "[" << NodeJson("w", "socket:2 numa:1 core:20") << "]";
  std::ofstream(directory / "pods") << PodJson("20");
  const std::string files =
      "'" + (directory / "nodes").string() + "' '" + (directory / "pods").string() + "'";
  const json result = json::parse(OutputOf("'" ALIGND_EXAMPLE "' " + files), nullptr, false);
  EXPECT_EQ(result["admitted"], 1);
  EXPECT_EQ(OutputOf("'" ALIGND_EXAMPLE "' " + files + " /dev/null"), "");
  fs::remove_all(directory);
}

}  // namespace
}  // namespace alignd
