// Reads every #include line under include/ and src/ and checks which module may include which. The
// modules stand in groups; a module may include what stands in a group before its own. Below the
// core's groups begin the edges: files, threads, sockets, logging.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alignd {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string_view>;

struct Group {
  Names modules;
  bool mutual = false;  // its modules may include each other
};

const std::vector<Group>& CoreGroups() {
  static const std::vector<Group> groups = {
      {.modules = {"base"}},
      {.modules = {"json"}},
      {.modules = {"machine", "pod", "config"}, .mutual = true},
      {.modules = {"topologymanager"}},
      {.modules = {"cpumanager", "memorymanager", "devicemanager"}},
      {.modules = {"admission"}},
      {.modules = {"checkpoint", "noderesourcetopology"}},
      {.modules = {"scenario"}},
      {.modules = {"placement"}},
  };
  return groups;
}

const std::vector<Group>& EdgeGroups() {
  static const std::vector<Group> groups = {
      {.modules = {"library"}},
      {.modules = {"sync", "host", "rpc"}, .mutual = true},
      {.modules = {"proxy", "cgroup", "dra"}},
      {.modules = {"service"}},
      {.modules = {"allocation", "podsource"}},
      {.modules = {"reconcile", "mirror"}},
      {.modules = {"deviceplugin", "cri", "podresources", "control", "metrics", "kubelet"}},
      {.modules = {"apiserver"}},
      {.modules = {"picture"}},
      {.modules = {"daemon", "cli", "events", "moving", "extender"}, .mutual = true},
  };
  return groups;
}

bool IsIn(std::string_view name, const Names& names) {
  return std::ranges::find(names, name) != names.end();
}

// Where a file belongs, be it given by its path or by an #include.
struct Place {
  bool core = false;
  bool is_private = false;  // of the core: under src/core
  std::string_view module;
  size_t group = 0;  // within the core or the edges
  bool mutual = false;
};

// `path` is `<module>/<file>`.
std::optional<Place> PlaceIn(const std::vector<Group>& groups, std::string_view path, bool core,
                             bool is_private) {
  const std::string_view module = path.substr(0, path.find('/'));
  for (size_t i = 0; i < groups.size(); ++i) {
    if (module.size() < path.size() && IsIn(module, groups[i].modules)) {
      return Place{core, is_private, module, i, groups[i].mutual};
    }
  }
  return std::nullopt;
}

bool StripPrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// A quoted include: `alignd/<module>/x.h`, `core/<module>/x.h` or `<module>/x.h`.
std::optional<Place> PlaceOfHeader(std::string_view header) {
  if (StripPrefix(header, "alignd/")) return PlaceIn(CoreGroups(), header, true, false);
  if (StripPrefix(header, "core/")) return PlaceIn(CoreGroups(), header, true, true);
  return PlaceIn(EdgeGroups(), header, false, false);
}

std::optional<Place> PlaceOfFile(std::string_view path) {
  if (StripPrefix(path, "include/")) {
    return path.starts_with("alignd/") ? PlaceOfHeader(path) : std::nullopt;
  }
  return StripPrefix(path, "src/") ? PlaceOfHeader(path) : std::nullopt;
}

// What is wrong with a file of ours including a header of ours; empty if nothing is.
std::string ModuleProblem(const Place& from, std::string_view header) {
  const std::optional<Place> to = PlaceOfHeader(header);
  if (!to) return "no module of ours";
  if (to->is_private && !from.core) return "private to the core";
  if (to->is_private && !from.is_private) return "private; a public header cannot have it";
  if (from.core && !to->core) return "the core includes no edge";
  if (from.module == to->module) return "";
  if (IsIn(from.module, {"cpumanager", "memorymanager", "devicemanager"})) {
    if (to->module == "topologymanager" && header != "alignd/topologymanager/hint.h") {
      return "of topologymanager, managers include hint.h only";
    }
    if (to->module == "json") return "decision modules use the standard library only";
  }
  if (!from.core && to->core) return "";
  if (to->group < from.group || (to->group == from.group && from.mutual)) return "";
  return std::string(from.module) + " may not include " + std::string(to->module);
}

bool MayReadJson(const Place& from, std::string_view path) {
  if (!path.ends_with(".cc"))
    return from.module == "json" || path == "src/dra/json.h" ||
           path == "src/apiserver/object_json.h" || path == "src/library/checked_json.h";
  return !from.core ||
         IsIn(from.module, {"json", "config", "checkpoint", "scenario", "placement"}) ||
         IsIn(path, {"src/core/pod/kubernetes_pod.cc", "src/core/machine/node_json.cc",
                     "src/core/noderesourcetopology/koordinator.cc",
                     "src/core/noderesourcetopology/object.cc",
                     "src/core/noderesourcetopology/pod_placement.cc"});
}

std::string CoreSystemProblem(std::string_view header) {
  static const Names kRefused = {"atomic",     "barrier",    "chrono",    "condition_variable",
                                 "csignal",    "ctime",      "execution", "filesystem",
                                 "fstream",    "future",     "iostream",  "latch",
                                 "mutex",      "random",     "semaphore", "shared_mutex",
                                 "stop_token", "syncstream", "thread"};
  if (IsIn(header, kRefused)) return "the core has no I/O, threads, clocks or chance";
  const bool standard = header.find_first_of("./") == std::string_view::npos;
  return standard ? "" : "the core uses the standard library only";
}

// All that src uses of gRPC: a header without a library.
constexpr std::string_view kGrpcStatus = "grpcpp/support/status.h";

struct LibraryRule {
  Names prefixes;
  Names modules;          // of the edges; empty: all
  std::string_view file;  // if not empty, this one only
};

std::string EdgeSystemProblem(const Place& from, std::string_view path, std::string_view header) {
  static const std::vector<LibraryRule> kRules = {
      {.prefixes = {kGrpcStatus},
       .modules = {"rpc", "proxy", "podsource", "reconcile", "mirror", "deviceplugin", "cri",
                   "podresources", "control", "metrics", "daemon", "service"},
       .file = ""},
      {.prefixes = {"google/protobuf/"},
       .modules = {"rpc", "proxy", "podsource", "reconcile", "mirror", "deviceplugin", "cri",
                   "podresources", "control", "picture", "daemon", "cli", "events", "service"},
       .file = ""},
      {.prefixes = {"CLI/"}, .modules = {"daemon", "cli", "events", "extender"}, .file = ""},
      {.prefixes = {"prometheus/"}, .modules = {"metrics"}, .file = ""},
      {.prefixes = {"httplib.h"}, .modules = {"metrics", "apiserver", "extender"}, .file = ""},
      {.prefixes = {"yaml-cpp/"}, .modules = {}, .file = "src/host/yaml.cc"},
  };
  if (header.starts_with("grpc") && header != kGrpcStatus) return "gRPC's library is not linked";
  for (const LibraryRule& rule : kRules) {
    const bool concerned = std::ranges::any_of(
        rule.prefixes, [&](std::string_view prefix) { return header.starts_with(prefix); });
    if (!concerned) continue;
    if (!rule.modules.empty() && !IsIn(from.module, rule.modules)) {
      return "this library is not for " + std::string(from.module);
    }
    if (!rule.file.empty() && path != rule.file) return "only " + std::string(rule.file) + " may";
  }
  return "";
}

// What is wrong with an include in the file at `path`, relative to the source directory.
std::string Problem(std::string_view path, std::string_view header, bool quoted) {
  const std::optional<Place> from = PlaceOfFile(path);
  if (!from) return "the file lies in no known module";
  const bool generated = header.ends_with(".pb.h");
  if (quoted && !generated) return ModuleProblem(*from, header);
  if (header.starts_with("nlohmann/")) {
    return MayReadJson(*from, path) ? "" : "this file may not know the JSON library";
  }
  if (from->core) return CoreSystemProblem(header);
  if (!generated) return EdgeSystemProblem(*from, path, header);
  if (header.ends_with(".grpc.pb.h")) return "gRPC's library is not linked";
  return EdgeSystemProblem(*from, path, "google/protobuf/");
}

// Checks one line of a file; a line that is no #include has no problem.
std::string LineProblem(std::string_view path, std::string_view line) {
  const auto skip_blanks = [&] {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  skip_blanks();
  if (!StripPrefix(line, "#")) return "";
  skip_blanks();
  if (!StripPrefix(line, "include")) return "";
  skip_blanks();
  const bool quoted = line.starts_with('"');
  if (!quoted && !line.starts_with('<')) return "the name is not written out";
  line.remove_prefix(1);
  return Problem(path, line.substr(0, line.find(quoted ? '"' : '>')), quoted);
}

TEST(IncludeRules, HoldInEveryFile) {
  const fs::path source = ALIGND_SOURCE_DIR;
  int includes = 0;
  for (const char* const top : {"include", "src"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source / top)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc") continue;
      const std::string path = fs::relative(entry.path(), source).generic_string();
      std::ifstream in(entry.path());
      ASSERT_TRUE(in) << path;
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        EXPECT_EQ(LineProblem(path, line), "") << path << ":" << number << ": " << line;
        includes += line.starts_with("#include") ? 1 : 0;
      }
    }
  }
  EXPECT_GT(includes, 300);  // else we looked in the wrong place
}

TEST(IncludeRules, AllowWhatTheyShould) {
  struct Case {
    std::string path;
    std::string line;
  };
  const std::vector<Case> cases = {
      {"include/alignd/machine/machine.h", "#include \"alignd/base/cpu_set.h\""},
      {"include/alignd/config/kubelet_config.h", "#include \"alignd/pod/pod.h\""},
      {"src/core/cpumanager/static_policy.cc", "#include \"alignd/topologymanager/hint.h\""},
      {"src/core/admission/admission.cc", "#include \"alignd/topologymanager/policy.h\""},
      {"src/core/cpumanager/packed.cc", "#include \"core/cpumanager/cpu_accumulator.h\""},
      {"src/core/base/cpu_set.cc", "#include <algorithm>"},
      {"src/core/base/cpu_set.cc", "// #include <thread>"},
      {"src/core/checkpoint/go_json.cc", "#include <nlohmann/json.hpp>"},
      {"src/core/json/json_view.h", "#include <nlohmann/json.hpp>"},
      {"src/host/sysfs_machine.cc", "#include \"alignd/machine/machine.h\""},
      {"src/host/file.cc", "#include <fcntl.h>"},
      {"src/host/yaml.cc", "#include <yaml-cpp/yaml.h>"},
      {"src/allocation/checkpoint_store.cc", "#include \"host/file.h\""},
      {"src/cri/forwarder.h", "#include <grpcpp/support/status.h>"},
      {"src/podsource/cri_sizes.cc", "#include \"runtime/v1/cri.pb.h\""},
      {"src/daemon/daemon.cc", "#include \"cri/forwarder.h\""},
      {"src/cli/simulate_command.cc", "#include <CLI/App.hpp>"},
      {"src/metrics/http_server.cc", "#include <httplib.h>"},
      {"src/metrics/node_metrics.cc", "#include \"reconcile/conditions.h\""},
      {"src/cli/report_text.h", "#include \"alignd/control/v1/control.pb.h\""},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(LineProblem(c.path, c.line), "") << c.path << ": " << c.line;
  }
}

TEST(IncludeRules, RefuseWhatTheyShould) {
  struct Case {
    std::string path;
    std::string line;
    std::string problem;
  };
  const std::string system = "the core has no I/O, threads, clocks or chance";
  const std::string standard = "the core uses the standard library only";
  const std::vector<Case> cases = {
      {"include/alignd/base/result.h", "#include \"alignd/machine/machine.h\"",
       "base may not include machine"},
      {"include/alignd/topologymanager/hint.h", "  #  include \"alignd/cpumanager/cpu_state.h\"",
       "topologymanager may not include cpumanager"},
      {"src/core/cpumanager/static_policy.cc", "#include \"alignd/memorymanager/memory_state.h\"",
       "cpumanager may not include memorymanager"},
      {"src/core/memorymanager/static_policy.cc", "#include \"alignd/topologymanager/policy.h\"",
       "of topologymanager, managers include hint.h only"},
      {"src/core/devicemanager/device_policy.cc", "#include \"core/json/json_view.h\"",
       "decision modules use the standard library only"},
      {"include/alignd/pod/kubernetes_pod.h", "#include \"core/json/json_view.h\"",
       "private; a public header cannot have it"},
      {"src/cli/simulate_command.cc", "#include \"core/json/json_view.h\"", "private to the core"},
      {"src/core/scenario/scenario.cc", "#include \"host/file.h\"", "the core includes no edge"},
      {"src/core/pod/pod.cc", "#include \"pod.h\"", "no module of ours"},
      {"src/core/pod/pod.cc", "#include \"alignd/kitchen/pod.h\"", "no module of ours"},
      {"src/kitchen/pod.cc", "#include <string>", "the file lies in no known module"},
      {"include/pod.h", "#include <string>", "the file lies in no known module"},
      {"src/core/base/cpu_set.cc", "#include <thread>", system},
      {"src/core/base/cpu_set.cc", "#include <mutex>", system},
      {"src/core/base/cpu_set.cc", "#include <fstream>", system},
      {"src/core/base/cpu_set.cc", "#include <filesystem>", system},
      {"include/alignd/base/result.h", "#include <chrono> // now", system},
      {"src/core/base/cpu_set.cc", "#include <unistd.h>", standard},
      {"src/core/base/cpu_set.cc", "#include <sys/stat.h>", standard},
      {"src/core/base/cpu_set.cc", "#include <grpcpp/channel.h>", standard},
      {"src/core/base/cpu_set.cc", "#include <spdlog/spdlog.h>", standard},
      {"src/core/pod/kubernetes_pod.cc", "#include \"runtime/v1/cri.pb.h\"", standard},
      {"include/alignd/checkpoint/go_json.h", "#include <nlohmann/json.hpp>",
       "this file may not know the JSON library"},
      {"src/core/machine/machine.cc", "#include <nlohmann/json_fwd.hpp>",
       "this file may not know the JSON library"},
      {"src/host/config_file.h", "#include <nlohmann/json.hpp>",
       "this file may not know the JSON library"},
      {"src/core/base/cpu_set.cc", "#include CPU_SET", "the name is not written out"},
      {"src/host/file.cc", "#include \"allocation/checkpoint_store.h\"",
       "host may not include allocation"},
      {"src/cri/forwarder.cc", "#include \"control/control_server.h\"",
       "cri may not include control"},
      {"src/control/control_server.cc", "#include \"daemon/daemon.h\"",
       "control may not include daemon"},
      {"src/allocation/allocation_manager.h", "#include <grpcpp/support/status.h>",
       "this library is not for allocation"},
      {"src/cri/forwarder.h", "#include <grpcpp/channel.h>", "gRPC's library is not linked"},
      {"src/cri/forwarder.h", "#include <grpc/grpc.h>", "gRPC's library is not linked"},
      {"src/allocation/allocation_manager.cc", "#include <prometheus/counter.h>",
       "this library is not for allocation"},
      {"src/daemon/daemon.cc", "#include <httplib.h>", "this library is not for daemon"},
      {"src/metrics/node_metrics.cc", "#include \"control/reports.h\"",
       "metrics may not include control"},
      {"src/allocation/allocation_manager.cc", "#include \"deviceplugin/v1beta1/api.pb.h\"",
       "this library is not for allocation"},
      {"src/cri/forwarder.cc", "#include <CLI/App.hpp>", "this library is not for cri"},
      {"src/control/control_server.h", "#include \"alignd/control/v1/control.grpc.pb.h\"",
       "gRPC's library is not linked"},
      {"src/daemon/options.cc", "#include <yaml-cpp/yaml.h>", "only src/host/yaml.cc may"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(LineProblem(c.path, c.line), c.problem) << c.path << ": " << c.line;
  }
}

}  // namespace
}  // namespace alignd
