#include "simulator/device_profile.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace alignd::simulator {
namespace {

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) {
    text.replace(at, what.size(), with);
    at += with.size();
  }
}

// The allocated devices, and the texts of an answer filled in for them.
class Filler {
 public:
  Filler(const DeviceProfile& profile, const v1beta1::ContainerAllocateRequest& request) {
    std::map<std::string, size_t> index_of;
    for (size_t i = 0; i < profile.devices.size(); ++i) index_of.emplace(profile.devices[i].id, i);
    for (const std::string& id : request.devices_ids()) {
      const auto place = index_of.find(id);
      devices_.emplace_back(
          id, place == index_of.end() ? std::string() : std::to_string(place->second));
      ids_ += (ids_.empty() ? "" : ",") + id;
    }
  }

  // Calls `add` with `texts` filled in: once for each device where they speak of one.
  template <typename Add>
  void ForEach(const std::vector<std::string>& texts, const Add& add) const {
    const auto speaks_of_one = [](const std::string& text) {
      return text.find("{id}") != std::string::npos || text.find("{index}") != std::string::npos;
    };
    if (std::none_of(texts.begin(), texts.end(), speaks_of_one)) {
      add(Fill(texts, "", ""));
      return;
    }
    for (const auto& [id, index] : devices_) add(Fill(texts, id, index));
  }

 private:
  std::vector<std::string> Fill(std::vector<std::string> texts, const std::string& id,
                                const std::string& index) const {
    for (std::string& text : texts) {
      ReplaceAll(text, "{ids}", ids_);
      ReplaceAll(text, "{id}", id);
      ReplaceAll(text, "{index}", index);
    }
    return texts;
  }

  std::vector<std::pair<std::string, std::string>> devices_;  // id, index
  std::string ids_;
};

Error BadText(std::string_view text, std::string_view form) {
  return {ErrorCode::kInvalidArgument,
          "\"" + std::string(text) + "\" is not of the form " + std::string(form)};
}

Result<std::vector<int64_t>> ParseNumbers(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (error != std::errc() || end != part.data() + part.size()) return BadText(text, "N[,N...]");
    numbers.push_back(number);
    if (part.size() == text.size()) return numbers;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

std::string DeviceProfile::SocketName() const {
  if (!socket.empty()) return socket;
  std::string name = resource;
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".sock";
}

Result<SimulatedDevice> ParseDevice(std::string_view text) {
  constexpr std::string_view kForm = "ID[:numa=N[,N...]][:unhealthy]";
  constexpr std::string_view kNuma = "numa=";
  SimulatedDevice device;
  std::string_view rest = text;
  while (true) {
    const size_t colon = rest.rfind(':');
    const std::string_view last =
        colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
    if (last == "unhealthy") {
      device.healthy = false;
    } else if (last.substr(0, kNuma.size()) == kNuma) {
      Result<std::vector<int64_t>> numa = ParseNumbers(last.substr(kNuma.size()));
      if (!numa.ok()) return BadText(text, kForm);
      device.numa = *std::move(numa);
    } else {
      break;
    }
    rest = rest.substr(0, colon);
  }
  if (rest.empty()) return BadText(text, kForm);
  device.id = rest;
  return device;
}

Result<PathPair> ParsePathPair(std::string_view text) {
  constexpr std::string_view kForm = "HOST:CONTAINER[:FLAGS]";
  const size_t first = text.find(':');
  if (first == 0 || first == std::string_view::npos) return BadText(text, kForm);
  const size_t second = text.find(':', first + 1);
  PathPair pair{.host = std::string(text.substr(0, first)),
                .container = std::string(text.substr(first + 1, second - first - 1)),
                .flags = {}};
  if (second != std::string_view::npos) pair.flags = text.substr(second + 1);
  if (pair.container.empty() || pair.flags.find(':') != std::string::npos) {
    return BadText(text, kForm);
  }
  return pair;
}

Result<std::pair<std::string, std::string>> ParseNameValue(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos) return BadText(text, "NAME=VALUE");
  return std::pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
}

v1beta1::ListAndWatchResponse ListOf(const std::vector<SimulatedDevice>& devices) {
  v1beta1::ListAndWatchResponse list;
  for (const SimulatedDevice& device : devices) {
    v1beta1::Device& announced = *list.add_devices();
    announced.set_id(device.id);
    announced.set_health(device.healthy ? "Healthy" : "Unhealthy");
    for (const int64_t node : device.numa) {
      announced.mutable_topology()->add_nodes()->set_id(node);
    }
  }
  return list;
}

v1beta1::ContainerAllocateResponse AnswerTo(const DeviceProfile& profile,
                                            const v1beta1::ContainerAllocateRequest& request) {
  using Texts = std::vector<std::string>;
  v1beta1::ContainerAllocateResponse answer;
  const Filler filler(profile, request);
  for (const auto& [name, value] : profile.envs) {
    filler.ForEach({name, value},
                   [&](const Texts& texts) { (*answer.mutable_envs())[texts[0]] = texts[1]; });
  }
  for (const PathPair& node : profile.device_nodes) {
    filler.ForEach({node.host, node.container}, [&](const Texts& texts) {
      v1beta1::DeviceSpec& device = *answer.add_devices();
      device.set_host_path(texts[0]);
      device.set_container_path(texts[1]);
      device.set_permissions(node.flags.empty() ? "rw" : node.flags);
    });
  }
  for (const PathPair& pair : profile.mounts) {
    filler.ForEach({pair.host, pair.container}, [&](const Texts& texts) {
      v1beta1::Mount& mount = *answer.add_mounts();
      mount.set_host_path(texts[0]);
      mount.set_container_path(texts[1]);
      mount.set_read_only(pair.flags == "ro");
    });
  }
  for (const auto& [name, value] : profile.annotations) {
    filler.ForEach({name, value}, [&](const Texts& texts) {
      (*answer.mutable_annotations())[texts[0]] = texts[1];
    });
  }
  for (const std::string& name : profile.cdi_devices) {
    filler.ForEach({name},
                   [&](const Texts& texts) { answer.add_cdi_devices()->set_name(texts[0]); });
  }
  return answer;
}

v1beta1::ContainerPreferredAllocationResponse PreferenceFor(
    const DeviceProfile& profile, const v1beta1::ContainerPreferredAllocationRequest& request) {
  v1beta1::ContainerPreferredAllocationResponse answer;
  const auto& include = request.must_include_deviceids();
  const std::set<std::string> included(include.begin(), include.end());
  for (const std::string& id : included) answer.add_deviceids(id);
  const auto& ids = request.available_deviceids();
  const std::set<std::string> available(ids.begin(), ids.end());
  for (auto device = profile.devices.rbegin(); device != profile.devices.rend(); ++device) {
    if (answer.deviceids_size() >= request.allocation_size()) break;
    if (available.contains(device->id) && !included.contains(device->id)) {
      answer.add_deviceids(device->id);
    }
  }
  return answer;
}

}  // namespace alignd::simulator
