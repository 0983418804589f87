// The kubelet's three state files as typed documents, which are hashed, read and written. Null and
// empty differ in them. {cpu,memory,device}_checkpoint.h convert them to the managers' states.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/checkpoint/go_types.h"

namespace alignd::checkpoint {

enum class CheckpointKind { kCpu, kMemory, kDevice };

// The file's name in the kubelet's root directory, or in its device-plugins directory:
// `cpu_manager_state`, `memory_manager_state`, `kubelet_internal_checkpoint`.
std::string_view FileNameOf(CheckpointKind kind);

// What the operator can do about a file that does not verify. The kubelet's text where it has one.
std::string_view RemedyOf(CheckpointKind kind);

// cpu_manager_state, version 2. A missing field keeps the initial value.
// Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go, CPUManagerCheckpointV2.
struct CpuDocument {
  std::string policy_name;
  std::string default_cpu_set;
  // pod UID -> container name -> CPU list
  GoMap<std::string, GoMap<std::string, std::string>> entries = {{}};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"policyName", "PolicyName", "string"}, self.policy_name);
    visit({"defaultCpuSet", "DefaultCPUSet", "string"}, self.default_cpu_set);
    visit({"entries", "Entries", "map[string]map[string]string", true}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Bytes of one memory type on one NUMA node.
struct MemoryTableDocument {
  uint64_t total = 0;
  uint64_t system_reserved = 0;
  uint64_t allocatable = 0;
  uint64_t reserved = 0;
  uint64_t free = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"total", "TotalMemSize", "uint64"}, self.total);
    visit({"systemReserved", "SystemReserved", "uint64"}, self.system_reserved);
    visit({"allocatable", "Allocatable", "uint64"}, self.allocatable);
    visit({"reserved", "Reserved", "uint64"}, self.reserved);
    visit({"free", "Free", "uint64"}, self.free);
  }
};

struct NumaMemoryDocument {
  int64_t number_of_assignments = 0;
  GoMap<std::string, GoPointer<MemoryTableDocument>> memory_map;  // by type
  GoSlice<int64_t> cells;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"numberOfAssignments", "NumberOfAssignments", "int"}, self.number_of_assignments);
    visit({"memoryMap", "MemoryMap", "map[v1.ResourceName]*state.MemoryTable"}, self.memory_map);
    visit({"cells", "Cells", "[]int"}, self.cells);
  }
};

struct BlockDocument {
  GoSlice<int64_t> numa_affinity;
  std::string type;
  uint64_t size = 0;  // bytes

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"numaAffinity", "NUMAAffinity", "[]int"}, self.numa_affinity);
    visit({"type", "Type", "v1.ResourceName"}, self.type);
    visit({"size", "Size", "uint64"}, self.size);
  }
};

// memory_manager_state.
// Source: kubelet pkg/kubelet/cm/memorymanager/state/checkpoint.go, MemoryManagerCheckpointV1.
struct MemoryDocument {
  std::string policy_name;
  GoMap<int64_t, GoPointer<NumaMemoryDocument>> machine_state = {{}};  // by NUMA node id
  // pod UID -> container name -> blocks
  GoMap<std::string, GoMap<std::string, GoSlice<BlockDocument>>> entries = {{}};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"policyName", "PolicyName", "string"}, self.policy_name);
    visit({"machineState", "MachineState", "state.NUMANodeMap"}, self.machine_state);
    visit({"entries", "Entries", "state.ContainerMemoryAssignments", true}, self.entries);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

struct DeviceEntryDocument {
  std::string pod_uid;
  std::string container_name;
  std::string resource_name;
  GoMap<int64_t, GoSlice<std::string>> device_ids;  // by NUMA node id, -1: no topology
  GoBytes alloc_resp;  // a serialised v1beta1.ContainerAllocateResponse

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"PodUID", "PodUID", "string"}, self.pod_uid);
    visit({"ContainerName", "ContainerName", "string"}, self.container_name);
    visit({"ResourceName", "ResourceName", "string"}, self.resource_name);
    visit({"DeviceIDs", "DeviceIDs", "checkpoint.DevicesPerNUMA"}, self.device_ids);
    visit({"AllocResp", "AllocResp", "[]uint8"}, self.alloc_resp);
  }
};

struct DeviceDataDocument {
  GoSlice<DeviceEntryDocument> pod_device_entries = {{}};
  GoMap<std::string, GoSlice<std::string>> registered_devices = {{}};  // resource -> healthy ids

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"PodDeviceEntries", "PodDeviceEntries", "[]checkpoint.PodDevicesEntry"},
          self.pod_device_entries);
    visit({"RegisteredDevices", "RegisteredDevices", "map[string][]string"},
          self.registered_devices);
  }
};

// kubelet_internal_checkpoint. The checksum covers `data` alone.
// Source: kubelet pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go, Data.
struct DeviceDocument {
  DeviceDataDocument data;
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"Data", "Data", "checkpoint.checkpointData"}, self.data);
    visit({"Checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// The checksum that the kubelet writes for the content without the field `checksum`.
uint32_t ChecksumOf(const CpuDocument& document);
uint32_t ChecksumOf(const MemoryDocument& document);
uint32_t ChecksumOf(const DeviceDocument& document);

// The whole file, with the checksum of the content in place of `checksum`. One line, no line end.
std::string ToText(CpuDocument document);
std::string ToText(MemoryDocument document);
std::string ToText(DeviceDocument document);

// A document that verifies, and its checksums.
template <typename Document>
struct Verified {
  Document document;
  uint64_t stored_checksum = 0;  // 0: nothing was checked
  uint32_t computed_checksum = 0;
};

// Reads a file as kubelet 1.36 does and verifies the checksum. A checksum of 0 or none is accepted
// unchecked in the CPU and memory files, not in the device file.
// Errors: kCorrupt, naming what is wrong and where, and the remedy.
// Differs: a CPU file of version 1, from a kubelet before 1.18, is refused; the kubelet migrates
// it.
Result<Verified<CpuDocument>> ReadCpuDocument(std::string_view text);
Result<Verified<MemoryDocument>> ReadMemoryDocument(std::string_view text);
Result<Verified<DeviceDocument>> ReadDeviceDocument(std::string_view text);

}  // namespace alignd::checkpoint
