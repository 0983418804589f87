// The files of a kubelet, a DRA driver and a kernel with devices that a claim has: CDI names
// example.com/gpu=N, device nodes /dev/gpuN.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dra/claimed_devices.h"
#include "edge/fake_tree.h"

namespace alignd::testing {

class ClaimsTree : public FakeTree {
 public:
  ClaimsTree() : FakeTree() {}

  dra::Places places() const {
    return {.cdi_directories = {root() / "cdi"},
            .prepared_claims = root() / "kubelet/dra_manager_state",
            .root = root()};
  }

  // A device of the kernel and its specification.
  void AddDevice(const std::string& number, int numa_node) const {
    const std::string name = "gpu" + number;
    const std::string directory = "sys/devices/pci0000:00/0000:0" + number + ":00.0";
    Write({directory + "/numa_node", std::to_string(numa_node) + "\n"});
    Write({directory + "/gpu/" + name + "/uevent", "DEVNAME=" + name + "\n"});
    Write(FakeEntry::Link("sys/dev/char/500:" + number, "../../../" + directory + "/gpu/" + name));
    Specify("gpu", number, {{"deviceNodes", {{{"path", "/dev/" + name}}}}});
  }

  // The metadata of a claim's request (KEP-5304), as a CDI device of the kind metadata.
  void AddMetadata(const std::string& name, const std::string& text) const {
    const std::string file = "kubelet/plugins/example.com/dra-device-metadata/ns_claim/gpus/";
    Write({file + "metadata.json", text});
    Specify("metadata", name, {{"mounts", {{{"hostPath", root() / (file + "metadata.json")}}}}});
  }

  // Writes dra_manager_state: the numbers of the devices of each claim in namespace `name_space`.
  void Prepare(const std::string& pod_uid,
               const std::map<std::string, std::vector<std::string>>& devices_by_claim,
               const std::string& name_space = "ns") const {
    using nlohmann::json;
    json entries = json::array();
    for (const auto& [claim, numbers] : devices_by_claim) {
      json devices = json::array();
      for (const std::string& number : numbers) {
        devices.push_back(
            {{"RequestNames", {"gpus"}}, {"CDIDeviceIDs", {"example.com/gpu=" + number}}});
      }
      entries.push_back({{"ClaimName", claim},
                         {"Namespace", name_space},
                         {"PodUIDs", {{pod_uid, json::object()}}},
                         {"DriverState", {{"example.com", {{"Devices", devices}}}}}});
    }
    const std::string data = json{{"Entries", entries}}.dump();
    Write({"kubelet/dra_manager_state", json{{"Data", data}, {"Checksum", Checksum(data)}}.dump()});
  }

 private:
  void Specify(const std::string& kind, const std::string& name,
               const nlohmann::json& edits) const {
    const nlohmann::json spec = {{"cdiVersion", "0.5.0"},
                                 {"kind", "example.com/" + kind},
                                 {"devices", {{{"name", name}, {"containerEdits", edits}}}}};
    Write({"cdi/" + kind + "-" + name + ".json", spec.dump()});
  }

  // CRC-32 by the polynomial division of its definition.
  static uint32_t Checksum(const std::string& text) {
    uint32_t remainder = 0xFFFFFFFF;
    for (const char c : text) {
      for (int bit = 0; bit < 8; ++bit) {
        const uint32_t next = (static_cast<unsigned char>(c) >> bit & 1U) ^ (remainder & 1U);
        remainder = remainder >> 1 ^ (next != 0 ? 0xEDB88320U : 0U);
      }
    }
    return ~remainder;
  }
};

}  // namespace alignd::testing
