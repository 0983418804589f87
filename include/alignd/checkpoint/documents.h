// The kubelet's three state files as typed documents, which are hashed, read and written. Null and
// empty differ in them. {cpu,memory,device}_checkpoint.h convert them to the managers' states.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/go_types.h"
#include "alignd/config/kubelet_config.h"

namespace alignd::checkpoint {

enum class CheckpointKind { kCpu, kMemory, kDevice };

// The file's name in the kubelet's root directory, or in its device-plugins directory:
// `cpu_manager_state`, `memory_manager_state`, `kubelet_internal_checkpoint`.
std::string_view FileNameOf(CheckpointKind kind);

// What the operator can do about a file that does not verify: the kubelet's text, and that alignd
// rebuilds it.
std::string_view RemedyOf(CheckpointKind kind);

// The forms of cpu_manager_state and memory_manager_state. The device file has one form.
enum class StateForm {
  kPlain,     // CPU version 2, memory version 1: kubelets up to 1.36
  kPodLevel,  // CPU 3, memory 2: kubelet 1.36 with the feature gate PodLevelResourceManagers
  kData,  // CPU 4, memory 3: kubelets from 1.37 on. The plain form for older kubelets, then `data`,
          // a text that contains everything once more; later kubelets read only `data`.
};

// The form in which alignd writes the files under that configuration.
StateForm FormOf(const KubeletConfig& config);

// The version of the file's format, in the kubelet's counting.
int VersionOf(CheckpointKind kind, StateForm form);

// The CPUs of a pod as a whole: a list in JSON, a set in the text that is hashed.
struct CpuPodDocument {
  CpuSet cpus;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"cpuSet", "CPUSet", "cpuset.CPUSet", true}, self.cpus);
  }
};

// What cpu_manager_state contains in any form; its fields are those of `data`. A missing field
// keeps the initial value. Source: kubelet pkg/kubelet/cm/cpumanager/state/checkpoint.go,
// CPUManagerCheckpointData.
struct CpuDocument {
  std::string policy_name;
  std::string default_cpu_set;
  // pod UID -> container name -> CPU list
  GoMap<std::string, GoMap<std::string, std::string>> entries = {{}};
  GoMap<std::string, CpuPodDocument> pod_entries = {{}};  // pod UID -> CPUs; not in the plain form

  template <typename Self, typename Visitor>
  static void PlainFields(Self& self, Visitor&& visit) {
    visit({"policyName", "PolicyName", "string"}, self.policy_name);
    visit({"defaultCpuSet", "DefaultCPUSet", "string"}, self.default_cpu_set);
    visit({"entries", "Entries", "map[string]map[string]string", true}, self.entries);
  }
  template <typename Self, typename Visitor>
  static void PodFields(Self& self, Visitor&& visit) {
    visit({"podEntries", "PodEntries", "state.PodCPUAssignments", true}, self.pod_entries);
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    PlainFields(self, visit);
    PodFields(self, visit);
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

// The memory of a pod as a whole.
struct MemoryPodDocument {
  GoSlice<BlockDocument> memory_blocks;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    visit({"memoryBlocks", "MemoryBlocks", "[]state.Block", true}, self.memory_blocks);
  }
};

// What memory_manager_state contains in any form; its fields are those of `data`.
// Source: kubelet pkg/kubelet/cm/memorymanager/state/checkpoint.go, MemoryManagerCheckpointData.
struct MemoryDocument {
  std::string policy_name;
  GoMap<int64_t, GoPointer<NumaMemoryDocument>> machine_state = {{}};  // by NUMA node id
  // pod UID -> container name -> blocks
  GoMap<std::string, GoMap<std::string, GoSlice<BlockDocument>>> entries = {{}};
  GoMap<std::string, MemoryPodDocument> pod_entries = {{}};  // by pod UID; not in the plain form

  template <typename Self, typename Visitor>
  static void PlainFields(Self& self, Visitor&& visit) {
    visit({"policyName", "PolicyName", "string"}, self.policy_name);
    visit({"machineState", "MachineState", "state.NUMANodeMap"}, self.machine_state);
    visit({"entries", "Entries", "state.ContainerMemoryAssignments", true}, self.entries);
  }
  template <typename Self, typename Visitor>
  static void PodFields(Self& self, Visitor&& visit) {
    visit({"podEntries", "PodEntries", "state.PodMemoryAssignments", true}, self.pod_entries);
  }
  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    PlainFields(self, visit);
    PodFields(self, visit);
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

// The checksum of the plain form, and of the device file: what the kubelet writes in `checksum`.
uint32_t ChecksumOf(const CpuDocument& document);
uint32_t ChecksumOf(const MemoryDocument& document);
uint32_t ChecksumOf(const DeviceDocument& document);

// The whole file with its checksums. One line, no line end. In the plain form, and in the part of
// the form `kData` for older kubelets, pod entries are left out.
std::string ToText(const CpuDocument& document, StateForm form);
std::string ToText(const MemoryDocument& document, StateForm form);
std::string ToText(DeviceDocument document);

// A document that verifies, and its checksums.
template <typename Document>
struct Verified {
  Document document;
  uint64_t stored_checksum = 0;  // that of `data` where there is one; 0: nothing was checked
  uint32_t computed_checksum = 0;
  StateForm form = StateForm::kPlain;
  // Whether the part for older kubelets verifies and has the same content, without pod entries.
  // True in the other forms.
  bool plain_part_agrees = true;
  uint64_t plain_checksum = 0;  // as stored in the part for older kubelets; 0 in the other forms
};

// Read a file of any form as kubelet 1.37 does and verify the checksum. A file with `data` or its
// checksum is read by these alone. A checksum of 0 or none is accepted unchecked in the plain form
// only, and not in the device file. Errors: kCorrupt, naming what is wrong and where, and the
// remedy. A CPU file of version 1, from a kubelet before 1.18, is refused with its own text.
// Differs: a memory file in the plain form is also accepted with the checksum of the name
// MemoryManagerCheckpointV1, as kubelet 1.36 does.
// Source: kubelet pkg/kubelet/cm/{cpumanager,memorymanager}/state/state_checkpoint.go.
Result<Verified<CpuDocument>> ReadCpuDocument(std::string_view text);
Result<Verified<MemoryDocument>> ReadMemoryDocument(std::string_view text);
Result<Verified<DeviceDocument>> ReadDeviceDocument(std::string_view text);

}  // namespace alignd::checkpoint
