#include "cri/allocate_response.h"

#include <google/protobuf/map.h>
#include <google/protobuf/repeated_ptr_field.h>

#include <utility>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::cri {
namespace {

struct Claim {
  std::string resource;
  std::string text;  // the value, as a conflict shows it
};

// Which resource claimed which place, in one merge.
class Merger {
 public:
  explicit Merger(MergedResponse& merged) : merged_(merged) {}

  void Add(const std::string& resource, const v1beta1::ContainerAllocateResponse& answer) {
    AddPairs(resource, "env ", answer.envs(), merged_.envs);
    for (const v1beta1::Mount& mount : answer.mounts()) {
      const std::string text = mount.host_path() + (mount.read_only() ? " ro" : " rw");
      if (!MayHave("mount " + mount.container_path(), {resource, text})) continue;
      merged_.mounts.push_back({mount.container_path(), mount.host_path(), mount.read_only()});
    }
    for (const v1beta1::DeviceSpec& node : answer.devices()) {
      const std::string text = node.host_path() + " " + node.permissions();
      if (!MayHave("device " + node.container_path(), {resource, text})) continue;
      merged_.devices.push_back({node.container_path(), node.host_path(), node.permissions()});
    }
    AddPairs(resource, "annotation ", answer.annotations(), merged_.annotations);
    for (const v1beta1::CDIDevice& device : answer.cdi_devices()) {
      if (!MayHave("CDI device " + device.name(), {resource, ""})) continue;
      merged_.cdi_devices.push_back(device.name());
    }
  }

 private:
  void AddPairs(const std::string& resource, const std::string& kind,
                const google::protobuf::Map<std::string, std::string>& pairs,
                std::map<std::string, std::string>& into) {
    // A protobuf map has no order; conflicts are to be found in the same order each time.
    const std::map<std::string, std::string> sorted(pairs.begin(), pairs.end());
    for (const auto& [key, value] : sorted) {
      if (MayHave(kind + key, {resource, value})) into.emplace(key, value);
    }
  }

  // Whether the place was free. If it was not, and the two values differ, adds a conflict.
  bool MayHave(const std::string& place, Claim claim) {
    const auto [first, was_free] = claims_.emplace(place, claim);
    if (was_free) return true;
    const Claim& kept = first->second;
    if (kept.text != claim.text) {
      merged_.conflicts.push_back(
          {place, kept.resource, kept.text, std::move(claim.resource), std::move(claim.text)});
    }
    return false;
  }

  MergedResponse& merged_;
  std::map<std::string, Claim> claims_;  // by place, as "env A"
};

}  // namespace

std::string MergeConflict::ToString() const {
  return what + ": \"" + kept + "\" of " + kept_resource + " is kept, \"" + dropped + "\" of " +
         dropped_resource + " is dropped";
}

Result<MergedResponse> MergeResponses(const std::map<std::string, std::string>& responses) {
  MergedResponse merged;
  Merger merger(merged);
  for (const auto& [resource, bytes] : responses) {
    v1beta1::ContainerAllocateResponse answer;
    if (!answer.ParseFromString(bytes)) {
      return Error{ErrorCode::kCorrupt,
                   "stored answer of the device plugin for " + resource +
                       ": not a ContainerAllocateResponse (" + std::to_string(bytes.size()) +
                       " bytes)",
                   "delete the pod: a new one gets a new answer"};
    }
    merger.Add(resource, answer);
  }
  return merged;
}

}  // namespace alignd::cri
