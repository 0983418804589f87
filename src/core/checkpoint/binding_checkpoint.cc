#include "alignd/checkpoint/binding_checkpoint.h"

#include <cstdint>
#include <set>
#include <utility>

#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {
namespace {

struct EntryDocument {
  std::string pod_uid;
  std::string container;
  std::string resource;
  GoMap<std::string, std::string> devices;  // by kubelet-allocated id

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"podUID", "PodUID", "string"}, self.pod_uid);
    visit({"container", "Container", "string"}, self.container);
    visit({"resource", "Resource", "string"}, self.resource);
    visit({"devices", "Devices", "map[string]string"}, self.devices);
  }
};

struct BindingDocument {
  GoSlice<EntryDocument> entries = {{}};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"entries", "Entries", "[]alignd.Binding"}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Over the text without its checksum, so that it depends only on the file's content.
uint64_t ChecksumOf(BindingDocument document) {
  document.checksum = 0;
  return Fnv1a32(GoJsonWriter::ToText(document));
}

Error Corrupt(std::string message) { return {ErrorCode::kCorrupt, std::move(message)}; }

Result<Binding> ToBinding(const EntryDocument& entry) {
  const std::string where = "pod \"" + entry.pod_uid + "\" container \"" + entry.container +
                            "\" resource \"" + entry.resource + "\": ";
  if (entry.pod_uid.empty() || entry.container.empty() || entry.resource.empty()) {
    return Corrupt(where + "a name is missing");
  }
  if (!entry.devices || entry.devices->empty()) return Corrupt(where + "no devices");
  std::set<std::string> devices;
  for (const auto& [kubelet_id, device] : *entry.devices) {
    if (kubelet_id.empty() || device.empty()) return Corrupt(where + "an id is empty");
    if (!devices.insert(device).second) {
      return Corrupt(where + "device \"" + device + "\" belongs to two ids");
    }
  }
  return Binding(*entry.devices);
}

}  // namespace

std::string FormatBindingCheckpoint(const Bindings& bindings) {
  BindingDocument document;
  for (const auto& [key, resources] : bindings) {
    for (const auto& [resource, binding] : resources) {
      document.entries->push_back({key.pod_uid, key.container, resource, binding});
    }
  }
  document.checksum = ChecksumOf(document);
  return GoJsonWriter::ToText(document);
}

Result<Bindings> ParseBindingCheckpoint(std::string_view text) {
  BindingDocument document;
  if (const Result<Done> read = GoJsonReader::Read(text, document); !read.ok()) {
    return read.error();
  }
  const uint64_t computed = ChecksumOf(document);
  if (computed != document.checksum) {
    return Corrupt("checkpoint is corrupted: its checksum is " + std::to_string(document.checksum) +
                   ", its content has " + std::to_string(computed));
  }
  Bindings bindings;
  if (!document.entries) return bindings;
  for (const EntryDocument& entry : *document.entries) {
    Result<Binding> binding = ToBinding(entry);
    if (!binding.ok()) return binding.error();
    const auto [place, is_new] =
        bindings[{entry.pod_uid, entry.container}].try_emplace(entry.resource, *std::move(binding));
    if (!is_new) {
      return Corrupt("pod \"" + entry.pod_uid + "\" container \"" + entry.container +
                     "\" resource \"" + entry.resource + "\": a second entry");
    }
  }
  return bindings;
}

}  // namespace alignd::checkpoint
