#include "alignd/checkpoint/go_checksum.h"

#include <gtest/gtest.h>

#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {
namespace {

TEST(Fnv1a32, AgreesWithItsPublishedValues) {
  EXPECT_EQ(Fnv1a32(""), 0x811c9dc5U);
  EXPECT_EQ(Fnv1a32("a"), 0xe40c292cU);
  EXPECT_EQ(Fnv1a32("foobar"), 0xbf9cf968U);
  EXPECT_EQ(Fnv1a32("\xff"), (2166136261U ^ 0xFFU) * 16777619U);  // bytes are not signed
}

TEST(GoPrinter, PrintsTheCpuFileAsGoDoes) {
  CpuDocument document{"static", "0,4-27", {{{"pod", {{{"app", "1-3"}, {"b", ""}}}}}}, {{}}};
  (*document.pod_entries)["q"].cpus = CpuSet{4, 5};
  EXPECT_EQ(
      GoPrinter::PointerToStruct("state.CPUManagerCheckpoint", document),
      "(*state.CPUManagerCheckpoint){PolicyName:(string)static DefaultCPUSet:(string)0,4-27 "
      "Entries:(map[string]map[string]string)map[pod:map[app:1-3 b:]] "
      "PodEntries:(state.PodCPUAssignments)map[q:{CPUSet:(cpuset.CPUSet){elems:(map[int]struct "
      "{})map[4:{} 5:{}]}}]}");
}

TEST(GoPrinter, PrintsTheMemoryFileAsGoDoes) {
  MemoryDocument document;
  document.policy_name = "Static";
  NumaMemoryDocument node;
  node.number_of_assignments = 1;
  node.memory_map = {{{"memory", MemoryTableDocument{1000, 100, 900, 50, 850}}}};
  node.cells = {{0}};
  document.machine_state = {{{0, node}}};
  document.entries = {{{"u1", {{{"app", {{BlockDocument{{{0}}, "memory", 50}}}}}}}}};
  document.pod_entries = {{{"q", {{{BlockDocument{{{0}}, "memory", 60}}}}}}};
  EXPECT_EQ(
      GoPrinter::PointerToStruct("state.MemoryManagerCheckpoint", document),
      "(*state.MemoryManagerCheckpoint){PolicyName:(string)Static "
      "MachineState:(state.NUMANodeMap)map[0:<*>{NumberOfAssignments:(int)1 "
      "MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map[memory:<*>{TotalMemSize:(uint64)"
      "1000 SystemReserved:(uint64)100 Allocatable:(uint64)900 Reserved:(uint64)50 "
      "Free:(uint64)850}] Cells:([]int)[0]}] "
      "Entries:(state.ContainerMemoryAssignments)map[u1:map[app:[{NUMAAffinity:([]int)[0] "
      "Type:(v1.ResourceName)memory Size:(uint64)50}]]] PodEntries:(state.PodMemoryAssignments)map["
      "q:{MemoryBlocks:([]state.Block)[{NUMAAffinity:([]int)[0] Type:(v1.ResourceName)memory "
      "Size:(uint64)60}]}]}");
}

TEST(GoPrinter, PrintsTheDeviceDataAsGoDoes) {
  DeviceDataDocument data;
  data.pod_device_entries = {{DeviceEntryDocument{
      "u1", "app", "r/x", {{{0, {{"d1", "d2"}}}}}, {std::string("\x0a\x00\xff", 3)}}}};
  data.registered_devices = {{{"r/x", {{"d1", "d2"}}}}};
  EXPECT_EQ(GoPrinter::Struct("checkpoint.checkpointData", data),
            "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:("
            "string)u1 ContainerName:(string)app ResourceName:(string)r/x "
            "DeviceIDs:(checkpoint.DevicesPerNUMA)map[0:[d1 d2]] AllocResp:([]uint8)[10 0 255]}] "
            "RegisteredDevices:(map[string][]string)map[r/x:[d1 d2]]}");
}

TEST(GoPrinter, SortsNumberKeysByNumber) {
  DeviceDataDocument data;
  data.pod_device_entries = {
      {DeviceEntryDocument{"", "", "", {{{10, {}}, {2, {{}}}, {-1, {{"a"}}}}}, {}}}};
  EXPECT_EQ(GoPrinter::Struct("t", data),
            "(t){PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{PodUID:(string) "
            "ContainerName:(string) ResourceName:(string) "
            "DeviceIDs:(checkpoint.DevicesPerNUMA)map[-1:[a] 2:[] 10:<nil>] AllocResp:([]uint8)"
            "<nil>}] RegisteredDevices:(map[string][]string)map[]}");
}

TEST(GoPrinter, HidesTheTypeBehindALastNullPointer) {
  MemoryDocument document;
  NumaMemoryDocument node;
  node.memory_map = {{{"memory", {}}}};
  document.machine_state = {{{0, node}, {1, {}}}};
  EXPECT_EQ(GoPrinter::PointerToStruct("t", document),
            "(*t){PolicyName:(string) MachineState:(state.NUMANodeMap)map[0:<*>{"
            "NumberOfAssignments:(int)0 MemoryMap:(map[v1.ResourceName]*state.MemoryTable)map["
            "memory:<nil>] Cells:<nil>} 1:<nil>] Entries:map[] "
            "PodEntries:(state.PodMemoryAssignments)map[]}");
}

TEST(GoPrinter, ShowsTheTypeAgainAfterAnythingUntyped) {
  MemoryDocument document;
  document.machine_state = {{{0, {}}, {1, NumaMemoryDocument{}}}};
  EXPECT_EQ(GoPrinter::PointerToStruct("t", document),
            "(*t){PolicyName:(string) MachineState:(state.NUMANodeMap)map[0:<nil> 1:<*>{"
            "NumberOfAssignments:(int)0 MemoryMap:(map[v1.ResourceName]*state.MemoryTable)<nil> "
            "Cells:([]int)<nil>}] Entries:(state.ContainerMemoryAssignments)map[] "
            "PodEntries:(state.PodMemoryAssignments)map[]}");
}

}  // namespace
}  // namespace alignd::checkpoint
