#include "simulator/kubelet_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "host/file.h"
#include "simulator/grpc_socket.h"
#include "simulator/kubelet.h"
#include "simulator/pods_api.h"

namespace alignd::simulator {
namespace {

struct KubeletCommandOptions {
  std::string endpoint;
  std::string cgroup_root;
  std::string cgroup_driver = "cgroupfs";
  std::string log_directory;
  std::string pods_api;  // socket; empty: not served
  std::string pods_api_stage = "ready";
  bool no_annotation = false;
  int64_t timeout_seconds = 120;
  int64_t grace_seconds = 1;
  std::vector<std::string> manifests;
  std::vector<std::string> pods;
  std::string pod;
  std::string container;  // empty: the pod's only running container
  std::vector<std::string> command;
  int64_t cpus = 0;
  int64_t from_cpus = 0;
};

using Options = std::shared_ptr<KubeletCommandOptions>;
using Work = Result<Done> (*)(Kubelet&, const KubeletCommandOptions&, std::ostream&);

// The first digits, or of an id of the simulated runtime the last, in which its ids differ.
std::string ShortId(const std::string& id) {
  constexpr size_t kDigits = 12;
  const std::string first = id.substr(0, kDigits);
  return first.find_first_not_of('0') != std::string::npos || id.size() <= kDigits
             ? first
             : "…" + id.substr(id.size() - 4);
}

std::string CpusText(const std::string& cpuset) {
  return cpuset.empty() ? "any CPUs" : "CPUs " + cpuset;
}

const char* StateName(runtime::v1::ContainerState state) {
  switch (state) {
    case runtime::v1::CONTAINER_CREATED:
      return "created";
    case runtime::v1::CONTAINER_RUNNING:
      return "running";
    case runtime::v1::CONTAINER_EXITED:
      return "exited";
    default:
      return "unknown";
  }
}

// False if a container was refused or failed.
Result<bool> RunOne(Kubelet& kubelet, const PodManifest& manifest, std::ostream& out) {
  const Result<Kubelet::RunPod> run = kubelet.Run(manifest);
  const std::string pod = manifest.pod.name_space + "/" + manifest.pod.name;
  if (!run.ok()) return run.error().In(pod);
  for (const auto& [name, id] : run->containers) {
    out << pod << " " << name << ": ";
    if (!id.ok()) {
      out << "not running: " << id.error().Text() << std::endl;
      return false;
    }
    const Result<runtime::v1::ContainerStatus> status = kubelet.Status(*id);
    if (!status.ok()) return status.error();
    out << StateName(status->state()) << " as " << ShortId(*id) << " on "
        << CpusText(status->resources().linux().cpuset_cpus()) << std::endl;
  }
  return true;
}

Result<Done> RunPods(Kubelet& kubelet, const KubeletCommandOptions& options, std::ostream& out) {
  std::unique_ptr<PodsApi> api;
  if (!options.pods_api.empty()) {
    Result<std::unique_ptr<PodsApi>> started = PodsApi::Start(options.pods_api);
    if (!started.ok()) return started.error();
    api = *std::move(started);
    api->LimitRate();
    if (options.pods_api_stage == "not-ready") api->SetStage(PodsApi::Stage::kNotReady);
    if (options.pods_api_stage == "off") api->SetStage(PodsApi::Stage::kGateIsOff);
  }
  bool all = true;
  for (const std::string& path : options.manifests) {
    const Result<std::string> text = host::ReadFile(path);
    if (!text.ok()) return text.error();
    const Result<PodManifest> manifest = ParsePodManifest(*text);
    if (!manifest.ok()) return manifest.error().In(path);
    if (api) api->SetPod(manifest->pod);
    const Result<bool> ran = RunOne(kubelet, *manifest, out);
    if (!ran.ok()) return ran.error();
    all = all && *ran;
  }
  if (!all) return Error{ErrorCode::kUnavailable, "not all containers are running"};
  return Done{};
}

bool IsNamed(const ListedPod& pod, const std::string& wanted) {
  return wanted == pod.name || wanted == pod.uid || wanted == pod.name_space + "/" + pod.name;
}

Result<Done> RemovePods(Kubelet& kubelet, const KubeletCommandOptions& options, std::ostream& out) {
  const Result<std::vector<ListedPod>> pods = kubelet.List();
  if (!pods.ok()) return pods.error();
  for (const std::string& wanted : options.pods) {
    bool found = false;
    for (const ListedPod& pod : *pods) {
      if (!IsNamed(pod, wanted)) continue;
      found = true;
      const Result<Done> removed = kubelet.Remove(pod, std::chrono::seconds(options.grace_seconds));
      if (!removed.ok()) return removed.error().In(wanted);
      out << pod.name_space << "/" << pod.name << ": removed" << std::endl;
    }
    if (!found) return Error{ErrorCode::kNotFound, wanted + ": no such pod"};
  }
  return Done{};
}

Result<Done> ListPods(Kubelet& kubelet, const KubeletCommandOptions&, std::ostream& out) {
  const Result<std::vector<ListedPod>> pods = kubelet.List();
  if (!pods.ok()) return pods.error();
  for (const ListedPod& pod : *pods) {
    out << pod.name_space << "/" << pod.name << " (uid " << pod.uid
        << "): " << (pod.ready ? "ready" : "stopped") << '\n';
    for (const ListedPod::Container& container : pod.containers) {
      out << "  " << container.name << ": " << StateName(container.state) << " as "
          << ShortId(container.id) << " on " << CpusText(container.cpuset) << '\n';
    }
  }
  return Done{};
}

// The id of the pod's running container of that name, or without a name of its only running one.
Result<std::string> FindRunning(const std::vector<ListedPod>& pods, const std::string& pod_name,
                                const std::string& container_name) {
  std::vector<std::string> found;
  for (const ListedPod& pod : pods) {
    if (!IsNamed(pod, pod_name)) continue;
    for (const ListedPod::Container& container : pod.containers) {
      if (container.state != runtime::v1::CONTAINER_RUNNING) continue;
      if (!container_name.empty() && container.name != container_name) continue;
      found.push_back(container.id);
    }
  }
  if (found.empty()) return Error{ErrorCode::kNotFound, pod_name + ": no such running container"};
  if (found.size() > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 pod_name + ": " + std::to_string(found.size()) + " containers run",
                 "name one with --container, and the pod by its uid"};
  }
  return found.front();
}

Result<Done> ExecInPod(Kubelet& kubelet, const KubeletCommandOptions& options, std::ostream& out) {
  const Result<std::vector<ListedPod>> pods = kubelet.List();
  if (!pods.ok()) return pods.error();
  const Result<std::string> id = FindRunning(*pods, options.pod, options.container);
  if (!id.ok()) return id.error();
  const Result<std::string> output = kubelet.Exec(*id, options.command);
  if (!output.ok()) return output.error();
  out << *output << std::flush;
  return Done{};
}

Result<Done> ResizePod(Kubelet& kubelet, const KubeletCommandOptions& options, std::ostream& out) {
  const Result<std::vector<ListedPod>> pods = kubelet.List();
  if (!pods.ok()) return pods.error();
  for (const ListedPod& pod : *pods) {
    if (!pod.ready || !IsNamed(pod, options.pod)) continue;
    const Result<Done> resized =
        kubelet.Resize(pod, options.container, options.cpus, options.from_cpus);
    if (!resized.ok()) return resized.error().In(options.pod);
    out << pod.name_space << "/" << pod.name << " " << options.container << ": resized to "
        << options.cpus << " CPUs" << std::endl;
    return Done{};
  }
  return Error{ErrorCode::kNotFound, options.pod + ": no such pod"};
}

void OnChosen(CLI::App* command, const Options& options, Action& action, Work work) {
  command->callback([options, &action, work] {
    action = [options, work](std::ostream& out) -> Result<Done> {
      const auto channel = Dial(options->endpoint);
      if (!channel.ok()) return channel.error();
      Kubelet kubelet(*channel,
                      {.cgroup_root = options->cgroup_root,
                       .log_directory = options->log_directory,
                       .annotate_resources = !options->no_annotation,
                       .systemd_cgroups = options->cgroup_driver == "systemd"},
                      std::chrono::seconds(options->timeout_seconds));
      return work(kubelet, *options, out);
    };
  });
}

}  // namespace

void AddKubeletCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<KubeletCommandOptions>();
  CLI::App* const command = app.add_subcommand(
      "kubelet", "The kubelet's side of CRI: runs, removes and lists pods through a CRI socket");
  command->require_subcommand(1);
  command->add_option("--cri", options->endpoint, "The CRI socket of alignd or of a runtime")
      ->type_name("SOCKET")
      ->required();
  command
      ->add_option("--cgroup-root", options->cgroup_root,
                   "Cgroup above kubepods, such as /trial (default: none)")
      ->type_name("PATH");
  command
      ->add_option("--cgroup-driver", options->cgroup_driver,
                   "How the pods' cgroups are named; systemd: without --cgroup-root")
      ->check(CLI::IsMember({"cgroupfs", "systemd"}))
      ->capture_default_str();
  command
      ->add_option("--log-dir", options->log_directory,
                   "Directory of the containers' logs (default: no logs)")
      ->type_name("DIR");
  command->add_option("--timeout", options->timeout_seconds, "Timeout of a call in seconds")
      ->capture_default_str();

  CLI::App* const run = command->add_subcommand("run", "Run pods; running pods are not changed");
  run->add_option("manifest", options->manifests, "Pod manifests, YAML or JSON, one pod each")
      ->required();
  run->add_flag("--no-annotation", options->no_annotation,
                "Do not add the annotation alignd.io/resources to pods");
  run->add_option(
         "--pods-api", options->pods_api,
         "Serve the kubelet's Pods API on this socket until the pods run (default: not served)")
      ->type_name("SOCKET");
  run->add_option("--pods-api-stage", options->pods_api_stage,
                  "What that API answers: pods, or as before the kubelet is ready, or as with its "
                  "feature gate off")
      ->check(CLI::IsMember({"ready", "not-ready", "off"}))
      ->capture_default_str();
  OnChosen(run, options, action, RunPods);

  CLI::App* const remove = command->add_subcommand("remove", "Stop and remove pods");
  remove->add_option("pod", options->pods, "Names or uids")->required();
  remove->add_option("--grace", options->grace_seconds, "Seconds between SIGTERM and SIGKILL")
      ->capture_default_str();
  OnChosen(remove, options, action, RemovePods);

  CLI::App* const exec = command->add_subcommand("exec", "Run a command in a pod's container");
  exec->add_option("pod", options->pod, "Name or uid")->required();
  exec->add_option("command", options->command, "The command, after --")->required();
  exec->add_option("--container", options->container, "The container, if several are running")
      ->type_name("NAME");
  OnChosen(exec, options, action, ExecInPod);

  CLI::App* const resize = command->add_subcommand(
      "resize", "Change the CPUs of a running container, with the calls of an in-place resize");
  resize->add_option("pod", options->pod, "Name or uid")->required();
  resize->add_option("container", options->container, "The container")->required();
  resize->add_option("cpus", options->cpus, "The number of CPUs: its request and its limit")
      ->required()
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000}));
  resize->add_option("--from", options->from_cpus,
                     "The CPUs that it has now, if the runtime does not report them");
  OnChosen(resize, options, action, ResizePod);

  OnChosen(command->add_subcommand("list", "List pods and containers"), options, action, ListPods);
}

}  // namespace alignd::simulator
