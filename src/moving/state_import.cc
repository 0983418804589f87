#include "moving/state_import.h"

#include <optional>
#include <string>
#include <utility>

#include "alignd/checkpoint/binding_checkpoint.h"
#include "alignd/checkpoint/convert.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "allocation/boot_record.h"
#include "host/file.h"
#include "mirror/marker.h"

namespace alignd::moving {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointKind;

constexpr char kNoDevices[] = "no-device-plugins";  // a directory that is not there

// One file of the kubelet. nullopt: there is none.
Result<std::optional<std::string>> ReadIfThere(const fs::path& path) {
  Result<std::string> text = host::ReadFile(path);
  if (text.ok()) return std::optional(*std::move(text));
  if (text.error().code == ErrorCode::kNotFound) return std::optional<std::string>();
  return text.error();
}

class ImportPlanner {
 public:
  ImportPlanner(const AligndSide& alignd, const ImportRequest& request)
      : alignd_(alignd),
        request_(request),
        own_{alignd.options.state_dir, alignd.options.DevicePluginDir()} {}

  Result<MovePlan> Run() {
    if (Result<Done> read = ReadAll(); !read.ok()) return read.error();
    CheckContent();
    if (plan_.problems.empty()) CheckAsAStart();
    if (plan_.problems.empty()) {
      const Result<Done> compared =
          AddWouldBeLost(own_, request_.devices,
                         "if the kubelet is attached to alignd already, import nothing: alignd's "
                         "own file is right; if that file is left from an earlier time, remove it, "
                         "then repeat this",
                         plan_);
      if (!compared.ok()) return compared.error();
    }
    if (!plan_.problems.empty()) return std::move(plan_);
    AddKept(alignd_.node, plan_.state, plan_);
    if (Result<Done> added = AddFiles(); !added.ok()) return added.error();
    return std::move(plan_);
  }

 private:
  Result<Done> ReadAll() {
    for (const auto& [path, text] : {std::pair{request_.from.CpuFile(), &cpu_},
                                     {request_.from.MemoryFile(), &memory_},
                                     {request_.from.DeviceFile(), &devices_}}) {
      if (text == &devices_ && !request_.devices) continue;
      Result<std::optional<std::string>> read = ReadIfThere(path);
      if (!read.ok()) return read.error();
      *text = *std::move(read);
    }
    if (cpu_ || memory_ || devices_) return Done{};
    return Error{ErrorCode::kNotFound,
                 request_.from.state_dir.string() + " has no state file of a kubelet",
                 "give --from the kubelet's root directory, or run it as root"};
  }

  void AddDamaged(const fs::path& file, const Error& error) {
    plan_.problems.push_back(
        {error.code, file.string() + ": " + error.message,
         "check it with `alignctl checkpoint verify " + file.string() + "`; " +
             (file == request_.from.DeviceFile()
                  ? "a kubelet takes no device from it either: import without the devices "
                    "(--no-devices), or drain the node and remove the file"
                  : "a kubelet does not start with it either: drain the node, and remove the "
                    "file")});
  }

  // Without the feature gate, the parts of containers would count as exclusive.
  template <typename Checkpoint>
  void RequireNoWholes(const Checkpoint& read, const fs::path& file, const char* what) {
    if (read.state.pods.empty() || PodLevelResourceManagersOn(alignd_.node.config)) return;
    for (const auto& [uid, whole] : read.state.pods) {
      plan_.problems.push_back({ErrorCode::kInvalidArgument,
                                file.string() + ": pod " + uid + " has " + what + " as a whole",
                                "turn on the feature gate PodLevelResourceManagers for alignd, or "
                                "let this pod end under the kubelet first"});
    }
  }

  void CheckContent() {
    if (cpu_) {
      const fs::path file = request_.from.CpuFile();
      const auto read = checkpoint::ParseCpuCheckpoint(*cpu_);
      if (!read.ok()) AddDamaged(file, read.error());
      if (read.ok()) RequireNoWholes(*read, file, "CPUs");
    }
    if (memory_) {
      const fs::path file = request_.from.MemoryFile();
      const auto read = checkpoint::ParseMemoryCheckpoint(*memory_);
      if (!read.ok()) AddDamaged(file, read.error());
      if (read.ok()) RequireNoWholes(*read, file, "memory");
    }
    if (!cpu_ && alignd_.node.cpu) {
      plan_.problems.push_back(
          {ErrorCode::kNotFound,
           request_.from.CpuFile().string() +
               " is missing: which CPUs the running containers have is not known",
           "if it was moved to alignd before, import nothing; otherwise start the kubelet once, "
           "which writes the file"});
    }
    if (!devices_) return;
    const fs::path file = request_.from.DeviceFile();
    const auto read = checkpoint::ParseDeviceCheckpoint(*devices_);
    if (!read.ok()) return AddDamaged(file, read.error());
    for (const auto& [key, resources] : read->allocations) {
      for (const auto& [resource, allocation] : resources) {
        if (!mirror::HasMarker(allocation.response)) continue;
        plan_.problems.push_back(
            {ErrorCode::kInvalidArgument,
             file.string() + ": what pod " + key.pod_uid + " container " + key.container +
                 " has of " + resource + " is a placeholder of alignd's mirror",
             "alignd's own file has its devices: import without the devices (--no-devices)"});
      }
    }
  }

  // The files lie where a start with this directory would look for them; nothing is written.
  void CheckAsAStart() {
    const allocation::StatePaths paths{
        request_.from.state_dir,
        request_.devices ? request_.from.device_plugin_dir : request_.from.state_dir / kNoDevices};
    for (const allocation::FileProblem& problem : LoadFiles(alignd_.node, paths, plan_)) {
      plan_.problems.push_back(
          {problem.error.code, problem.error.message,
           "give alignd the policies and reservations with which the kubelet has written " +
               problem.file.string() + " (" + ConfigName() +
               "); if the machine has changed since, drain the node and remove the file"});
    }
  }

  std::string ConfigName() const {
    return alignd_.options.config.empty() ? "alignd has no configuration file"
                                          : alignd_.options.config.string();
  }

  Result<Done> AddConverted(CheckpointKind kind, const std::optional<std::string>& text,
                            const fs::path& to) {
    if (!text) return Done{};
    Result<std::optional<std::string>> converted = checkpoint::Convert(
        kind, *text, checkpoint::ReleaseOf(checkpoint::FormOf(alignd_.node.config)));
    if (!converted.ok()) return converted.error();
    return AddChange(to, *std::move(converted), plan_);
  }

  Result<Done> AddFiles() {
    const fs::path& state_dir = alignd_.options.state_dir;
    Result<Done> added = AddConverted(CheckpointKind::kDevice, devices_, own_.DeviceFile());
    if (added.ok()) added = AddConverted(CheckpointKind::kMemory, memory_, own_.MemoryFile());
    if (added.ok()) added = AddConverted(CheckpointKind::kCpu, cpu_, own_.CpuFile());
    for (const std::string_view name : {checkpoint::kOriginalsFileName, checkpoint::kSharesFileName,
                                        checkpoint::kBindingFileName, allocation::kBootFileName}) {
      // Without the devices, alignd keeps those that it has, and their bindings.
      if (name == checkpoint::kBindingFileName && !request_.devices) continue;
      if (added.ok()) added = AddChange(state_dir / name, std::nullopt, plan_);
    }
    for (const fs::path& file : {request_.from.MemoryFile(), request_.from.CpuFile()}) {
      if (request_.removes_source && added.ok()) added = AddChange(file, std::nullopt, plan_);
    }
    return added;
  }

  const AligndSide& alignd_;
  const ImportRequest& request_;
  const allocation::StatePaths own_;
  MovePlan plan_;
  std::optional<std::string> cpu_;
  std::optional<std::string> memory_;
  std::optional<std::string> devices_;
};

}  // namespace

Result<MovePlan> PlanImport(const AligndSide& alignd, const ImportRequest& request) {
  return ImportPlanner(alignd, request).Run();
}

}  // namespace alignd::moving
