#include "cli/state_convert.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "alignd/checkpoint/convert.h"
#include "alignd/checkpoint/originals_checkpoint.h"
#include "cli/output.h"
#include "host/durable_file.h"
#include "host/file.h"

namespace alignd::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::CheckpointKind;

struct ConvertOptions {
  std::string release;
  std::string from = "/var/lib/alignd";
  std::string device_plugin_dir;
  std::string to;
};

struct ConvertedFile {
  fs::path from;
  fs::path to;
  std::optional<std::string> text;  // nullopt: the release has no such file
};

// nullopt: there is no such file.
Result<std::optional<ConvertedFile>> ConvertFile(CheckpointKind kind, const fs::path& from,
                                                 const fs::path& to,
                                                 checkpoint::KubeletRelease release) {
  const std::string name(checkpoint::FileNameOf(kind));
  ConvertedFile file{from / name, to / name, std::nullopt};
  const Result<std::string> text = host::ReadFile(file.from);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) {
    return std::optional<ConvertedFile>();
  }
  if (!text.ok()) return text.error();
  std::error_code fault;
  if (fs::exists(fs::symlink_status(file.to, fault))) {
    return Error{ErrorCode::kInvalidArgument, file.to.string() + " exists, and is not replaced",
                 "give --out a directory without state files"};
  }
  Result<std::optional<std::string>> converted = checkpoint::Convert(kind, *text, release);
  if (!converted.ok()) return host::ContentError(converted.error(), file.from);
  file.text = *std::move(converted);
  return std::optional(std::move(file));
}

// What is in no file of any kubelet.
Result<Done> NoteOriginals(const fs::path& state_dir, std::ostream& out) {
  const fs::path file = state_dir / checkpoint::kOriginalsFileName;
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok() && text.error().code == ErrorCode::kNotFound) return Done{};
  if (!text.ok()) return text.error();
  const Result<checkpoint::Originals> originals = checkpoint::ParseOriginalsCheckpoint(*text);
  if (!originals.ok()) return host::ContentError(originals.error(), file);
  const bool any = std::ranges::any_of(*originals, [](const auto& pod) {
    return std::ranges::any_of(pod.second, [](const auto& entry) { return !entry.second.empty(); });
  });
  if (!any) return Done{};
  out << "note: a kubelet does not know with which CPUs resized containers were created ("
      << file.string() << "); it has their present CPUs\n";
  return Done{};
}

// All files are converted before the first one is written.
Result<int> ConvertState(const ConvertOptions& options, std::ostream& out) {
  const std::optional<checkpoint::KubeletRelease> release =
      checkpoint::ParseKubeletRelease(options.release);
  if (!release) {
    return Error{ErrorCode::kInvalidArgument, "unknown release " + options.release,
                 "give --to one of those that --help lists"};
  }
  const fs::path from(options.from);
  const fs::path to(options.to);
  const fs::path devices_from = options.device_plugin_dir.empty()
                                    ? from / "device-plugins"
                                    : fs::path(options.device_plugin_dir);
  const fs::path devices_to = to / "device-plugins";
  const std::array<std::pair<CheckpointKind, std::pair<fs::path, fs::path>>, 3> places{{
      {CheckpointKind::kCpu, {from, to}},
      {CheckpointKind::kMemory, {from, to}},
      {CheckpointKind::kDevice, {devices_from, devices_to}},
  }};
  std::vector<ConvertedFile> files;
  for (const auto& [kind, place] : places) {
    Result<std::optional<ConvertedFile>> file =
        ConvertFile(kind, place.first, place.second, *release);
    if (!file.ok()) return file.error();
    if (*file) files.push_back(**std::move(file));
  }
  if (files.empty()) {
    return Error{ErrorCode::kNotFound, from.string() + " has no state file that can be read",
                 "give --state-dir, or run it as root"};
  }
  const Result<Done> noted = NoteOriginals(from, out);
  if (!noted.ok()) return noted.error();
  for (const ConvertedFile& file : files) {
    if (!file.text) {
      out << file.from.string() << ": left out: kubelet " << options.release
          << " has no such file, and it assigns nothing\n";
      continue;
    }
    Result<Done> written = host::MakeDirectory(file.to.parent_path());
    if (written.ok()) written = host::ReplaceFile(file.to, *file.text);
    if (!written.ok()) return written.error();
    out << file.from.string() << " -> " << file.to.string() << '\n';
  }
  return kSuccess;
}

}  // namespace

void AddStateConvert(CLI::App& state, Action& action) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* const command = state.add_subcommand(
      "convert",
      "Write the state files in the form of another kubelet release, to another directory; what "
      "that release cannot keep is refused. Stop the program that writes them first");
  command
      ->add_option(
          "--to", options->release,
          "The kubelet release that is to read them; 1.24 stands for 1.21 to 1.35, 1.36-pod-level "
          "for 1.36 with the feature gate PodLevelResourceManagers")
      ->check(CLI::IsMember({"1.20", "1.24", "1.36", "1.36-pod-level", "1.37"}))
      ->required();
  command
      ->add_option("--state-dir", options->from,
                   "Directory of cpu_manager_state and memory_manager_state: alignd's or a "
                   "kubelet's")
      ->type_name("DIR")
      ->capture_default_str();
  command
      ->add_option("--device-plugin-dir", options->device_plugin_dir,
                   "Directory of kubelet_internal_checkpoint; if not given, device-plugins in the "
                   "state directory")
      ->type_name("DIR");
  command
      ->add_option("--out", options->to,
                   "Directory for the files, as in the kubelet's: kubelet_internal_checkpoint in "
                   "device-plugins. Files that are there are not replaced")
      ->type_name("DIR")
      ->required();
  AddExamples(*command,
              {"alignctl state convert --to 1.36 --out /root/kubelet-state",
               "alignctl state convert --state-dir /var/lib/kubelet --to 1.37 --out /root/state"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return ConvertState(*options, out); };
  });
}

}  // namespace alignd::cli
