// Real and mutated state files, each with the verdict of the real kubelet. alignd must have the
// same verdict, and must write the kubelet's files again byte for byte. Files of kubelets
// before 1.18 are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/go_checksum.h"
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

// The document written again; empty if it does not verify.
std::string WrittenAgain(CheckpointKind kind, std::string_view text) {
  switch (kind) {
    case CheckpointKind::kCpu: {
      const auto read = ReadCpuDocument(text);
      return read.ok() ? ToText(read->document, read->form) : "";
    }
    case CheckpointKind::kMemory: {
      const auto read = ReadMemoryDocument(text);
      return read.ok() ? ToText(read->document, read->form) : "";
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
      if (!read.ok()) return false;
      const Result<CpuCheckpoint> again =
          ParseCpuCheckpoint(FormatCpuCheckpoint(read->policy_name, read->state, StateForm::kData));
      EXPECT_TRUE(again.ok() && *again == *read) << vector.place;
      return true;
    }
    case CheckpointKind::kMemory: {
      const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(vector.text);
      if (!read.ok()) return false;
      const Result<MemoryCheckpoint> again = ParseMemoryCheckpoint(
          FormatMemoryCheckpoint(read->policy_name, read->state, StateForm::kData));
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

// Whether the text has the format of a kubelet before 1.18: container ids, not pods. Without
// entries only the checksum shows it.
bool IsFromBefore118(const Vector& vector) {
  if (vector.kind != CheckpointKind::kCpu) return false;
  if (vector.source == "v1") return true;
  const nlohmann::json json = nlohmann::json::parse(vector.text, nullptr, false);
  if (!json.is_object()) return false;
  std::map<std::string, nlohmann::json> fields;  // by name in lower case
  for (const auto& [key, value] : json.items()) {
    std::string name = key;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    fields[name] = value;
  }
  const nlohmann::json& entries = fields["entries"];
  if (!entries.empty()) {
    return std::ranges::any_of(entries,
                               [](const nlohmann::json& entry) { return entry.is_string(); });
  }
  const auto text = [&fields](const std::string& name) {
    return fields[name].is_string() ? fields[name].get<std::string>() : "";
  };
  return fields["checksum"] ==
         Fnv1a32("(*state.CPUManagerCheckpoint){PolicyName:(string)" + text("policyname") +
                 " DefaultCPUSet:(string)" + text("defaultcpuset") +
                 " Entries:(map[string]string)map[] Checksum:(checksum.Checksum)0}");
}

TEST(CheckpointConformance, VerifiesTheSameFilesAsTheKubelet) {
  const std::vector<Vector> vectors = AllVectors();
  ASSERT_FALSE(vectors.empty());
  size_t before_1_18 = 0;
  for (const Vector& vector : vectors) {
    const Result<Verification> verified = VerifyCheckpoint(vector.kind, vector.text);
    const bool is_old = vector.valid && IsFromBefore118(vector);
    EXPECT_EQ(verified.ok(), vector.valid && !is_old)
        << vector.place << ": " << (verified.ok() ? "verified" : verified.error().Text());
    if (!is_old || verified.ok()) continue;
    EXPECT_TRUE(verified.error().message.starts_with("the file is from a kubelet before 1.18"))
        << vector.place << ": " << verified.error().Text();
    ++before_1_18;
  }
  EXPECT_GT(before_1_18, 0U);
}

TEST(CheckpointConformance, WritesTheKubeletsFilesByteForByte) {
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

// What kubelets 1.36 and 1.37 make of each other's files: the text of 1.36, of 1.37, and what
// a 1.36 without the feature gate has after it has read that of 1.37.
TEST(CheckpointConformance, ConvertsBetweenReleasesAsTheKubelets) {
  size_t compared = 0;
  for (const auto& path : VectorFiles("checkpoints-1.37.jsonl")) {
    std::ifstream file(path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      const std::string place = path.string() + ":" + std::to_string(number);
      const nlohmann::json json = nlohmann::json::parse(line);
      const auto kind = KindOfFileName(json.at("kind").get<std::string>());
      ASSERT_TRUE(kind.has_value()) << place;
      const auto old_form = json.at("gate").get<bool>() ? StateForm::kPodLevel : StateForm::kPlain;
      const auto in = json.at("in").get<std::string>(), out = json.at("out").get<std::string>();
      const auto converted = [&kind](const std::string& text, StateForm form) {
        if (*kind == CheckpointKind::kCpu) {
          const auto read = ReadCpuDocument(text);
          return read.ok() ? ToText(read->document, form) : read.error().Text();
        }
        const auto read = ReadMemoryDocument(text);
        return read.ok() ? ToText(read->document, form) : read.error().Text();
      };
      EXPECT_EQ(converted(in, StateForm::kData), out) << place;
      EXPECT_EQ(converted(out, StateForm::kData), out) << place;
      EXPECT_EQ(converted(out, old_form), in) << place;
      EXPECT_EQ(converted(out, StateForm::kPlain), json.at("back").get<std::string>()) << place;
      for (const std::string& text : {in, out}) {
        EXPECT_TRUE(SurvivesARoundTrip({place, *kind, text, true, ""})) << place;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 0U);
}

}  // namespace
}  // namespace alignd::checkpoint
