#include "cli/watch_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "cli/output.h"
#include "cli/report_json.h"
#include "cli/report_text.h"
#include "control/control_client.h"
#include "host/printable.h"

namespace alignd::cli {
namespace {

struct WatchOptions {
  std::string socket;
  std::string output = "text";
  int64_t interval_s = 2;
  int64_t count = 0;
};

void ShowText(const WatchOptions& options, const Result<control::v1::GetStatusResponse>& status,
              std::ostream& out) {
  // Moves to the upper left corner and clears the screen, on a terminal only.
  if (HasColours(out)) host::PrintableStream::WriteRaw(out, "\x1b[H\x1b[2J");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  out << IsoTime(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) << ", every "
      << options.interval_s << "s, Ctrl-C ends\n";
  if (status.ok()) {
    PrintStatus(*status, options.output == "wide", out);
  } else {
    out << Coloured{Colour::kRed, status.error().Text()} << '\n';
  }
}

// One document after the other.
void ShowData(const WatchOptions& options, const Result<control::v1::GetStatusResponse>& status,
              std::ostream& out) {
  if (!status.ok()) {
    std::cerr << "alignctl: " << host::Printable(status.error().Text()) << '\n';
    return;
  }
  if (options.output == "yaml") out << "---\n";
  out << AsData(StatusJson(*status), options.output);
}

// Ends with an error of `out`: its reader has gone. A daemon that does not answer is shown, and
// asked again; the exit status is that of the last look.
Result<int> Watch(const WatchOptions& options, std::ostream& out) {
  bool answered = true;
  for (int64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
    if (shown > 0) std::this_thread::sleep_for(std::chrono::seconds(options.interval_s));
    const auto status = control::ControlClient(options.socket).GetStatus();
    answered = status.ok();
    IsData(options.output) ? ShowData(options, status, out) : ShowText(options, status, out);
    if (!out.flush()) break;
  }
  return answered ? kSuccess : kNoAnswer;
}

}  // namespace

void AddWatchCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<WatchOptions>();
  CLI::App* const command = app.add_subcommand("watch", "Show the status again and again");
  AddSocketOption(*command, options->socket);
  AddOutputOption(*command, options->output);
  command->add_option("-n,--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command
      ->add_option(
          "--count", options->count,
          "End after this number of looks; 0: go on; exit status 2 if alignd does not answer "
          "the last one")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  AddExamples(*command, {"alignctl watch", "alignctl watch -n 10 -o wide"});
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return Watch(*options, out); };
  });
}

}  // namespace alignd::cli
