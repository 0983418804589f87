#include "cli/checkpoint_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "cli/output.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

using checkpoint::CheckpointKind;
using checkpoint::Verification;

struct VerifyOptions {
  std::vector<std::string> files;
  std::string output = "text";
  std::string kind = "guess";
};

const std::map<std::string, CheckpointKind>& KindsByName() {
  static const std::map<std::string, CheckpointKind> kinds = {
      {"cpu", CheckpointKind::kCpu},
      {"memory", CheckpointKind::kMemory},
      {"device", CheckpointKind::kDevice},
  };
  return kinds;
}

template <typename T>
Result<Done> DoneOrError(const Result<T>& result) {
  if (!result.ok()) return result.error();
  return Done{};
}

// What the checksum does not cover: CPU lists, node ids.
Result<Done> CheckContent(CheckpointKind kind, std::string_view text) {
  switch (kind) {
    case CheckpointKind::kCpu:
      return DoneOrError(checkpoint::ParseCpuCheckpoint(text));
    case CheckpointKind::kMemory:
      return DoneOrError(checkpoint::ParseMemoryCheckpoint(text));
    case CheckpointKind::kDevice:
      break;
  }
  return DoneOrError(checkpoint::ParseDeviceCheckpoint(text));
}

std::string Summary(const Verification& verified) {
  std::string text(checkpoint::FileNameOf(verified.kind));
  text += " version " + std::to_string(verified.version);
  if (verified.kind != CheckpointKind::kDevice)
    text += ", policy " + checkpoint::GoQuoted(verified.policy_name);
  text += ", " + std::to_string(verified.entries);
  text += verified.kind == CheckpointKind::kDevice ? " allocation" : " container";
  if (verified.entries != 1) text += 's';
  if (verified.pods > 0) {
    text += ", " + std::to_string(verified.pods) + (verified.pods == 1 ? " pod" : " pods");
    text += " as a whole";
  }
  const std::string computed = std::to_string(verified.computed_checksum);
  if (verified.stored_checksum == 0) {
    return text + ", unchecked: it has no checksum (its content has " + computed + ")";
  }
  // A file with two parts has one of each, under these names.
  const bool has_data =
      verified.kind != CheckpointKind::kDevice &&
      verified.version == checkpoint::VersionOf(verified.kind, checkpoint::StateForm::kData);
  if (has_data) {
    text += ", checksum " + std::to_string(verified.plain_checksum) + ", dataChecksum " + computed;
  } else {
    text += ", checksum " + computed;
  }
  if (!verified.plain_part_agrees) {
    text += "; the part for kubelets before 1.37 is damaged or differs: they cannot use this file";
  }
  return text;
}

Result<std::string> VerifyFile(const std::string& path, std::optional<CheckpointKind> kind) {
  const Result<std::string> text = host::ReadFileOrPipe(path);
  if (!text.ok()) return text.error();
  if (!kind) kind = checkpoint::KindOfFileName(path);
  if (!kind) kind = checkpoint::KindOfText(*text);
  if (!kind) {
    return Error{ErrorCode::kInvalidArgument,
                 "neither its name nor its content shows which state file it is", "give --kind"};
  }
  const Result<std::string> summary = CheckStateFile(*kind, *text);
  if (summary.ok()) return summary;
  Error error = summary.error();
  error.remedy = RemedyForReader(path, *kind, error.remedy);
  return error;
}

struct VerifiedFile {
  std::string path;
  Result<std::string> summary;

  std::string Remedy() const {
    const std::string& remedy = summary.error().remedy;
    return remedy.empty() ? "see docs/troubleshooting.md before you remove it" : remedy;
  }
};

void PrintVerified(const VerifiedFile& file, std::ostream& out) {
  if (file.summary.ok()) {
    out << file.path << ": ok: " << *file.summary << '\n';
    return;
  }
  out << file.path << ": bad: " << file.summary.error().message << '\n'
      << "  " << file.Remedy() << '\n';
}

std::string VerifiedJson(const std::vector<VerifiedFile>& files) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const VerifiedFile& file : files) {
    const bool is_ok = file.summary.ok();
    json.push_back({{"file", file.path},
                    {"ok", is_ok},
                    {"message", is_ok ? *file.summary : file.summary.error().message},
                    {"remedy", is_ok ? "" : file.Remedy()}});
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<int> Verify(const VerifyOptions& options, std::ostream& out) {
  std::optional<CheckpointKind> kind;
  if (const auto stated = KindsByName().find(options.kind); stated != KindsByName().end()) {
    kind = stated->second;
  }
  int status = kSuccess;
  std::vector<VerifiedFile> files;
  for (const std::string& path : options.files) {
    files.push_back({path, VerifyFile(path, kind)});
    if (!files.back().summary.ok()) status = kFailure;
  }
  if (IsData(options.output)) {
    out << AsData(VerifiedJson(files), options.output);
  } else {
    for (const VerifiedFile& file : files) PrintVerified(file, out);
  }
  return status;
}

}  // namespace

// The core's remedy is that of the kubelet: drain the node, and delete the file. alignd rebuilds
// its own file while containers run, and needs neither.
std::string RemedyForReader(const std::string& path, CheckpointKind kind,
                            const std::string& remedy) {
  constexpr std::string_view kOfAlignd =
      "start alignd with --on-bad-state=rebuild (its default), which rebuilds it from the running "
      "containers; do not delete it, and drain nothing";
  const std::string_view of_kubelet = checkpoint::RemedyOf(kind);
  if (!remedy.ends_with(of_kubelet)) return remedy;
  std::error_code fault;
  const std::string file = std::filesystem::weakly_canonical(path, fault).string();
  const std::string before = remedy.substr(0, remedy.size() - of_kubelet.size());
  const std::string kubelets = "drain this node, and delete the file before the kubelet starts";
  if (file.starts_with("/var/lib/alignd/")) return before + std::string(kOfAlignd);
  // alignd can have its devices there, too: --device-plugin-dir.
  if (file.starts_with("/var/lib/kubelet/") && kind != CheckpointKind::kDevice) {
    return before + kubelets;
  }
  return before + "if it is alignd's file: " + std::string(kOfAlignd) +
         "; if it is the kubelet's: " + kubelets;
}

Result<std::string> CheckStateFile(CheckpointKind kind, std::string_view text) {
  const Result<Verification> verified = checkpoint::VerifyCheckpoint(kind, text);
  if (!verified.ok()) return verified.error();
  const Result<Done> content = CheckContent(kind, text);
  if (!content.ok()) return content.error();
  return Summary(*verified);
}

void AddCheckpointCommand(CLI::App& app, Action& action) {
  CLI::App* const group =
      app.add_subcommand("checkpoint", "Check the state files of the kubelet and of alignd");
  group->require_subcommand(1);
  const auto options = std::make_shared<VerifyOptions>();
  CLI::App* const command = group->add_subcommand(
      "verify", "Check files' checksums and content; exit status 1 if any of them is bad");
  command->add_option("files", options->files, "cpu_manager_state and the like")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--kind", options->kind,
                   "What the files are; guessed from their names, then from their content")
      ->check(CLI::IsMember({"cpu", "memory", "device", "guess"}))
      ->capture_default_str();
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl checkpoint verify /var/lib/alignd/cpu_manager_state"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return Verify(*options, out); };
  });
}

}  // namespace alignd::cli
