#include "cli/state_command.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/message_text.h"
#include "cli/output.h"
#include "cli/state_convert.h"
#include "cli/state_files.h"
#include "cli/state_move.h"
#include "cli/topology_tree.h"
#include "control/control_client.h"

namespace alignd::cli {
namespace {

using SavedJson = nlohmann::ordered_json;

constexpr char kDefaultState[] = "/var/lib/alignd";

struct StateOptions {
  std::string socket;
  std::string output = "text";
  std::string state_dir = kDefaultState;
  std::string device_plugin_dir;
  bool is_state_dir_stated = false;
  bool is_alignds = false;  // the directories are those of the alignd of this node
};

const char* NameOf(StateFile::State state) {
  switch (state) {
    case StateFile::State::kOk:
      return "ok";
    case StateFile::State::kAbsent:
      return "absent";
    case StateFile::State::kUnreadable:
      return "unreadable";
    case StateFile::State::kDamaged:
      break;
  }
  return "damaged";
}

bool IsDamaged(const StateContent& state) { return state.Has(StateFile::State::kDamaged); }

// Null: it is not known, because a file could not be read.
SavedJson IntactJson(const StateContent& state) {
  if (IsDamaged(state)) return false;
  return state.Has(StateFile::State::kUnreadable) ? SavedJson(nullptr) : SavedJson(true);
}

std::string NodesIn(const std::vector<int>& nodes) {
  std::string text;
  for (const int node : nodes) text += (text.empty() ? "" : ",") + std::to_string(node);
  return text;
}

std::string MemoryText(const std::vector<memorymanager::Block>& blocks) {
  std::string text;
  for (const memorymanager::Block& block : blocks) {
    text += (text.empty() ? "" : ", ") + block.type + " " + ReadableBytes(block.size) + " (NUMA " +
            NodesIn(block.numa_affinity) + ")";
  }
  return text;
}

// "1-4 (created with 1-2)"
std::string CpusText(const SavedContainer& container) {
  if (container.cpus.empty()) {
    return container.share.empty() ? "shared" : "shared (" + container.share + ")";
  }
  const bool is_resized =
      !container.original_cpus.empty() && container.original_cpus != container.cpus;
  return container.cpus + (is_resized ? " (created with " + container.original_cpus + ")" : "");
}

std::string KubeletIdOf(const SavedContainer& container, const std::string& resource,
                        const std::string& id) {
  const auto binding = container.kubelet_ids.find(resource);
  if (binding == container.kubelet_ids.end()) return "";
  for (const auto& [kubelet_id, device] : binding->second) {
    if (device == id) return kubelet_id;
  }
  return "";
}

std::string DevicesText(const SavedContainer& container, bool wide) {
  std::string text;
  for (const auto& [resource, devices] : container.devices) {
    text += (text.empty() ? "" : ", ") + resource;
    for (const auto& [numa, ids] : devices) {
      for (const std::string& id : ids) {
        text += " " + id;
        const std::string kubelet_id = wide ? KubeletIdOf(container, resource, id) : "";
        if (!kubelet_id.empty()) text += " (kubelet: " + kubelet_id + ")";
      }
      if (numa >= 0) text += " (NUMA " + std::to_string(numa) + ")";
    }
  }
  return text;
}

void PrintFiles(const StateContent& state, bool wide, std::ostream& out) {
  std::vector<std::vector<std::string>> files = {{"FILE", "STATE", "CONTENT"}};
  for (const StateFile& file : state.files) {
    files.push_back({wide ? file.path : file.name, NameOf(file.state), OrDash(file.what)});
  }
  PrintTable(files, out);
  for (const StateFile& file : state.files) {
    if (file.remedy.empty()) continue;
    out << Coloured{Colour::kRed, std::string(NameOf(file.state)) + ": "} << file.path << '\n'
        << "  what to do: " << file.remedy << '\n';
  }
}

void PrintState(const StateContent& state, bool wide, std::ostream& out) {
  PrintFiles(state, wide, out);
  if (!state.default_set.empty()) out << "\nshared pool: " << state.default_set << '\n';
  if (state.containers.empty()) {
    const bool is_known = !state.Has(StateFile::State::kUnreadable) && !IsDamaged(state);
    out << (is_known ? "\nno container is assigned anything\n"
                     : "\nthe files that could be read assign nothing to a container\n");
    return;
  }
  out << '\n';
  std::vector<std::vector<std::string>> rows = {{"POD", "CONTAINER", "CPUS", "MEMORY", "DEVICES"}};
  if (wide) rows.front().insert(rows.front().begin() + 1, "UID");
  for (const auto& [key, container] : state.containers) {
    const auto pod = state.pods.find(key.pod_uid);
    std::vector<std::string>& row = rows.emplace_back(std::vector<std::string>{
        pod == state.pods.end() ? key.pod_uid : pod->second, key.container, CpusText(container),
        OrDash(MemoryText(container.memory)), OrDash(DevicesText(container, wide))});
    if (wide) row.insert(row.begin() + 1, key.pod_uid);
  }
  std::ranges::stable_sort(
      rows.begin() + 1, rows.end(), {}, [](const auto& row) -> const auto& { return row.front(); });
  PrintTable(rows, out);
}

SavedJson DevicesJson(const SavedContainer& container) {
  SavedJson resources = SavedJson::object();
  for (const auto& [resource, devices] : container.devices) {
    SavedJson& list = resources[resource] = SavedJson::array();
    for (const auto& [numa, ids] : devices) {
      for (const std::string& id : ids) {
        SavedJson device = {{"id", id}};
        device["numa"] = numa >= 0 ? SavedJson(numa) : SavedJson(nullptr);
        const std::string kubelet_id = KubeletIdOf(container, resource, id);
        if (!kubelet_id.empty()) device["kubelet_id"] = kubelet_id;
        list.push_back(std::move(device));
      }
    }
  }
  return resources;
}

SavedJson FilesJson(const StateContent& state) {
  SavedJson files = SavedJson::array();
  for (const StateFile& file : state.files) {
    files.push_back({{"name", file.name},
                     {"path", file.path},
                     {"state", NameOf(file.state)},
                     {"message", file.what},
                     {"remedy", file.remedy}});
  }
  return files;
}

std::string VerifiedStateJson(const StateContent& state, const std::string& state_dir) {
  const SavedJson json = {
      {"state_dir", state_dir}, {"intact", IntactJson(state)}, {"files", FilesJson(state)}};
  return json.dump(-1, ' ', false, SavedJson::error_handler_t::replace);
}

std::string StateJson(const StateContent& state, const std::string& state_dir) {
  SavedJson containers = SavedJson::array();
  for (const auto& [key, container] : state.containers) {
    SavedJson memory = SavedJson::array();
    for (const memorymanager::Block& block : container.memory) {
      memory.push_back(
          {{"type", block.type}, {"bytes", block.size}, {"numa", block.numa_affinity}});
    }
    const auto pod = state.pods.find(key.pod_uid);
    containers.push_back({{"pod_uid", key.pod_uid},
                          {"pod", pod == state.pods.end() ? "" : pod->second},
                          {"container", key.container},
                          {"exclusive_cpus", container.cpus},
                          {"memory", std::move(memory)},
                          {"devices", DevicesJson(container)}});
    if (!container.original_cpus.empty()) {
      containers.back()["original_cpus"] = container.original_cpus;
    }
    if (!container.share.empty()) containers.back()["shared_cpus"] = container.share;
  }
  const SavedJson json = {{"state_dir", state_dir},
                          {"intact", IntactJson(state)},
                          {"files", FilesJson(state)},
                          {"default_set", state.default_set},
                          {"containers", std::move(containers)}};
  return json.dump(-1, ' ', false, SavedJson::error_handler_t::replace);
}

bool IsSameDirectory(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code fault;
  return std::filesystem::equivalent(one, other, fault) && !fault;
}

// Directories that are not stated are the daemon's own, if it answers.
StateOptions WithDirectories(StateOptions options) {
  const auto status = control::ControlClient(options.socket).GetStatus();
  if (!options.is_state_dir_stated && status.ok()) {
    options.state_dir = status->state_dir();
    if (options.device_plugin_dir.empty()) options.device_plugin_dir = status->device_plugin_dir();
  }
  if (options.device_plugin_dir.empty()) {
    options.device_plugin_dir = std::filesystem::path(options.state_dir) / "device-plugins";
  }
  options.is_alignds =
      IsSameDirectory(options.state_dir, status.ok() ? status->state_dir() : kDefaultState);
  return options;
}

// `with_content`: also what the files say of the containers.
Result<int> ShowState(const StateOptions& stated, bool with_content, std::ostream& out) {
  const StateOptions options = WithDirectories(stated);
  std::error_code fault;
  if (!std::filesystem::is_directory(options.state_dir, fault)) {
    return Error{ErrorCode::kNotFound, options.state_dir + " is not a directory that can be read",
                 "give --state-dir, or run it as root"};
  }
  const StateContent state =
      ReadState(options.state_dir, options.device_plugin_dir, options.is_alignds);
  const bool wide = options.output == "wide";
  if (IsData(options.output)) {
    out << AsData(with_content ? StateJson(state, options.state_dir)
                               : VerifiedStateJson(state, options.state_dir),
                  options.output);
  } else if (with_content) {
    PrintState(state, wide, out);
  } else {
    PrintFiles(state, wide, out);
  }
  return IntactJson(state) == true ? kSuccess : kFailure;
}

// The options of `alignctl state` and `alignctl state verify`.
std::shared_ptr<StateOptions> AddStateOptions(CLI::App& command, CLI::Option*& state_dir) {
  const auto options = std::make_shared<StateOptions>();
  AddSocketOption(command, options->socket);
  state_dir =
      command
          .add_option("--state-dir", options->state_dir,
                      "alignd's state directory; if not given, that of the alignd that runs")
          ->type_name("DIR")
          ->capture_default_str();
  command
      .add_option("--device-plugin-dir", options->device_plugin_dir,
                  "Directory of kubelet_internal_checkpoint; if not given, that of the alignd that "
                  "runs, or device-plugins in the state directory")
      ->type_name("DIR");
  AddOutputOption(command, options->output);
  return options;
}

void AddVerify(CLI::App& group, Action& action) {
  CLI::App* const command = group.add_subcommand(
      "verify",
      "Check the checksums and the content of all state files; exit status 1 if a file is damaged "
      "or cannot be read");
  CLI::Option* state_dir = nullptr;
  const std::shared_ptr<StateOptions> options = AddStateOptions(*command, state_dir);
  AddExamples(*command, {"alignctl state verify", "alignctl state verify -o json"});
  command->callback([options, state_dir, &action] {
    options->is_state_dir_stated = state_dir->count() > 0;
    action = [options](std::ostream& out) {
      return ShowState(*options, /*with_content=*/false, out);
    };
  });
}

}  // namespace

void AddStateCommand(CLI::App& app, Action& action) {
  CLI::App* const command = app.add_subcommand(
      "state",
      "Show what the state files hold, by container, and check them; also while alignd does not "
      "run; exit status 1 if a file is damaged or cannot be read");
  CLI::Option* state_dir = nullptr;
  const std::shared_ptr<StateOptions> options = AddStateOptions(*command, state_dir);
  AddExamples(*command, {"alignctl state", "alignctl state --state-dir /var/lib/kubelet -o wide"});
  AddVerify(*command, action);
  AddStateConvert(*command, action);
  AddStateImport(*command, action);
  AddStateExport(*command, action);
  command->callback([options, state_dir, command, &action] {
    if (!command->get_subcommands().empty()) return;  // it has set the action
    options->is_state_dir_stated = state_dir->count() > 0;
    action = [options](std::ostream& out) {
      return ShowState(*options, /*with_content=*/true, out);
    };
  });
}

}  // namespace alignd::cli
