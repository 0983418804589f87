#include "moving/state_export.h"

#include <filesystem>
#include <string>
#include <utility>

#include "alignd/admission/transition.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/devicemanager/device_policy.h"
#include "allocation/boot_record.h"
#include "daemon/managed_node.h"
#include "host/file.h"
#include "moving/device_merge.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointKind;

// The device checkpoint; nullopt: there is none.
Result<std::optional<checkpoint::DeviceCheckpoint>> ReadDevices(const fs::path& file) {
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return std::optional<checkpoint::DeviceCheckpoint>();
  }
  if (!text.ok()) return text.error();
  Result<checkpoint::DeviceCheckpoint> read = checkpoint::ParseDeviceCheckpoint(*text);
  if (!read.ok()) return host::ContentError(read.error(), file);
  return std::optional(*std::move(read));
}

class ExportPlanner {
 public:
  ExportPlanner(const AligndSide& alignd, const ExportRequest& request)
      : alignd_(alignd),
        request_(request),
        own_{alignd.options.state_dir, alignd.options.DevicePluginDir()} {}

  Result<MovePlan> Run() {
    std::error_code fault;
    if (!fs::exists(own_.CpuFile(), fault) && !fs::exists(own_.MemoryFile(), fault) &&
        !fs::exists(own_.DeviceFile(), fault)) {
      return Error{ErrorCode::kNotFound, own_.state_dir.string() + " has no state file of alignd",
                   "give --state-dir, or run it as root"};
    }
    RequireFile(own_.CpuFile(), alignd_.node.cpu.has_value(), "CPUs");
    RequireFile(own_.MemoryFile(), alignd_.node.memory.has_value(), "memory");
    if (!Load()) return std::move(plan_);
    NoteOriginals();
    PlanChange();
    if (plan_.problems.empty()) {
      const Result<Done> compared = AddWouldBeLost(
          request_.to, /*devices=*/false,
          "if the kubelet has managed this node since, export nothing: its own file is right; if "
          "that file is left from an earlier time, remove it, then repeat this",
          plan_);
      if (!compared.ok()) return compared.error();
      if (Result<Done> added = AddFiles(); !added.ok()) return added.error();
    }
    return std::move(plan_);
  }

 private:
  // A missing file would count as a node on which nothing is assigned.
  void RequireFile(const fs::path& file, bool manages, const char* what) {
    std::error_code fault;
    if (!manages || fs::exists(file, fault)) return;
    plan_.problems.push_back(
        {ErrorCode::kNotFound,
         file.string() + " is missing: which " + what + " the running containers have is not known",
         "start alignd once, which rebuilds the file from the containers"});
  }

  bool Load() {
    for (allocation::FileProblem& problem : LoadFiles(alignd_.node, own_, plan_)) {
      plan_.problems.push_back(std::move(problem.error));
    }
    return plan_.problems.empty();
  }

  void NoteOriginals() {
    for (const auto& [uid, containers] : plan_.state.cpu.originals) {
      for (const auto& [name, cpus] : containers) {
        if (cpus.empty()) continue;  // it does not keep those that it was created with
        const CpuSet* const now = plan_.state.cpu.Find({uid, name});
        if (now != nullptr && *now == cpus) continue;
        plan_.notes.push_back("pod " + uid + " container " + name +
                              ": the kubelet has its present CPUs, and does not know that it was "
                              "created with CPUs " +
                              cpus.ToString());
      }
    }
  }

  // The kubelet as a node. A machine of alignd's own: the release decides only about the files.
  Result<admission::Node> KubeletNode() const {
    if (!request_.kubelet) return alignd_.node;
    if (request_.kubelet->topology_manager_policy == TopologyManagerPolicy::kBestAttainable) {
      return Error{ErrorCode::kInvalidArgument,
                   "topologyManagerPolicy best-attainable is alignd's own: no kubelet starts with "
                   "it",
                   "set another topologyManagerPolicy for the kubelet"};
    }
    KubeletConfig config = *request_.kubelet;
    config.compatibility = alignd_.node.config.compatibility;
    return admission::Node::Make(alignd_.node.machine, std::move(config));
  }

  void PlanChange() {
    const Result<admission::Node> kubelet = KubeletNode();
    if (!kubelet.ok()) {
      Error problem = kubelet.error().In("the kubelet would not start with its configuration");
      if (problem.remedy.empty()) problem.remedy = "correct the kubelet's configuration";
      plan_.problems.push_back(std::move(problem));
      return;
    }
    if (!request_.kubelet) {
      plan_.notes.push_back(
          "the kubelet's configuration is not known: its policies and reservations must be "
          "alignd's");
    }
    RequireSamePolicies(*kubelet);
    admission::Transition change =
        PlanTransition(alignd_.node, *kubelet, plan_.state, admission::MayMove::kNever);
    for (std::string& fault : change.faults) {
      plan_.problems.push_back({ErrorCode::kInvalidArgument, std::move(fault), Remedy()});
    }
    for (const admission::ContainerTransition& container : change.containers) {
      if (container.fate == admission::Fate::kStays) continue;
      plan_.problems.push_back({ErrorCode::kInvalidArgument,
                                "pod " + container.key.pod_uid + " container " +
                                    container.key.container +
                                    " cannot stay where it is under the kubelet: " + container.why,
                                Remedy()});
    }
    if (!plan_.problems.empty()) return;
    plan_.state = std::move(change.next);
    AddKept(*kubelet, plan_.state, plan_);
    node_ = *kubelet;
  }

  // A kubelet does not start with files of another policy.
  void RequireSamePolicies(const admission::Node& kubelet) {
    const KubeletConfig& ours = alignd_.node.config;
    const auto require = [&](const char* field, std::string_view now, std::string_view then) {
      if (now == then) return;
      plan_.problems.push_back({ErrorCode::kInvalidArgument,
                                std::string("the kubelet has ") + field + ": " + std::string(then) +
                                    ", alignd has " + std::string(now) +
                                    ": it would not start with alignd's files",
                                std::string("set ") + field + ": " + std::string(now) +
                                    " in the kubelet's configuration, without restarting it"});
    };
    require("cpuManagerPolicy", ToString(ours.cpu_manager_policy),
            ToString(kubelet.config.cpu_manager_policy));
    if (request_.release == checkpoint::KubeletRelease::k1_20) return;
    require("memoryManagerPolicy", ToString(ours.memory_manager_policy),
            ToString(kubelet.config.memory_manager_policy));
  }

  static std::string Remedy() {
    return "give the kubelet alignd's policies, scope, options and reservations, or let these pods "
           "end first";
  }

  Result<Done> AddConverted(CheckpointKind kind, const std::string& text, const fs::path& to) {
    Result<std::optional<std::string>> converted = Convert(kind, text, request_.release);
    if (!converted.ok()) {
      plan_.problems.push_back(converted.error());
      return Done{};
    }
    if (*converted) return AddChange(to, *std::move(converted), plan_);
    plan_.notes.push_back(to.string() + " is not written: that kubelet has no such file");
    return Done{};
  }

  Result<Done> AddDevices() {
    const auto ours = ReadDevices(own_.DeviceFile());
    if (!ours.ok()) return ours.error();
    const auto theirs = ReadDevices(request_.to.DeviceFile());
    if (!theirs.ok()) return theirs.error();
    if (!*ours && !*theirs) return Done{};
    if (!*ours && HasPlaceholder(**theirs)) {
      plan_.problems.push_back(
          {ErrorCode::kNotFound,
           own_.DeviceFile().string() + " is missing, and the kubelet's file has placeholders of "
                                        "alignd's mirror: which devices the containers have is "
                                        "not known",
           "give --device-plugin-dir, or start alignd once, which writes the file"});
      return Done{};
    }
    MergedState merged = MergedDevices(ours->value_or(checkpoint::DeviceCheckpoint{}),
                                       theirs->value_or(checkpoint::DeviceCheckpoint{}));
    for (std::string& note : merged.left_out) plan_.notes.push_back(std::move(note));
    for (const std::string& broken : devicemanager::BrokenInvariants(merged.state)) {
      plan_.problems.push_back(
          {ErrorCode::kInvalidArgument,
           "alignd's devices and those of the kubelet's own plugins: " + broken,
           "delete one of the pods, then repeat this"});
    }
    return AddChange(request_.to.DeviceFile(), checkpoint::FormatDeviceCheckpoint(merged.state),
                     plan_);
  }

  Result<Done> AddFiles() {
    const KubeletConfig& config = node_->config;
    const checkpoint::StateForm form = checkpoint::FormOf(alignd_.node.config);
    Result<Done> added = AddDevices();
    if (added.ok()) {
      added = AddConverted(CheckpointKind::kMemory,
                           checkpoint::FormatMemoryCheckpoint(
                               ToString(config.memory_manager_policy), plan_.state.memory, form),
                           request_.to.MemoryFile());
    }
    if (added.ok()) {
      added = AddConverted(CheckpointKind::kCpu,
                           checkpoint::FormatCpuCheckpoint(ToString(config.cpu_manager_policy),
                                                           plan_.state.cpu, form),
                           request_.to.CpuFile());
    }
    if (!request_.removes_source) return added;
    for (const fs::path& file :
         {own_.state_dir / allocation::kBootFileName, own_.state_dir / checkpoint::kBindingFileName,
          own_.OriginalsFile(), own_.SharesFile(), own_.DeviceFile(), own_.MemoryFile(),
          own_.CpuFile()}) {
      if (added.ok()) added = AddChange(file, std::nullopt, plan_);
    }
    return added;
  }

  const AligndSide& alignd_;
  const ExportRequest& request_;
  const allocation::StatePaths own_;
  std::optional<admission::Node> node_;  // the kubelet's
  MovePlan plan_;
};

}  // namespace

Result<MovePlan> PlanExport(const AligndSide& alignd, const ExportRequest& request) {
  return ExportPlanner(alignd, request).Run();
}

}  // namespace alignd::moving
