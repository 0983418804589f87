#include "alignd/checkpoint/documents.h"

#include <gtest/gtest.h>

namespace alignd::checkpoint {
namespace {

template <typename Document>
uint64_t StoredChecksum(const Result<Verified<Document>>& read) {
  return read.ok() ? read->stored_checksum : 0;
}

TEST(CpuDocumentText, IsWrittenAsTheKubeletWritesIt) {
  EXPECT_EQ(ToText(CpuDocument{"none", "", {{}}, {{}}}, StateForm::kPlain),
            R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})");
}

TEST(CpuDocumentText, IsReadAsVersion2) {
  const auto read = ReadCpuDocument(R"({"policyName":"none","checksum":1353318690})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->stored_checksum, 1353318690U);
  EXPECT_EQ(read->computed_checksum, 1353318690U);
}

constexpr const char* kBefore118 =
    "the file is from a kubelet before 1.18 and names containers by the runtime's ids; this format "
    "is not supported";

// Without entries the two versions differ only in the checksum.
TEST(CpuDocumentText, OfVersion1WithoutEntriesIsRecognisedByItsChecksum) {
  const auto read =
      ReadCpuDocument(R"({"policyName":"static","defaultCpuSet":"0,2,4-7","checksum":2286299009})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, kBefore118);
}

TEST(CpuDocumentText, IsAcceptedUncheckedWithoutAChecksum) {
  for (const char* text : {R"({"policyName":"none"})", R"({"checksum":0})", "null"}) {
    const auto read = ReadCpuDocument(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(read->stored_checksum, 0U);
  }
}

TEST(CpuDocumentText, IsAcceptedWithTheChecksumUnderTheInnerTypeName) {
  const std::string hashed =
      "(*state.CPUManagerCheckpointV2){PolicyName:(string)none DefaultCPUSet:(string) "
      "Entries:(map[string]map[string]string)map[] Checksum:(checksum.Checksum)0}";
  uint32_t checksum = 2166136261;  // FNV-1a, written out
  for (const char c : hashed) checksum = (checksum ^ static_cast<unsigned char>(c)) * 16777619;
  const auto read =
      ReadCpuDocument(R"({"policyName":"none","checksum":)" + std::to_string(checksum) + "}");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->computed_checksum, checksum);
}

TEST(CpuDocumentText, NullAndMissingEntriesDifferInTheChecksum) {
  const auto read =
      ReadCpuDocument(R"({"policyName":"none","entries":null,"checksum":1353318690})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, "checkpoint is corrupted");
}

struct DocumentErrorCase {
  const char* name;
  CheckpointKind kind;
  const char* text;
  const char* message;
  const char* remedy;  // its beginning
};

Result<Done> Read(CheckpointKind kind, std::string_view text) {
  switch (kind) {
    case CheckpointKind::kCpu: {
      const auto read = ReadCpuDocument(text);
      if (!read.ok()) return read.error();
      return Done{};
    }
    case CheckpointKind::kMemory: {
      const auto read = ReadMemoryDocument(text);
      if (!read.ok()) return read.error();
      return Done{};
    }
    case CheckpointKind::kDevice:
      break;
  }
  const auto read = ReadDeviceDocument(text);
  if (!read.ok()) return read.error();
  return Done{};
}

class DocumentErrors : public testing::TestWithParam<DocumentErrorCase> {};

TEST_P(DocumentErrors, NameTheDamageAndTheRemedy) {
  const Result<Done> read = Read(GetParam().kind, GetParam().text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(read.error().message, GetParam().message);
  EXPECT_EQ(read.error().remedy.substr(0, std::string_view(GetParam().remedy).size()),
            GetParam().remedy);
  EXPECT_TRUE(read.error().remedy.ends_with(RemedyOf(GetParam().kind)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DocumentErrors,
    testing::Values(
        DocumentErrorCase{
            "CpuChecksum", CheckpointKind::kCpu, R"({"policyName":"none","checksum":5})",
            "checkpoint is corrupted",
            "its checksum is 5, its content has 1353318690; please drain this node and "
            "delete the CPU manager checkpoint file"},
        DocumentErrorCase{"ChecksumBeyond32Bits", CheckpointKind::kCpu,
                          R"({"policyName":"none","checksum":5648285986})",
                          "checkpoint is corrupted",
                          "its checksum is 5648285986, its content has 1353318690; please"},
        DocumentErrorCase{"CpuVersion1", CheckpointKind::kCpu,
                          R"({"entries":{"c":"1"},"checksum":5})", kBefore118, "please drain"},
        DocumentErrorCase{"CpuVersion2Type", CheckpointKind::kCpu,
                          R"({"entries":{"p":{"c":[1]}},"checksum":5})",
                          R"(entries."p"."c": a string is expected, not a list)", "please drain"},
        DocumentErrorCase{"CpuChecksumType", CheckpointKind::kCpu, R"({"checksum":"5"})",
                          "checksum: a number is expected, not a string", "please drain"},
        DocumentErrorCase{"CpuNotJson", CheckpointKind::kCpu, "{",
                          "could not load v4 checkpoint: failed to deserialize cpu manager "
                          "checkpoint: unexpected end of JSON input",
                          "please drain"},
        DocumentErrorCase{"MemoryNotJson", CheckpointKind::kMemory, "{x}",
                          "could not load v3 checkpoint: failed to deserialize memory manager "
                          "checkpoint: not JSON: line 1, column 2: unexpected text",
                          "please drain"},
        DocumentErrorCase{
            "MemoryChecksum", CheckpointKind::kMemory,
            R"({"policyName":"None","machineState":{},"checksum":5})", "checkpoint is corrupted",
            "its checksum is 5, its content has 4236770233; please drain this node and "
            "delete the memory manager checkpoint file"},
        DocumentErrorCase{"MemoryType", CheckpointKind::kMemory, R"({"machineState":{"0":[]}})",
                          R"(machineState."0": an object is expected, not a list)", "please drain"},
        DocumentErrorCase{
            "DeviceWithoutChecksum", CheckpointKind::kDevice,
            R"({"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}}})",
            "checkpoint is corrupted",
            "its checksum is 0, its content has 3467439661; please drain this node and "
            "delete the device manager checkpoint file"},
        DocumentErrorCase{
            "DeviceBefore120", CheckpointKind::kDevice,
            R"({"Data":{"PodDeviceEntries":[{"DeviceIDs":["a"]}]},"Checksum":5})",
            "Data.PodDeviceEntries.0.DeviceIDs: an object is expected, not a list",
            "the file is from a kubelet before 1.20, whose format kubelet 1.36 does not read "
            "either; please drain"},
        DocumentErrorCase{"DeviceOtherType", CheckpointKind::kDevice,
                          R"({"Data":{"PodDeviceEntries":[{"DeviceIDs":1}]},"Checksum":5})",
                          "Data.PodDeviceEntries.0.DeviceIDs: an object is expected, not a number",
                          "please drain"}),
    [](const auto& test) { return test.param.name; });

// A file in the form `kPlain` with podEntries that no checksum covers: as in the kubelet, they are
// no part of it.
TEST(PodEntries, AreNotReadFromThePlainForm) {
  const auto read = ReadCpuDocument(
      R"({"policyName":"none","podEntries":{"p":{"cpuSet":"1"}},"checksum":1353318690})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->form, StateForm::kPlain);
  EXPECT_TRUE(read->document.pod_entries->empty());
}

// The published checksums are of kubelet 1.36's own tests: pkg/kubelet/cm/cpumanager/state.
TEST(PodLevelForm, IsReadUnderBothTypeNames) {
  for (const char* text :
       {R"({"policyName":"none","defaultCPUSet":"1-3","entries":{"pod":{"container1":"4-6",)"
        R"("container2":"1-3"}},"podEntries":{"pod":{"cpuSet":"4-6"}},"checksum":2649431787})",
        R"({"policyName":"static","defaultCPUSet":"1-2","entries":{"pod1":{"container1":"5-6",)"
        R"("container2":"3-4"}},"podEntries":{"pod2":{"cpuSet":"7-9"}},"checksum":2284712151})",
        R"({"policyName":"static","defaultCPUSet":"7-9","entries":{"pod":{"container1":"4-6",)"
        R"("container2":"1-3"}},"checksum":1942532442})"}) {
    const auto read = ReadCpuDocument(text);
    ASSERT_TRUE(read.ok()) << read.error().Text();
    EXPECT_EQ(read->form, StateForm::kPodLevel) << text;
  }
}

TEST(PodLevelForm, IsNotAcceptedWithoutAChecksum) {
  const auto read = ReadCpuDocument(R"({"policyName":"none","podEntries":{"p":{"cpuSet":"1"}}})");
  ASSERT_TRUE(read.ok());  // as the plain form
  EXPECT_EQ(read->form, StateForm::kPlain);
}

// Of kubelet 1.37's own tests.
TEST(DataForm, IsReadByDataAlone) {
  const auto read = ReadMemoryDocument(
      R"({"policyName":"other","machineState":{},"entries":{"pod":{"containerX":[]}},"checksum":1234,)"
      R"("data":"{\"unknownField\":\"value\",\"policyName\":\"static\",\"machineState\":{\"0\":{)"
      R"(\"numberOfAssignments\":0,\"memoryMap\":{\"memory\":{\"total\":2048,\"systemReserved\":512,)"
      R"(\"allocatable\":1536,\"reserved\":512,\"free\":1024}},\"cells\":[]}},\"entries\":{\"pod\":{)"
      R"(\"container1\":[{\"numaAffinity\":[0],\"type\":\"memory\",\"size\":512}]}}}",)"
      R"("dataChecksum":2100279793})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->form, StateForm::kData);
  EXPECT_EQ(read->document.policy_name, "static");
  EXPECT_EQ(read->document.entries->at("pod")->count("container1"), 1u);
  EXPECT_FALSE(read->plain_part_agrees);
}

TEST(DataForm, EscapesDataOnceMore) {
  CpuDocument document{"none", "", {{{"<p\"", {{{"c", "1"}}}}}}, {{{"q", {}}}}};
  const std::string text = ToText(document, StateForm::kData);
  EXPECT_NE(text.find(R"(\"entries\":{\"\\u003cp\\\"\":{\"c\":\"1\"}})"), std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(\"podEntries\":{\"q\":{}})"), std::string::npos) << text;
  const auto read = ReadCpuDocument(text);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_TRUE(read->plain_part_agrees);
  EXPECT_EQ(ToText(read->document, StateForm::kData), text);
}

struct DataErrorCase {
  const char* name;
  const char* text;
  const char* message;
};

class DataErrors : public testing::TestWithParam<DataErrorCase> {};

// The part for older kubelets is good in each of them.
TEST_P(DataErrors, AreNeverHiddenByThePlainPart) {
  const auto read =
      ReadCpuDocument(R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690,)" +
                      std::string(GetParam().text) + "}");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message,
            std::string("could not load v4 checkpoint: ") + GetParam().message);
  EXPECT_TRUE(read.error().remedy.ends_with(RemedyOf(CheckpointKind::kCpu)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DataErrors,
    testing::Values(
        DataErrorCase{"NoChecksum", R"("data":"{}")", "checkpoint is corrupted"},
        DataErrorCase{"OtherChecksum", R"("data":"{}","dataChecksum":5)",
                      "checkpoint is corrupted"},
        DataErrorCase{"NoData", R"("dataChecksum":5)",
                      "failed to deserialize cpu manager checkpoint data: unexpected end of "
                      "JSON input"},
        DataErrorCase{"NoJson", R"("data":"{","dataChecksum":5)",
                      "failed to deserialize cpu manager checkpoint data: unexpected end of "
                      "JSON input"},
        DataErrorCase{"WrongType", R"("data":"{\"policyName\":1}","dataChecksum":5)",
                      "failed to deserialize cpu manager checkpoint data: policyName: a string is "
                      "expected, not a number"},
        DataErrorCase{"WrongCpus",
                      R"("data":"{\"podEntries\":{\"p\":{\"cpuSet\":\"x\"}}}","dataChecksum":5)",
                      "failed to deserialize cpu manager checkpoint data: podEntries.\"p\".cpuSet: "
                      "failed to parse cpuset: \"x\" is not a CPU list: \"x\" is neither a CPU "
                      "number up to 65535 nor an ascending range of them"},
        DataErrorCase{
            "WrongTypeBeside", R"("data":"{}","dataChecksum":5,"entries":1)",
            "failed to deserialize cpu manager checkpoint: entries: an object is expected, "
            "not a number"}),
    [](const auto& test) { return test.param.name; });

TEST(MemoryDocumentText, IsWrittenAsTheKubeletWritesIt) {
  MemoryDocument document;
  document.policy_name = "None";
  EXPECT_EQ(ToText(document, StateForm::kPlain),
            R"({"policyName":"None","machineState":{},"checksum":4236770233})");
}

TEST(MemoryDocumentText, VerifiesWhatItWrites) {
  MemoryDocument document;
  document.policy_name = "Static";
  document.machine_state = {{{10, {}}, {2, NumaMemoryDocument{}}}};
  const Result<Verified<MemoryDocument>> read =
      ReadMemoryDocument(ToText(document, StateForm::kPlain));
  EXPECT_EQ(StoredChecksum(read), ChecksumOf(document));
}

TEST(DeviceDocumentText, VerifiesWhatItWrites) {
  DeviceDocument document;
  document.data.pod_device_entries = {
      {DeviceEntryDocument{"<uid>", "\xff", "r/x", {{{-1, {}}, {10, {{}}}, {2, {{"a b"}}}}}, {}}}};
  // Bytes that are not UTF-8 are written as U+FFFD, and the checksum no longer matches: as in the
  // kubelet.
  EXPECT_FALSE(ReadDeviceDocument(ToText(document)).ok());
  (*document.data.pod_device_entries)[0].container_name = "\uFFFD";
  const Result<Verified<DeviceDocument>> read = ReadDeviceDocument(ToText(document));
  EXPECT_EQ(StoredChecksum(read), ChecksumOf(document));
}

}  // namespace
}  // namespace alignd::checkpoint
