#include "kubelet/unit.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "kubelet/words.h"

namespace alignd::kubelet {
namespace {

// In descending priority.
constexpr std::array<std::string_view, 5> kUnitDirectories = {
    "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system", "/lib/systemd/system"};

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The settings of the section [Service], in order. A backslash at the end of a line joins it with
// the next one; comments between the two are skipped.
std::vector<std::pair<std::string, std::string>> ServiceSettings(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> settings;
  std::istringstream lines(text);
  std::string section;
  std::string joined;
  for (std::string line; std::getline(lines, line);) {
    const std::string trimmed = Trimmed(line);
    if (trimmed.starts_with('#') || trimmed.starts_with(';')) continue;
    joined += joined.empty() ? trimmed : " " + trimmed;
    if (joined.ends_with('\\')) {
      joined.pop_back();
      continue;
    }
    const std::string whole = std::exchange(joined, "");
    if (whole.starts_with('[')) {
      section = whole;
      continue;
    }
    const size_t equals = whole.find('=');
    if (section != "[Service]" || equals == std::string::npos) continue;
    settings.emplace_back(Trimmed(whole.substr(0, equals)), Trimmed(whole.substr(equals + 1)));
  }
  return settings;
}

void TakeSettings(const std::string& file, const std::string& text, Unit& unit) {
  for (const auto& [key, value] : ServiceSettings(text)) {
    if (key == "ExecStart") {
      unit.exec_start = value;
      unit.exec_start_file = file;
    } else if (key == "Environment") {
      if (value.empty()) unit.variables.clear();
      for (const std::string& word : SplitWords(value)) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) continue;
        unit.variables[word.substr(0, equals)] = {word.substr(equals + 1), file, false};
      }
    } else if (key == "EnvironmentFile") {
      if (value.empty()) unit.environment_files.clear();
      const std::string path = value.starts_with('-') ? value.substr(1) : value;
      if (!path.empty()) unit.environment_files.push_back(path);
    }
  }
}

// The unit file; empty: there is none.
std::string FindUnitFile(const FileView& files, const std::string& name) {
  for (const std::string_view directory : kUnitDirectories) {
    const std::string path = std::string(directory) + "/" + name;
    if (files.Exists(path) || files.Resolve(path) == "/dev/null") return path;
  }
  return "";
}

// The drop-ins in the order of their names. Of two with the same name, the one in the directory of
// higher priority applies.
std::vector<std::string> FindDropIns(const FileView& files, const std::string& name) {
  std::map<std::string, std::string> by_name;
  const auto add = [&](const std::string& path) {
    const std::string file = path.substr(path.rfind('/') + 1);
    if (file.ends_with(".conf")) by_name.try_emplace(file, path);
  };
  const std::vector<std::string> changed = files.Changed();
  for (const std::string& folder : {name + ".d", std::string("service.d")}) {
    for (const std::string_view directory : kUnitDirectories) {
      const std::string path = std::string(directory) + "/" + folder;
      for (const std::string& file : files.List(path)) add(path + "/" + file);
      for (const std::string& file : changed) {
        if (file.substr(0, file.rfind('/')) == files.Resolve(path)) add(file);
      }
    }
  }
  std::vector<std::string> paths;
  for (const auto& [file, path] : by_name) paths.push_back(path);
  return paths;
}

}  // namespace

std::vector<Unit::Word> Unit::CommandLine() const {
  std::vector<Word> line;
  const auto value_of = [this](const std::string& name) {
    const auto variable = variables.find(name);
    return variable == variables.end() ? "" : variable->second.value;
  };
  for (const std::string& word : SplitWords(exec_start)) {
    if (word.starts_with('$') && !word.starts_with("${") && !word.starts_with("$$")) {
      const std::string name = word.substr(1);
      for (std::string& part : SplitWords(value_of(name))) line.push_back({std::move(part), name});
      continue;
    }
    Word expanded;
    for (size_t i = 0; i < word.size(); ++i) {
      const size_t end = word.compare(i, 2, "${") == 0 ? word.find('}', i) : std::string::npos;
      if (end == std::string::npos) {
        expanded.text += word[i];
        continue;
      }
      expanded.variable = word.substr(i + 2, end - i - 2);
      expanded.text += value_of(expanded.variable);
      i = end;
    }
    line.push_back(std::move(expanded));
  }
  return line;
}

Result<std::optional<Unit>> LoadUnit(const FileView& files, const std::string& name) {
  const std::string path = FindUnitFile(files, name);
  if (path.empty() || files.Resolve(path) == "/dev/null") return std::optional<Unit>();
  Unit unit;
  unit.files.push_back(path);
  for (std::string& drop_in : FindDropIns(files, name)) unit.files.push_back(std::move(drop_in));
  for (const std::string& file : unit.files) {
    if (files.Resolve(file) == "/dev/null") continue;  // a masked drop-in
    const Result<std::optional<std::string>> text = files.Read(file);
    if (!text.ok()) return text.error();
    if (*text) TakeSettings(file, **text, unit);
  }
  for (const std::string& file : unit.environment_files) {
    const Result<std::optional<std::string>> text = files.Read(file);
    if (!text.ok()) return text.error();
    if (!*text) continue;
    for (const EnvironmentLine& line : ParseEnvironmentFile(**text)) {
      unit.variables[line.name] = {line.value, file, true};
    }
  }
  return std::optional(std::move(unit));
}

}  // namespace alignd::kubelet
