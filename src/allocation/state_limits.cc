#include "allocation/state_limits.h"

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/shares_checkpoint.h"
#include "alignd/checkpoint/utf8.h"

namespace alignd::allocation {
namespace {

using admission::NodeState;

// The field names, numbers and punctuation of an entry take less than this.
constexpr size_t kEntryBytes = 256;

// With a comma or colon.
size_t MaxJson(std::string_view text) { return JsonBytes(text) + 1; }

// A file has its content twice, the second time as a JSON text in a JSON string: at most twice as
// long.
constexpr size_t kTimesContent = 3;
constexpr auto kLongestForm = checkpoint::StateForm::kData;

size_t MaxCpuText(const cpumanager::CpuState& state) {
  size_t bytes = kEntryBytes + 8 * static_cast<size_t>(state.default_set.Count());
  for (const auto& [uid, containers] : state.assignments) {
    bytes += MaxJson(uid) + kEntryBytes;
    for (const auto& [container, cpus] : containers) {
      bytes += MaxJson(container) + kEntryBytes + 8 * static_cast<size_t>(cpus.Count());
    }
  }
  for (const auto& [uid, cpus] : state.pods) {
    bytes += MaxJson(uid) + kEntryBytes + 8 * static_cast<size_t>(cpus.Count());
  }
  return kTimesContent * bytes;
}

size_t MaxSharesText(const cpumanager::CpuState& state) {
  size_t bytes = kEntryBytes;
  for (const auto& [key, share] : state.shares) {
    bytes += MaxJson(key.pod_uid) + MaxJson(key.container) + kEntryBytes;
  }
  return bytes;
}

size_t MaxBlocksText(const std::vector<memorymanager::Block>& blocks) {
  size_t bytes = kEntryBytes;
  for (const memorymanager::Block& block : blocks) {
    bytes += kEntryBytes + MaxJson(block.type) + 8 * block.numa_affinity.size();
  }
  return bytes;
}

size_t MaxMemoryText(const memorymanager::MemoryState& state) {
  size_t bytes = kEntryBytes;
  for (const auto& [uid, containers] : state.assignments) {
    bytes += MaxJson(uid) + kEntryBytes;
    for (const auto& [container, blocks] : containers) {
      bytes += MaxJson(container) + MaxBlocksText(blocks);
    }
  }
  for (const auto& [uid, blocks] : state.pods) bytes += MaxJson(uid) + MaxBlocksText(blocks);
  return kTimesContent * bytes;
}

Result<Done> RequireShort(std::string_view file, size_t bytes) {
  if (bytes <= kMaxStateBytes) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               std::string(file) + " would be " + std::to_string(bytes) + " bytes, more than the " +
                   std::to_string(kMaxStateBytes) + " that alignd reads after a restart",
               "configure the device plugins to offer fewer devices, shorter ids or shorter "
               "answers, or run fewer containers with devices"};
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const checkpoint::Rune rune = checkpoint::DecodeRune(text);
    if (!rune.valid) return false;
    text.remove_prefix(rune.bytes);
  }
  return true;
}

}  // namespace

// As GoJsonWriter writes it.
size_t JsonBytes(std::string_view text) {
  constexpr size_t kEscape = 6;  // such as \u003c
  size_t bytes = 2;
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const checkpoint::Rune rune = checkpoint::DecodeRune(text.substr(i));
      const bool is_separator = rune.code == 0x2028 || rune.code == 0x2029;
      bytes += rune.valid && !is_separator ? rune.bytes : kEscape;
      i += rune.bytes;
      continue;
    }
    if (c < ' ' || c == '<' || c == '>' || c == '&') {
      bytes += kEscape;  // some control characters take less
    } else {
      bytes += c == '"' || c == '\\' ? 2 : 1;
    }
    ++i;
  }
  return bytes;
}

size_t MaxDeviceFileBytes(const devicemanager::DeviceState& state) {
  size_t bytes = kEntryBytes;
  for (const auto& [key, resources] : state.allocations) {
    for (const auto& [resource, allocation] : resources) {
      bytes += kEntryBytes + MaxJson(key.pod_uid) + MaxJson(key.container) + MaxJson(resource);
      bytes += (allocation.response.size() + 2) / 3 * 4;  // base64
      for (const auto& [node, ids] : allocation.devices) {
        bytes += kEntryBytes;
        for (const std::string& id : ids) bytes += MaxJson(id);
      }
    }
  }
  for (const auto& [name, resource] : state.resources) {
    bytes += kEntryBytes + MaxJson(name);
    for (const auto& [id, device] : resource.devices) bytes += MaxJson(id);
  }
  return bytes;
}

size_t MaxBindingFileBytes(const checkpoint::Bindings& bindings) {
  size_t bytes = kEntryBytes;
  for (const auto& [key, resources] : bindings) {
    const size_t key_bytes = MaxJson(key.pod_uid) + MaxJson(key.container);
    for (const auto& [resource, binding] : resources) {
      bytes += kEntryBytes + key_bytes + MaxJson(resource);
      for (const auto& [id, device] : binding) bytes += MaxJson(id) + MaxJson(device);
    }
  }
  return bytes;
}

Error NotReadBack(const Result<Done>& parsed) {
  return {ErrorCode::kInternal,
          "it would not be read back as it is written" +
              (parsed.ok() ? std::string() : ": " + parsed.error().message),
          "report this to the maintainers of alignd, with the pod's manifest"};
}

Result<Done> RequireName(std::string_view what, std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(what) + " of " + std::to_string(text.size()) +
                     " bytes, more than the " + std::to_string(max_bytes) + " that alignd keeps",
                 "shorten it"};
  }
  if (!IsUtf8(text)) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(what) + " is not UTF-8, and the state files cannot contain it",
                 "use UTF-8"};
  }
  return Done{};
}

Result<Done> RequireNames(const AdmissionRequest& request) {
  const Pod& pod = request.pod;
  Result<Done> sound = RequireName("a pod UID", pod.uid);
  const auto also = [&](std::string_view what, std::string_view text,
                        size_t max_bytes = kMaxNameBytes) {
    if (sound.ok()) sound = RequireName(what, text, max_bytes);
  };
  also("a pod name", pod.name);
  also("a pod namespace", pod.name_space);
  for (const Container& container : pod.containers) {
    also("a container name", container.name);
    // A resource is named DOMAIN/NAME.
    for (const auto& [resource, amount] : container.resources.limits) {
      also("a resource name", resource, 2 * kMaxNameBytes);
    }
    for (const auto& [resource, amount] : container.resources.requests) {
      also("a resource name", resource, 2 * kMaxNameBytes);
    }
  }
  for (const auto& [container, resources] : request.kubelet_allocated) {
    also("a container name", container);
    for (const auto& [resource, ids] : resources) {
      also("a resource name", resource, 2 * kMaxNameBytes);
      for (const std::string& id : ids) also("a device id", id, kMaxDeviceIdBytes);
    }
  }
  return sound;
}

Result<Done> RequireInventory(const devicemanager::DeviceState& state) {
  size_t bytes = 0;
  for (const auto& [name, resource] : state.resources) {
    for (const auto& [id, device] : resource.devices) bytes += id.size();
  }
  if (bytes <= kMaxInventoryBytes) return Done{};
  return Error{ErrorCode::kInvalidArgument,
               "the ids of all plugins' devices would have " + std::to_string(bytes) +
                   " bytes, more than the " + std::to_string(kMaxInventoryBytes) +
                   " that alignd keeps",
               "configure the device plugins to offer fewer devices or shorter ids"};
}

Result<Done> RequireReadable(const NodeState& state) {
  if (MaxDeviceFileBytes(state.devices) > kMaxStateBytes) {
    const size_t bytes = checkpoint::FormatDeviceCheckpoint(state.devices).size();
    if (auto sound = RequireShort("kubelet_internal_checkpoint", bytes); !sound.ok()) return sound;
  }
  // The policies' names are short. cpu_originals has at most the content of two CPU files, and is
  // thus shorter than its limit if they are.
  if (MaxCpuText(state.cpu) > kMaxStateBytes) {
    const size_t bytes =
        checkpoint::FormatCpuCheckpoint("", state.cpu, kLongestForm).size() + kEntryBytes;
    if (auto sound = RequireShort("cpu_manager_state", bytes); !sound.ok()) return sound;
  }
  if (MaxSharesText(state.cpu) > kMaxStateBytes) {
    const size_t bytes =
        checkpoint::FormatSharesCheckpoint(state.cpu.shares, {UINT32_MAX, UINT32_MAX}).size();
    if (auto sound = RequireShort("cpu_shares", bytes); !sound.ok()) return sound;
  }
  if (MaxMemoryText(state.memory) > kMaxStateBytes) {
    const size_t bytes =
        checkpoint::FormatMemoryCheckpoint("", state.memory, kLongestForm).size() + kEntryBytes;
    return RequireShort("memory_manager_state", bytes);
  }
  return Done{};
}

}  // namespace alignd::allocation
