#include "daemon/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/command_line.h"
#include "metrics/listen_address.h"

namespace alignd::daemon {

namespace {

struct Duration {
  const char* flag;
  const char* what;
  std::chrono::milliseconds* option;
  int64_t ms;
};

// What the options are parsed into.
struct Values {
  Options options;
  int64_t runtime_timeout_ms = options.runtime_timeout.count();
  std::vector<Duration> plugin_durations = {
      {"--plugin-timeout-ms", "Longest wait for a device plugin's Allocate",
       &options.plugin_timeout, 0},
      {"--plugin-connect-timeout-ms",
       "Longest wait for a device plugin that registers: dial and options",
       &options.plugin_connect_timeout, 0},
      {"--plugin-preference-timeout-ms",
       "Longest wait for a device plugin's GetPreferredAllocation; after it, alignd chooses itself",
       &options.plugin_preference_timeout, 0},
      {"--plugin-pre-start-timeout-ms", "Longest wait for a device plugin's PreStartContainer",
       &options.plugin_pre_start_timeout, 0},
      {"--plugin-grace-ms", "How long a resource is kept after its device plugin has disconnected",
       &options.plugin_grace, 0},
      {"--plugin-patience-ms",
       "How long pods wait for a device plugin that is not registered; after it they are refused",
       &options.plugin_patience, 0}};
  std::string compatibility;
  std::string pod_policies;
  std::string on_bad_state = "rebuild";
  std::string on_refusal = "wait";
  std::string resizes = "true";
  std::string mirror = "off";
  std::vector<std::string> mirror_rules;
};

constexpr char kDescription[] =
    "alignd: aligns containers with NUMA nodes, between the kubelet and its runtime";

// `values` outlives `app`.
void AddOptions(CLI::App& app, Values& values) {
  auto& [options, runtime_timeout_ms, plugin_durations, compatibility, pod_policies, on_bad_state,
         on_refusal, resizes, mirror, mirror_rules] = values;
  SetUpProgram(app);
  app.add_option("--config", options.config,
                 "KubeletConfiguration (YAML or JSON); if not given, the kubelet's defaults")
      ->check(CLI::ExistingFile);
  app.add_option("--listen", options.listen,
                 "CRI socket for the kubelet (its containerRuntimeEndpoint)")
      ->capture_default_str();
  app.add_option("--control-socket", options.control_socket,
                 "Socket for alignctl; if not given, control.sock in the directory of --listen");
  app.add_option("--runtime-endpoint", options.runtime_endpoint, "CRI socket of the runtime")
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir,
                 "Directory of cpu_manager_state and memory_manager_state")
      ->capture_default_str();
  app.add_option("--on-bad-state", on_bad_state,
                 "What to do about state files that cannot be used: rebuild (keep them under "
                 "another name, and rebuild the assignments from the running containers) or refuse "
                 "(do not start, as the kubelet)")
      ->check(CLI::IsMember({"rebuild", "refuse"}))
      ->capture_default_str();
  app.add_option("--device-plugin-dir", options.device_plugin_dir,
                 "Directory of kubelet.sock, the plugins' sockets and kubelet_internal_checkpoint; "
                 "if not given, device-plugins in the state directory");
  app.add_option("--pods-api-endpoint", options.pods_api_endpoint,
                 "The kubelet's local Pods API, used while it is available; empty: not used")
      ->capture_default_str();
  app.add_option_function<bool>(
         "--annotated-extended-resources",
         [&chosen = options](bool follows) { chosen.annotated_extended_resources = follows; },
         "Whether pods may request extended resources by annotation; overrides the configuration")
      ->type_name("BOOL");
  app.add_option_function<std::vector<std::string>>(
         "--not-devices",
         [&chosen = options](const std::vector<std::string>& names) {
           chosen.not_devices.emplace(names.begin(), names.end()).erase("");
         },
         "Extended resources that no device plugin serves, such as licences: pods that request "
         "them do not wait for a plugin; separated by commas; empty: none; overrides the "
         "configuration")
      ->delimiter(',');
  app.add_option_function<std::vector<std::string>>(
         "--shared-pool-handlers",
         [&chosen = options](const std::vector<std::string>& names) {
           chosen.shared_pool_handlers.emplace(names.begin(), names.end()).erase("");
         },
         "Runtime handlers (RuntimeClasses' handler) whose containers do not run in cgroups "
         "of their own, and therefore get no exclusive CPUs and no pinned memory; a * at "
         "the end stands for any text; separated by commas; empty: none; overrides the "
         "configuration")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& name) {
            const Result<Done> checked = CheckHandlerName(name);
            return checked.ok() ? std::string() : checked.error().Text();
          },
          ""));
  app.add_option("--plugins-registry", options.plugins_registry,
                 "Directory that is watched for sockets of device plugins, as the kubelet's "
                 "plugins_registry; if not given, plugins_registry in the state directory");
  app.add_option("--pod-resources-socket", options.pod_resources_socket,
                 "Socket of the pod resources service; if not given, pod-resources.sock in the "
                 "directory of --listen");
  app.add_option("--mirror", mirror,
                 "Offer the device plugins' devices to the kubelet, which then allocates them: "
                 "preferred (alignd recommends devices near free CPUs, and assigns another device "
                 "only if that aligns better), deferred (alignd chooses the device when the "
                 "container is created), strict (recommended, and no other device is assigned), "
                 "off")
      ->check(CLI::IsMember({"off", "preferred", "deferred", "strict", "steered", "late",
                             "counted"}))  // the last three: accepted for one more release
      ->capture_default_str();
  app.add_option("--mirror-resource", mirror_rules,
                 "RESOURCE=MODE: another mode for this resource than that of --mirror; * in a name "
                 "stands for any text; the first match applies")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto rule = mirror::ParseBindingRule(text);
            return rule.ok() ? std::string() : rule.error().Text();
          },
          ""));
  app.add_option("--kubelet-device-plugin-dir", options.kubelet_device_plugin_dir,
                 "The kubelet's directory of kubelet_internal_checkpoint, which contains the "
                 "devices that it allocated to containers")
      ->capture_default_str();
  app.add_option("--kubelet-plugins-registry", options.kubelet_plugins_registry,
                 "The kubelet's plugins_registry directory")
      ->capture_default_str();
  app.add_option("--root", options.root, "Directory with the sys/ and proc/ of the machine")
      ->capture_default_str();
  app.add_option(
         "--node", options.node,
         "Manage this node (JSON, as `alignctl topology -o json` prints it) instead of this "
         "machine: for tests with a simulated runtime")
      ->check(CLI::ExistingFile);
  app.add_option("--cgroup-root", options.cgroup_root,
                 "Mount point of the cgroup hierarchies whose cpusets are checked")
      ->capture_default_str();
  app.add_option("--kubelet-dir", options.kubelet_dir,
                 "The kubelet's root directory: its dra_manager_state has the devices of prepared "
                 "claims, and it is checked for a conflicting CPU manager")
      ->capture_default_str();
  app.add_option("--cdi-spec-dirs", options.cdi_spec_dirs,
                 "Directories of CDI specifications, as the runtime has them, separated by commas; "
                 "a later one overrides an earlier one. CPUs and memory align with the devices "
                 "that DRA has allocated; empty: they do not")
      ->delimiter(',')
      ->check(CLI::Validator(
          [](const std::string& path) {
            const bool is_valid = path.empty() || path.front() == '/';
            return is_valid ? std::string() : "\"" + path + "\" is not an absolute path";
          },
          ""))
      ->default_str(CLI::detail::join(options.cdi_spec_dirs, ","));
  app.add_flag(
      "--keep-pod-cpu-quota", options.keep_pod_cpu_quota,
      "Keep the CFS quota that the kubelet sets for the cgroups of pods with exclusive CPUs");
  app.add_option(
         "--resize-exclusive-cpus", resizes,
         "Whether an in-place resize may change a container's exclusive CPUs: true (their number, "
         "also to shared CPUs and back), count-only (to another whole number) or false (such a "
         "resize is refused)")
      ->check(CLI::IsMember({"true", "count-only", "false"}))
      ->capture_default_str();
  app.add_option("--may-move", options.may_move,
                 "Whether a changed file (SIGHUP) may move running containers with exclusive CPUs "
                 "to other CPUs: never (the change is refused) or if-needed")
      ->check(CLI::IsMember({"never", "if-needed"}))
      ->capture_default_str();
  app.add_option("--on-refusal", on_refusal,
                 "What becomes of a pod that does not fit now, and would fit without other pods: "
                 "wait (it keeps its place in a queue, and CreateContainer is answered when it "
                 "fits or its deadline is near), refuse (at once, as the kubelet) or "
                 "fail-after=DURATION (it waits for that long in all, and is refused from then on)")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto parsed = ParseOnRefusal(text);
            return parsed.ok() ? std::string() : parsed.error().Text();
          },
          ""))
      ->capture_default_str();
  app.add_option("--kubelet-compatibility", compatibility,
                 "Kubelet release whose rules and forms of the state files apply; overrides the "
                 "configuration")
      ->check(CLI::IsMember({"1.20", "1.36", "1.37"}));
  app.add_option("--pod-policies", pod_policies,
                 "Which policies pods may choose by annotation, separated by commas, such as "
                 "numaTopologyPolicy; off: none; overrides the configuration")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto parsed = ParsePodPolicies(text);
            return parsed.ok() ? std::string() : parsed.error().Text();
          },
          ""));
  app.add_option("--runtime-timeout-ms", runtime_timeout_ms,
                 "Longest wait for alignd's own calls of the runtime")
      ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
      ->capture_default_str();
  for (Duration& duration : plugin_durations) {
    duration.ms = duration.option->count();
    app.add_option(duration.flag, duration.ms, duration.what)
        ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
        ->capture_default_str();
  }
  app.add_option("--metrics-address", options.metrics_address,
                 "Where the live page (/), /metrics, /livez, /readyz and /healthz are served over "
                 "HTTP: IP:PORT, [IP]:PORT, unix:/PATH or off; without encryption and "
                 "authentication")
      ->check(CLI::Validator(
          [](const std::string& text) {
            const auto address = metrics::ParseListenAddress(text);
            return address.ok() ? std::string() : address.error().Text();
          },
          ""))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "Lowest level of log lines that are written")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", options.log_format,
                 "journal: to the journal of systemd, with fields; text or json: lines on standard "
                 "output; auto: the journal if standard output is connected to it, else text")
      ->check(CLI::IsMember({"auto", "journal", "text", "json"}))
      ->capture_default_str();
  CLI::Option* const check = app.add_flag(
      "--check", options.check,
      "Do not start: show what would apply and every problem, with the other flags of a start. "
      "Makes, changes and locks no file, and opens no socket: it can run beside alignd. Exit "
      "status: 0 alignd would start; 1 it would not; 2 it would start, with warnings");
  app.add_option("--output,-o", options.check_output, "With --check: text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->needs(check)
      ->capture_default_str();
  AddExamples(
      app,
      {"alignd --config /var/lib/kubelet/config.yaml",
       "alignd --check --config /etc/alignd/kubelet-config.yaml",
       "alignd --config /etc/alignd/config.yaml --mirror preferred --log-level debug"},
      "Exit status: 0 stopped by a signal; 1 it cannot start, see its log; 2 the command line is "
      "wrong.");
}

std::string ValueOf(const CLI::Option& option) {
  const bool is_flag = option.get_expected_max() == 0;
  std::string text =
      option.count() > 0 ? CLI::detail::join(option.results(), ",") : option.get_default_str();
  if (is_flag || option.get_type_name() == "BOOLEAN") {
    text = text.empty() || text == "0" || text == "false" ? "false" : "true";
  }
  return text;
}

std::vector<GivenOption> GivenIn(const CLI::App& app, const Options& options) {
  // The values of flags that are not given and have no default of their own.
  const std::map<std::string, std::string> derived = {
      {"--control-socket", options.ControlSocket()},
      {"--device-plugin-dir", options.DevicePluginDir()},
      {"--plugins-registry", options.PluginsRegistry()},
      {"--pod-resources-socket", options.PodResourcesSocket()}};
  std::vector<GivenOption> given;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    // Not settings: with them, alignd does not run.
    if (name.find("--help") != std::string::npos || name == "--version") continue;
    if (name == "--check" || name.find("--output") != std::string::npos) continue;
    const auto standard = derived.find(name);
    const bool is_given = option->count() > 0;
    given.push_back({name,
                     standard != derived.end() && !is_given ? standard->second : ValueOf(*option),
                     is_given ? "flag" : "default"});
  }
  for (const char* const name :
       {"JOURNAL_STREAM", "LISTEN_FDS", "NOTIFY_SOCKET", "WATCHDOG_USEC"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) given.push_back({name, value, "environment"});
  }
  return given;
}

void Parse(int argc, const char* const* argv, CLI::App& app, const Values& values) {
  app.parse(argc, argv);
  if (values.mirror == "off" && !values.mirror_rules.empty()) {
    throw CLI::ValidationError("--mirror-resource", "--mirror is off");
  }
}

// Of an `app` that has parsed into `values`.
Options TakeOptions(const CLI::App& app, Values& values) {
  auto& [options, runtime_timeout_ms, plugin_durations, compatibility, pod_policies, on_bad_state,
         on_refusal, resizes, mirror, mirror_rules] = values;
  if (!compatibility.empty()) {
    for (const auto release : {Compatibility::k1_20, Compatibility::k1_36, Compatibility::k1_37}) {
      if (compatibility == ToString(release)) options.compatibility = release;
    }
  }
  if (!pod_policies.empty()) options.pod_policies = *ParsePodPolicies(pod_policies);
  if (on_bad_state == "refuse") options.on_bad_state = allocation::OnBadState::kRefuse;
  options.on_refusal = *ParseOnRefusal(on_refusal);
  using allocation::CpuResizes;
  for (const auto each : {CpuResizes::kNone, CpuResizes::kCountOnly, CpuResizes::kAll}) {
    if (resizes == ToString(each)) options.resize_exclusive_cpus = each;
  }
  if (mirror != "off") {
    std::vector<mirror::BindingRule> rules;
    for (const std::string& text : mirror_rules) {
      rules.push_back(*mirror::ParseBindingRule(text));
    }
    options.mirror.emplace(*mirror::ParseBindingMode(mirror), std::move(rules));
  }
  std::erase(options.cdi_spec_dirs, "");
  options.runtime_timeout = std::chrono::milliseconds(runtime_timeout_ms);
  for (const Duration& duration : plugin_durations) {
    *duration.option = std::chrono::milliseconds(duration.ms);
  }
  options.given = GivenIn(app, options);
  return std::move(options);
}

}  // namespace

void DescribeOptions(const std::function<void(const CLI::App&)>& use) {
  Values values;
  CLI::App app(kDescription, "alignd");
  AddOptions(app, values);
  use(app);
}

std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_status) {
  Values values;
  CLI::App app(kDescription, "alignd");
  AddOptions(app, values);
  try {
    Parse(argc, argv, app, values);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string_view> words(argv, argv + argc);
    const bool checks = std::ranges::find(words, "--check") != words.end();
    exit_status = app.exit(error) == 0 ? 0 : checks ? EXIT_FAILURE : kWrongCommandLine;
    return std::nullopt;
  }
  return TakeOptions(app, values);
}

Result<Options> OptionsOf(const std::vector<std::string>& words) {
  Values values;
  CLI::App app(kDescription, "alignd");
  AddOptions(app, values);
  std::vector<const char*> argv = {"alignd"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const auto refused = [](const std::string& why) {
    return Error{ErrorCode::kInvalidArgument, why, "correct the flag; `alignd --help` lists them"};
  };
  try {
    Parse(static_cast<int>(argv.size()), argv.data(), app, values);
  } catch (const CLI::Success&) {
    return refused("with --help or --version, alignd ends at once");
  } catch (const CLI::ParseError& error) {
    return refused(DescribeWrongWords(app, error));
  }
  if (values.options.check) return refused("with --check, alignd ends after the check");
  Options options = TakeOptions(app, values);
  // They are those of this process.
  std::erase_if(options.given,
                [](const GivenOption& option) { return option.source == "environment"; });
  return options;
}

}  // namespace alignd::daemon
