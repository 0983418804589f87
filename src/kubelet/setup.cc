#include "kubelet/setup.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "host/file.h"
#include "host/yaml.h"
#include "kubelet/distribution.h"
#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

using nlohmann::json;

Result<json> ReadConfig(const FileView& files, const std::string& path) {
  const Result<std::optional<std::string>> text = files.Read(path);
  if (!text.ok()) return text.error();
  if (!*text) {
    return Error{ErrorCode::kNotFound, "read " + path + ": there is no such file",
                 "the kubelet is not configured completely: join the node to its cluster first, or "
                 "correct --config of the kubelet"};
  }
  const Result<std::string> as_json = host::YamlToJson(**text);
  if (!as_json.ok()) return host::ContentError(as_json.error(), path);
  json config = json::parse(*as_json, nullptr, /*allow_exceptions=*/false);
  if (config.is_null()) return json::object();
  if (config.is_object()) return config;
  return Error{ErrorCode::kInvalidArgument, path + ": not a KubeletConfiguration",
               "correct --config of the kubelet"};
}

void TakeEndpoint(const json& config, const std::string& path, Setup& setup) {
  const auto field = config.find(kEndpointField);
  if (field == config.end() || (!field->is_string() && !field->is_null())) return;
  setup.endpoint = field->is_null() ? "" : field->get<std::string>();
  if (setup.endpoint.empty()) setup.endpoint = kDefaultEndpoint;
  setup.source = Setup::Source::kConfigFile;
  setup.file = path;
}

// The files of --config-dir that end with .conf, with those of its subdirectories, in the order of
// Go's filepath.WalkDir: names in byte order, a directory at the place of its name. Links to
// directories are not followed.
void AddDropIns(const FileView& files, const std::string& directory,
                std::vector<std::string>& paths) {
  for (const std::string& name : files.List(directory)) {
    const std::string path = directory + "/" + name;
    if (files.IsDirectory(path)) {
      AddDropIns(files, path, paths);
    } else if (name.ends_with(".conf")) {
      paths.push_back(path);
    }
  }
}

// Each file overrides what was before it. An endpoint that is empty or null is the default.
Result<Done> TakeConfig(const FileView& files, Setup& setup) {
  json all = json::object();
  std::vector<std::string> paths;
  if (!setup.config_file.empty()) paths.push_back(setup.config_file);
  if (!setup.config_dir.empty()) AddDropIns(files, setup.config_dir, paths);
  for (const std::string& path : paths) {
    const Result<json> config = ReadConfig(files, path);
    if (!config.ok()) return config.error();
    all.merge_patch(*config);
    TakeEndpoint(*config, path, setup);
    for (const auto& [field, value] : config->items()) setup.field_files[field] = path;
  }
  setup.config_json = all.dump(-1, ' ', false, json::error_handler_t::replace);
  return Done{};
}

// Where the last `flag` of the command line stands.
struct FlagPlace {
  std::string variable;  // empty: in ExecStart=
  std::string file;

  std::string Describe(const std::string& flag) const {
    return flag + " in " + (variable.empty() ? "ExecStart=" : variable) + " of " + file;
  }
};

FlagPlace PlaceOf(const Unit& unit, const std::string& flag) {
  FlagPlace place{"", unit.exec_start_file};
  for (const Unit::Word& word : unit.CommandLine()) {
    if (word.text != flag && !word.text.starts_with(flag + "=")) continue;
    const auto variable = unit.variables.find(word.variable);
    const bool is_set = variable != unit.variables.end();
    place = {word.variable, is_set ? variable->second.file : unit.exec_start_file};
  }
  return place;
}

void TakeFlag(Setup& setup) {
  const std::optional<std::string> value = LastFlag(setup.words, kEndpointFlag);
  if (!value) return;
  setup.endpoint = *value;
  setup.source = Setup::Source::kFlag;
  FlagPlace place = PlaceOf(*setup.unit, kEndpointFlag);
  setup.variable = std::move(place.variable);
  setup.file = std::move(place.file);
}

// From /proc/PID/stat (field 22, in ticks after the boot) and the boot time in /proc/stat.
// Source: man 5 proc.
std::optional<std::chrono::milliseconds> StartOf(const FileView& files, const std::string& pid) {
  const auto process = files.Read("/proc/" + pid + "/stat");
  const auto machine = files.Read("/proc/stat");
  if (!process.ok() || !*process || !machine.ok() || !*machine) return std::nullopt;
  constexpr std::string_view kBoot = "\nbtime ";
  const size_t boot = (*machine)->find(kBoot);
  const size_t behind_name = (*process)->rfind(')');  // the name may have spaces
  if (boot == std::string::npos || behind_name == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = SplitWords((*process)->substr(behind_name + 1));
  constexpr size_t kStart = 19;  // field 22; the first one here is field 3
  if (fields.size() <= kStart) return std::nullopt;
  const int64_t boot_seconds = std::atoll((*machine)->c_str() + boot + kBoot.size());
  const int64_t ticks = std::atoll(fields[kStart].c_str());
  const int64_t ticks_per_second = sysconf(_SC_CLK_TCK);
  return std::chrono::seconds(boot_seconds) +
         std::chrono::milliseconds(ticks * 1000 / ticks_per_second);
}

std::optional<Setup::Process> FindProcess(const FileView& files) {
  for (const std::string& name : files.List("/proc")) {
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    const auto cmdline = files.Read("/proc/" + name + "/cmdline");
    if (!cmdline.ok() || !*cmdline || (*cmdline)->empty()) continue;
    std::vector<std::string> words;
    for (size_t begin = 0; begin < (*cmdline)->size();) {
      const size_t end = std::min((*cmdline)->find('\0', begin), (*cmdline)->size());
      words.push_back((*cmdline)->substr(begin, end - begin));
      begin = end + 1;
    }
    if (std::filesystem::path(words[0]).filename() != "kubelet") continue;
    return Setup::Process{std::stoi(name), LastFlag(words, kEndpointFlag).value_or(""),
                          StartOf(files, name)};
  }
  return std::nullopt;
}

std::string SocketOf(std::string_view endpoint) {
  if (endpoint.starts_with("unix:")) endpoint.remove_prefix(5);
  while (endpoint.starts_with("//")) endpoint.remove_prefix(1);
  std::string path = std::filesystem::path(endpoint).lexically_normal().string();
  if (path.starts_with("/var/run/")) path.erase(0, 4);
  return path;
}

}  // namespace

bool IsSameEndpoint(const std::string& a, const std::string& b) {
  return SocketOf(a) == SocketOf(b);
}

bool RestartNeeded(const FileView& files, const Setup& setup) {
  if (!setup.process) return false;
  const std::string& running = setup.process->endpoint;
  if (!running.empty()) return !IsSameEndpoint(running, setup.endpoint);
  if (setup.source == Setup::Source::kFlag) return true;
  const std::string& file = setup.file.empty() ? setup.config_file : setup.file;
  if (file.empty() || !setup.process->started) return false;
  const std::optional<std::chrono::milliseconds> modified = files.ModifiedAt(file);
  // The kernel gives the boot time in whole seconds, so that the process can be younger by 1 s.
  constexpr std::chrono::seconds kInaccuracy{1};
  return modified && *modified > *setup.process->started + kInaccuracy;
}

std::string DescribeSource(const Setup& setup) {
  switch (setup.source) {
    case Setup::Source::kDefault:
      return "the kubelet's default";
    case Setup::Source::kConfigFile:
      return std::string(kEndpointField) + " in " + setup.file;
    case Setup::Source::kFlag:
      break;
  }
  return FlagPlace{setup.variable, setup.file}.Describe(kEndpointFlag);
}

std::string DescribeFlag(const Setup& setup, const std::string& flag) {
  return PlaceOf(*setup.unit, flag).Describe(flag);
}

Result<Setup> FindSetup(const FileView& files, const std::string& unit_name) {
  Setup setup;
  setup.unit_name = unit_name;
  Result<std::optional<Unit>> unit = LoadUnit(files, unit_name);
  if (!unit.ok()) return unit.error();
  setup.unit = *std::move(unit);
  setup.distribution = FindDistribution(files, setup.unit);
  setup.process = FindProcess(files);
  if (!setup.unit) return setup;
  for (Unit::Word& word : setup.unit->CommandLine()) setup.words.push_back(std::move(word.text));
  setup.config_file = LastFlag(setup.words, "--config").value_or("");
  setup.config_dir = LastFlag(setup.words, "--config-dir").value_or("");
  if (setup.distribution) return setup;
  const Result<Done> config = TakeConfig(files, setup);
  if (!config.ok()) return config.error();
  TakeFlag(setup);
  return setup;
}

}  // namespace alignd::kubelet
