#include "cli/policy_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <string>
#include <vector>

#include "alignd/pod/resource_name.h"
#include "alignd/pod/shared_pool_handlers.h"

namespace alignd::cli {

void AddPolicyOptions(CLI::App& command, placement::PolicyFlags& flags) {
  command
      .add_option_function<std::string>(
          "--pod-policies",
          [&flags](const std::string& text) { flags.pod_policies = *ParsePodPolicies(text); },
          "The alignd of the nodes has this flag; overrides podPolicies of the configurations, not "
          "of NodeResourceTopology objects that alignd has written")
      ->type_name("POLICIES")
      ->check([](const std::string& text) {
        const auto parsed = ParsePodPolicies(text);
        return parsed.ok() ? std::string() : parsed.error().Text();
      });
  command
      .add_option_function<std::vector<std::string>>(
          "--shared-pool-handlers",
          [&flags](const std::vector<std::string>& names) {
            flags.shared_pool_handlers.emplace(names.begin(), names.end()).erase("");
          },
          "The same flag for sharedPoolHandlers: runtime handlers whose containers get no "
          "exclusive CPUs and no pinned memory; separated by commas; empty: none")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check([](const std::string& name) {
        const Result<Done> checked = CheckHandlerName(name);
        return checked.ok() ? std::string() : checked.error().Text();
      });
  command
      .add_option_function<std::vector<std::string>>(
          "--not-devices",
          [&flags](const std::vector<std::string>& names) {
            flags.not_devices.emplace(names.begin(), names.end()).erase("");
          },
          "The same flag for notDevices: extended resources that no device plugin serves, such as "
          "licences, of which only the scheduler counts how many are there; separated by commas; "
          "empty: none")
      ->type_name("RESOURCES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check([](const std::string& name) {
        const Result<Done> checked = name.empty() ? Done{} : CheckNotDevice(name);
        return checked.ok() ? std::string() : checked.error().Text();
      });
  command
      .add_option_function<bool>(
          "--annotated-extended-resources",
          [&flags](bool follows) { flags.annotated_extended_resources = follows; },
          "The same flag for annotatedExtendedResources: whether pods may request extended "
          "resources by annotation")
      ->type_name("BOOL");
}

}  // namespace alignd::cli
