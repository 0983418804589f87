// Real and mutated state files, each with the real kubelet's verdict on it: ours must be the same,
// and what the kubelet wrote we must write again to the byte.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/verify.h"
#include "core/vector_files.h"

namespace alignd::checkpoint {
namespace {

struct Vector {
  std::string place;  // file and line
  CheckpointKind kind = CheckpointKind::kCpu;
  std::string text;
  bool valid = false;
  std::string source;  // how it came about: `mutated`, or written by that version of the kubelet
};

// Lines that are not vectors fail the test.
std::vector<Vector> ReadVectors(const std::filesystem::path& path) {
  std::vector<Vector> vectors;
  std::ifstream file(path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string place = path.string() + ":" + std::to_string(number);
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    const bool complete = json.is_object() && json.contains("kind") && json["kind"].is_string() &&
                          json.contains("text") && json["text"].is_string() &&
                          json.contains("valid") && json["valid"].is_boolean() &&
                          json.contains("source") && json["source"].is_string();
    const std::optional<CheckpointKind> kind =
        complete ? KindOfFileName(json["kind"].get<std::string>()) : std::nullopt;
    if (!kind) {
      ADD_FAILURE() << place << " is not a vector";
      continue;
    }
    vectors.push_back({place, *kind, json["text"].get<std::string>(), json["valid"].get<bool>(),
                       json["source"].get<std::string>()});
  }
  return vectors;
}

std::vector<Vector> AllVectors() {
  std::vector<Vector> all;
  for (const auto& file : VectorFiles("checkpoints.jsonl")) {
    const std::vector<Vector> some = ReadVectors(file);
    std::cout << file << ": " << some.size() << " vectors\n";
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// The document written again; empty if it does not verify or is a version that is only read.
std::string WrittenAgain(CheckpointKind kind, std::string_view text) {
  switch (kind) {
    case CheckpointKind::kCpu: {
      const auto read = ReadCpuDocument(text);
      if (!read.ok()) return "";
      const auto* verified = std::get_if<Verified<CpuDocument>>(&*read);
      return verified != nullptr ? ToText(verified->document) : "";
    }
    case CheckpointKind::kMemory: {
      const auto read = ReadMemoryDocument(text);
      return read.ok() ? ToText(read->document) : "";
    }
    case CheckpointKind::kDevice:
      break;
  }
  const auto read = ReadDeviceDocument(text);
  return read.ok() ? ToText(read->document) : "";
}

// Parses the text into a state, formats that and parses it again; the states must be the same.
// False if the text does not parse.
bool SurvivesARoundTrip(const Vector& vector) {
  switch (vector.kind) {
    case CheckpointKind::kCpu: {
      const Result<CpuCheckpoint> read = ParseCpuCheckpoint(vector.text);
      if (!read.ok() || read->version != 2) return false;
      const Result<CpuCheckpoint> again =
          ParseCpuCheckpoint(FormatCpuCheckpoint(read->policy_name, read->state));
      EXPECT_TRUE(again.ok() && *again == *read) << vector.place;
      return true;
    }
    case CheckpointKind::kMemory: {
      const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(vector.text);
      if (!read.ok()) return false;
      const Result<MemoryCheckpoint> again =
          ParseMemoryCheckpoint(FormatMemoryCheckpoint(read->policy_name, read->state));
      EXPECT_TRUE(again.ok() && *again == *read) << vector.place;
      return true;
    }
    case CheckpointKind::kDevice:
      break;
  }
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(vector.text);
  if (!read.ok()) return false;
  const Result<DeviceCheckpoint> again =
      ParseDeviceCheckpoint(FormatDeviceCheckpoint(read->ToState()));
  EXPECT_TRUE(again.ok() && again->allocations == read->allocations) << vector.place;
  return true;
}

TEST(CheckpointConformance, VerifiesWhatTheKubeletVerifiesAndNothingElse) {
  const std::vector<Vector> vectors = AllVectors();
  ASSERT_FALSE(vectors.empty());
  for (const Vector& vector : vectors) {
    const Result<Verification> verified = VerifyCheckpoint(vector.kind, vector.text);
    EXPECT_EQ(verified.ok(), vector.valid)
        << vector.place << ": " << (verified.ok() ? "verified" : verified.error().Text());
  }
}

TEST(CheckpointConformance, WritesToTheByteWhatTheKubeletWrote) {
  const std::set<std::pair<CheckpointKind, std::string>> as_written = {
      {CheckpointKind::kCpu, "blog"},  {CheckpointKind::kDevice, "blog"},
      {CheckpointKind::kCpu, "v2"},    {CheckpointKind::kDevice, "v2"},
      {CheckpointKind::kMemory, "v1"},
  };
  size_t compared = 0;
  for (const Vector& vector : AllVectors()) {
    if (!vector.valid || !as_written.contains({vector.kind, vector.source})) continue;
    EXPECT_EQ(WrittenAgain(vector.kind, vector.text), vector.text) << vector.place;
    ++compared;
  }
  EXPECT_GT(compared, 0U);
}

TEST(CheckpointConformance, StatesSurviveARoundTrip) {
  size_t survived = 0;
  for (const Vector& vector : AllVectors()) {
    if (SurvivesARoundTrip(vector)) ++survived;
  }
  EXPECT_GT(survived, 0U);
}

}  // namespace
}  // namespace alignd::checkpoint
