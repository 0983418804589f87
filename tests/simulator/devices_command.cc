#include "simulator/devices_command.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "simulator/system_error.h"
#include "sync/mutex.h"

namespace alignd::simulator {
namespace {

using Texts = std::vector<std::string>;

struct DevicesOptions {
  DeviceProfile profile;
  Texts devices, envs, device_nodes, mounts, annotations;
};

// Lines from two threads.
class Printer {
 public:
  explicit Printer(std::ostream& out) : out_(out) {}

  void Print(const std::string& line) {
    const MutexLock lock(mutex_);
    out_ << line << std::endl;  // flushed: scripts wait for it
  }

 private:
  Mutex mutex_;
  std::ostream& out_ GUARDED_BY(mutex_);
};

template <typename Parsed>
Result<Done> ParseAll(const Texts& texts, Result<Parsed> (*parse)(std::string_view),
                      std::vector<Parsed>& into) {
  for (const std::string& text : texts) {
    Result<Parsed> parsed = parse(text);
    if (!parsed.ok()) return parsed.error();
    into.push_back(*std::move(parsed));
  }
  return Done{};
}

Result<DeviceProfile> ToProfile(const DevicesOptions& options) {
  DeviceProfile profile = options.profile;
  const Result<Done> results[] = {
      ParseAll(options.devices, ParseDevice, profile.devices),
      ParseAll(options.envs, ParseNameValue, profile.envs),
      ParseAll(options.device_nodes, ParsePathPair, profile.device_nodes),
      ParseAll(options.mounts, ParsePathPair, profile.mounts),
      ParseAll(options.annotations, ParseNameValue, profile.annotations),
  };
  for (const Result<Done>& result : results) {
    if (!result.ok()) return result.error();
  }
  return profile;
}

// Handles signals and lines of standard input until the stop.
class Loop {
 public:
  Loop(DevicePlugin& plugin, Printer& printer) : plugin_(plugin), printer_(printer) {}

  Result<Done> Run(int signals) {
    int input = STDIN_FILENO;
    while (true) {
      std::array<pollfd, 2> events{pollfd{signals, POLLIN, 0}, pollfd{input, POLLIN, 0}};
      if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return SystemError("poll");
      if (events[0].revents != 0 && !OnSignal(signals)) return Done{};
      if (events[1].revents != 0 && !OnInput()) input = -1;
    }
  }

 private:
  // False: stop.
  bool OnSignal(int signals) {
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) != sizeof info) return true;
    if (info.ssi_signo != SIGUSR1 && info.ssi_signo != SIGUSR2) return false;
    const bool healthy = info.ssi_signo == SIGUSR2;
    plugin_.SetAllHealth(healthy);
    printer_.Print(healthy ? "all devices are healthy" : "all devices are unhealthy");
    return true;
  }

  // False at the end of the input.
  bool OnInput() {
    std::array<char, 4096> buffer{};
    const ssize_t length = read(STDIN_FILENO, buffer.data(), buffer.size());
    if (length <= 0) return length < 0 && errno == EINTR;
    text_.append(buffer.data(), static_cast<size_t>(length));
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      const std::string line = text_.substr(0, end);
      text_.erase(0, end + 1);
      const Result<Done> done = Obey(line, plugin_);
      printer_.Print(line + ": " + (done.ok() ? "done" : done.error().Text()));
    }
    return true;
  }

  DevicePlugin& plugin_;
  Printer& printer_;
  std::string text_;  // read, but without the end of its line
};

Result<Done> RunDevices(const DevicesOptions& options, std::ostream& out) {
  const Result<DeviceProfile> profile = ToProfile(options);
  if (!profile.ok()) return profile.error();
  sigset_t mask;
  sigemptyset(&mask);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&mask, number);
  // Before the plugin starts its threads, which inherit it.
  pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  const int signals = signalfd(-1, &mask, SFD_CLOEXEC);
  if (signals < 0) return SystemError("signalfd");

  Printer printer(out);
  Result<std::unique_ptr<DevicePlugin>> plugin =
      DevicePlugin::Start(*profile, [&](const Result<Done>& outcome) {
        printer.Print(outcome.ok() ? "registered " + profile->resource : outcome.error().Text());
      });
  Result<Done> done = Done{};
  if (plugin.ok()) {
    printer.Print("serving " + profile->resource + " in " + profile->directory.string());
    done = Loop(**plugin, printer).Run(signals);
  } else {
    done = plugin.error();
  }
  close(signals);
  return done;
}

}  // namespace

Result<Done> Obey(std::string_view line, DevicePlugin& plugin) {
  const size_t space = line.find(' ');
  const std::string_view word = line.substr(0, space);
  const std::string id(space == std::string_view::npos ? "" : line.substr(space + 1));
  if (word == "healthy" || word == "unhealthy") {
    if (!id.empty()) return plugin.SetHealth(id, word == "healthy");
    plugin.SetAllHealth(word == "healthy");
    return Done{};
  }
  constexpr std::pair<std::string_view, Manner> kManners[] = {{"answer", Manner::kAnswer},
                                                              {"hang", Manner::kHang},
                                                              {"fail", Manner::kFail},
                                                              {"nothing", Manner::kNothing}};
  for (const auto& [name, manner] : kManners) {
    if (line != name) continue;
    plugin.SetManner(manner);
    return Done{};
  }
  if (line != "end-lists") {
    return Error{ErrorCode::kInvalidArgument,
                 "not one of healthy, unhealthy, answer, hang, fail, nothing, end-lists"};
  }
  plugin.EndLists();
  return Done{};
}

void AddDevicesCommand(CLI::App& app, Action& action) {
  const auto options = std::make_shared<DevicesOptions>();
  DeviceProfile& profile = options->profile;
  CLI::App* const command = app.add_subcommand(
      "devices",
      "A device plugin. SIGUSR1 makes its devices unhealthy, SIGUSR2 healthy. Lines on standard "
      "input: healthy [ID], unhealthy [ID], answer, hang, fail, nothing, end-lists. In the texts "
      "of its answers {ids} are the allocated ids; a text with {id} or {index} is repeated for "
      "each device.");
  command->add_option("--dir", profile.directory, "Directory of kubelet.sock")
      ->type_name("DIR")
      ->required();
  command->add_option("--registry", profile.registry,
                      "Offer the plugin to a plugin watcher by a socket in this directory, instead "
                      "of registering on kubelet.sock");
  command->add_option("--resource", profile.resource, "Name of the resource")
      ->type_name("NAME")
      ->required();
  command->add_option("--socket", profile.socket, "File name of its socket in the directory")
      ->type_name("NAME");
  const auto add_texts = [command](const char* name, Texts& texts, const char* form,
                                   const char* what) {
    // One text per option: an env's value may contain commas.
    command->add_option(name, texts, what)
        ->type_name(form)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  add_texts("--device", options->devices, "ID[:numa=N[,N...]][:unhealthy]", "A device");
  add_texts("--env", options->envs, "NAME=VALUE", "An environment variable");
  add_texts("--device-node", options->device_nodes, "HOST:CONTAINER[:rwm]", "A device node");
  add_texts("--mount", options->mounts, "HOST:CONTAINER[:ro]", "A mount");
  add_texts("--annotation", options->annotations, "NAME=VALUE", "A container annotation");
  add_texts("--cdi", profile.cdi_devices, "VENDOR/CLASS={id}", "A CDI device");
  command->add_flag("--prefer", profile.prefers_allocation,
                    "Prefer the devices at the end of the list");
  command->add_flag("--pre-start", profile.pre_start_required, "Want PreStartContainer");
  command->callback([options, &action] {
    action = [options](std::ostream& out) { return RunDevices(*options, out); };
  });
}

}  // namespace alignd::simulator
