#include "dra/cdi_registry.h"

#include <utility>

#include "host/file.h"
#include "host/yaml.h"

namespace alignd::dra {
namespace {

namespace fs = std::filesystem;

// Larger than the specification of any driver.
constexpr size_t kMaxSpecBytes = size_t{4} << 20;

Result<CdiSpec> ReadSpec(const fs::path& file) {
  const Result<std::string> text = host::ReadFile(file, kMaxSpecBytes);
  if (!text.ok()) return text.error();
  const Result<std::string> json = host::YamlToJson(*text);
  if (!json.ok()) return host::ContentError(json.error(), file);
  Result<CdiSpec> spec = ParseCdiSpec(*json);
  if (!spec.ok()) return host::ContentError(spec.error(), file);
  return spec;
}

}  // namespace

CdiRegistry CdiRegistry::Read(const std::vector<fs::path>& directories) {
  CdiRegistry registry;
  for (size_t i = 0; i < directories.size(); ++i) {
    const Result<std::vector<std::string>> names = host::ListDirectory(directories[i]);
    if (!names.ok()) {
      const bool is_absent = names.error().code == ErrorCode::kNotFound;
      if (!is_absent) registry.faults_.push_back(names.error().message);
      continue;
    }
    for (const std::string& name : *names) {
      if (!name.ends_with(".json") && !name.ends_with(".yaml")) continue;
      const fs::path file = directories[i] / name;
      const Result<CdiSpec> spec = ReadSpec(file);
      if (spec.ok()) {
        registry.Add(*spec, i, file);
      } else if (spec.error().code != ErrorCode::kNotFound) {  // removed meanwhile
        registry.faults_.push_back(spec.error().message);
      }
    }
  }
  return registry;
}

void CdiRegistry::Add(const CdiSpec& spec, size_t directory, const fs::path& file) {
  for (const auto& [device, edits] : spec.devices) {
    const auto [entry, is_new] = devices_.try_emplace(spec.kind + "=" + device);
    if (!is_new && entry->second.directory == directory) {
      entry->second.files.push_back(file);
      continue;
    }
    CdiEdits all = spec.common;
    all.device_nodes.insert(all.device_nodes.end(), edits.device_nodes.begin(),
                            edits.device_nodes.end());
    all.mounts.insert(all.mounts.end(), edits.mounts.begin(), edits.mounts.end());
    all.net_devices.insert(all.net_devices.end(), edits.net_devices.begin(),
                           edits.net_devices.end());
    entry->second = {std::move(all), directory, {file}};
  }
}

Result<CdiEdits> CdiRegistry::Find(const std::string& name) const {
  const auto entry = devices_.find(name);
  if (entry == devices_.end()) {
    std::string text = "no CDI specification describes " + name;
    for (size_t i = 0; i < faults_.size() && i < 2; ++i) text += "; " + faults_[i];
    return Error{ErrorCode::kUnavailable, std::move(text),
                 "see in the log of the DRA driver whether it has prepared the claim, and check "
                 "--cdi-spec-dirs"};
  }
  if (entry->second.files.size() > 1) {
    return Error{ErrorCode::kUnavailable,
                 name + " is described by " + entry->second.files[0].string() + " and " +
                     entry->second.files[1].string(),
                 "remove one of them"};
  }
  return entry->second.edits;
}

}  // namespace alignd::dra
