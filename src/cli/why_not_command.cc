#include "cli/why_not_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "alignd/placement/manifest.h"
#include "cli/output.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"
#include "host/config_file.h"
#include "host/file.h"
#include "host/yaml.h"

namespace alignd::cli {
namespace {

// alignd reads requests of 64 KiB, with the frame around them.
constexpr size_t kMaxManifestBytes = (64 << 10) - 64;

struct WhyNotOptions {
  std::string pod;
  std::string file;
  std::string socket;
  std::string output = "text";
};

Result<control::v1::WhyNotRequest> RequestOf(const WhyNotOptions& options) {
  control::v1::WhyNotRequest request;
  request.set_pod(options.pod);
  if (options.file.empty()) return request;
  const Result<std::string> text = host::ReadFileOrPipe(options.file);
  if (!text.ok()) return text.error();
  Result<std::string> json = host::YamlToJson(*text);
  if (!json.ok()) return host::ContentError(json.error(), options.file);
  if (json->size() > kMaxManifestBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 options.file + ": the manifest has " + std::to_string(json->size()) +
                     " bytes as JSON; at most " + std::to_string(kMaxManifestBytes) +
                     " can be sent to alignd",
                 "remove what is no resource request, such as metadata and env"};
  }
  // As alignd does it. Its error could not name the file.
  if (const auto pod = placement::ReadOnePod(*json, ""); !pod.ok()) {
    return host::ContentError(pod.error(), options.file);
  }
  request.set_manifest(*std::move(json));
  return request;
}

Result<int> ShowWhyNot(const WhyNotOptions& options, std::ostream& out) {
  const Result<control::v1::WhyNotRequest> request = RequestOf(options);
  if (!request.ok()) return request.error();
  const auto why = control::ControlClient(options.socket).WhyNot(*request);
  if (!why.ok()) return why.error();
  if (IsData(options.output)) {
    out << AsData(WhyNotJson(*why), options.output);
  } else {
    PrintWhyNot(*why, out);
  }
  return why->fits() ? kSuccess : kFailure;
}

}  // namespace

void AddWhyNotCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<WhyNotOptions>();
  CLI::App* const command = app.add_subcommand(
      "why-not",
      "Show what would have to change or end for a pod to fit, smallest change first; exit status "
      "0: it fits now, 1: it does not, 2: POD is not known, FILE cannot be read, the API server "
      "refuses its pod, or what the pod needs is not known");
  CLI::Option* const pod =
      command
          ->add_option("pod", options->pod,
                       "A pod that alignd has refused: UID, name or namespace/name")
          ->type_name("POD");
  CLI::Option* const file =
      command
          ->add_option("-f,--file", options->file,
                       "Instead: the manifest of a pod, or of an object with pods, in YAML or JSON")
          ->type_name("FILE")
          ->excludes(pod);
  AddSocketOption(*command, options->socket);
  AddOutputOption(*command, options->output);
  AddExamples(*command, {"alignctl why-not default/train-7", "alignctl why-not -f pod.yaml"});
  command->callback([options, pod, file, &action] {
    if (pod->count() + file->count() == 0) throw CLI::RequiredError("POD or --file");
    action = Action([options](std::ostream& out) { return ShowWhyNot(*options, out); }, kBadInput);
  });
}

}  // namespace alignd::cli
