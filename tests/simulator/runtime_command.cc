#include "simulator/runtime_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <ostream>
#include <utility>

#include "simulator/command.h"
#include "simulator/embedded_runtime.h"

namespace alignd::simulator {
namespace {

const char* Name(RuntimeModel::Change change) {
  switch (change) {
    case RuntimeModel::Change::kCreated:
      return "create ";
    case RuntimeModel::Change::kStarted:
      return "start  ";
    case RuntimeModel::Change::kUpdated:
      return "update ";
    case RuntimeModel::Change::kStopped:
      return "stop   ";
    case RuntimeModel::Change::kRemoved:
      return "remove ";
  }
  return "?";
}

template <typename Labels>
std::string Label(const Labels& labels, const std::string& key) {
  const auto found = labels.find(key);
  return found == labels.end() ? "?" : found->second;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

std::string Describe(const RuntimeModel::Event& event) {
  const auto& [change, container] = event;
  const auto& config = container.config;
  const auto& resources = container.resources;
  std::string text = Name(change);
  text += " " + Label(config.labels(), "io.kubernetes.pod.namespace") + "/" +
          Label(config.labels(), "io.kubernetes.pod.name") + " " + config.metadata().name();
  text += " (…" + container.id.substr(container.id.size() - 4) + ")";
  if (change == RuntimeModel::Change::kStopped) {
    return text + "  exit " + std::to_string(container.exit_code) + "\n";
  }
  if (change == RuntimeModel::Change::kCreated || change == RuntimeModel::Change::kUpdated) {
    text += "  cpuset " + OrDash(resources.cpuset_cpus()) + "  mems " +
            OrDash(resources.cpuset_mems()) + "  memory " +
            std::to_string(resources.memory_limit_in_bytes()) + "  quota " +
            std::to_string(resources.cpu_quota()) + "/" + std::to_string(resources.cpu_period());
  }
  text += "\n";
  if (change != RuntimeModel::Change::kCreated) return text;
  const std::string indent(9, ' ');
  for (const auto& device : config.devices()) {
    text += indent + "device " + device.host_path() + " as " + device.container_path() + " (" +
            device.permissions() + ")\n";
  }
  for (const auto& device : config.cdi_devices()) text += indent + "cdi " + device.name() + "\n";
  for (const auto& mount : config.mounts()) {
    text += indent + "mount " + mount.host_path() + " at " + mount.container_path() +
            (mount.readonly() ? " (read-only)\n" : "\n");
  }
  for (const auto& env : config.envs())
    text += indent + "env " + env.key() + "=" + env.value() + "\n";
  return text;
}

void AddRuntimeCommand(CLI::App& app, Action& action) {
  CLI::App* const command = app.add_subcommand(
      "runtime", "A container runtime in memory that prints the changes of its containers");
  auto endpoint = std::make_shared<std::string>();
  command->add_option("--listen", *endpoint, "The CRI socket to serve")
      ->type_name("SOCKET")
      ->required();
  command->callback([&action, endpoint] {
    action = [endpoint](std::ostream& out) -> Result<Done> {
      const auto runtime = EmbeddedRuntime::Start(
          *endpoint,
          [&out](const RuntimeModel::Event& event) { out << Describe(event) << std::flush; });
      if (!runtime.ok()) return runtime.error();
      out << "serving CRI on " << *endpoint << std::endl;
      AwaitStop();
      return Done{};
    };
  });
}

}  // namespace alignd::simulator
