// The files of a kubelet, DRA drivers and a kernel with devices of claims: drivers example.com and
// others, CDI names example.com/gpu=N, device nodes /dev/gpuN.
#pragma once

#include <cstdint>
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

  // The device gpuN of driver example.com, without its files.
  static dra::PreparedDevice Gpu(const std::string& number) {
    return {"example.com", "node", "gpu" + number, {"example.com/gpu=" + number}};
  }

  // A device of the kernel and its specification.
  void AddGpu(const std::string& number, int numa_node) const {
    const std::string name = "gpu" + number;
    const std::string directory = "sys/devices/pci0000:00/0000:0" + number + ":00.0";
    Write({directory + "/numa_node", std::to_string(numa_node) + "\n"});
    Write({directory + "/gpu/" + name + "/uevent", "DEVNAME=" + name + "\n"});
    Write(FakeEntry::Link("sys/dev/char/500:" + number, "../../../" + directory + "/gpu/" + name));
    Specify("example.com/gpu", number, {{"deviceNodes", {{{"path", "/dev/" + name}}}}});
  }

  // Metadata of a claim (KEP-5304) as a CDI device of the kind KIND.
  void AddMetadata(const std::string& kind, const std::string& name,
                   const std::string& text) const {
    const std::string file =
        "kubelet/plugins/example.com/dra-device-metadata/ns_" + name + "/gpus/metadata.json";
    Write({file, text});
    Specify(kind, name, {{"mounts", {{{"hostPath", root() / file}}}}});
  }

  // Writes dra_manager_state with one claim of one request. "": the driver names none.
  void Prepare(const std::string& pod_uid, const std::vector<dra::PreparedDevice>& prepared,
               const std::string& name = "gpus", const std::string& request = "gpus") const {
    using nlohmann::json;
    json drivers = json::object();
    const json requests = request.empty() ? json::array() : json::array({request});
    for (const dra::PreparedDevice& device : prepared) {
      drivers[device.driver]["Devices"].push_back({{"PoolName", device.pool},
                                                   {"DeviceName", device.name},
                                                   {"RequestNames", requests},
                                                   {"CDIDeviceIDs", device.cdi_names}});
    }
    const json claim = {{"ClaimName", name},
                        {"Namespace", "default"},
                        {"PodUIDs", {{pod_uid, json::object()}}},
                        {"DriverState", drivers}};
    const std::string data = json{{"ClaimInfoStateList", {claim}}}.dump();
    Write({"kubelet/dra_manager_state", json{{"Data", data}, {"Checksum", Checksum(data)}}.dump()});
  }

  void Specify(const std::string& kind, const std::string& name,
               const nlohmann::json& edits) const {
    const nlohmann::json spec = {{"cdiVersion", "0.5.0"},
                                 {"kind", kind},
                                 {"devices", {{{"name", name}, {"containerEdits", edits}}}}};
    Write({"cdi/" + kind.substr(kind.find('/') + 1) + "-" + name + ".json", spec.dump()});
  }

 private:
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
