// The forms of cpu_manager_state and memory_manager_state, which differ only in their content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/go_checksum.h"
#include "alignd/checkpoint/go_json.h"
#include "alignd/checkpoint/go_json_reader.h"

namespace alignd::checkpoint {

// The error with the kind's remedy behind `explanation`.
Error WithRemedy(CheckpointKind kind, const Error& error, std::string_view explanation = "");

// The message is the kubelet's; the remedy has the numbers.
Error Mismatch(CheckpointKind kind, uint64_t stored, uint32_t computed);

// Go's types, whose names are hashed, and the words of its errors.
struct StateNames {
  CheckpointKind kind;
  std::string_view type;  // hashed in the forms without `data`, whatever the type's own name is
  std::string_view plain_type;      // also accepted in the plain form
  std::string_view pod_level_type;  // also accepted in the form `kPodLevel`; empty: none
  std::string_view manager;         // "cpu manager"
};

template <typename Document>
struct PlainFile {
  Document content = {};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    Document::PlainFields(self.content, visit);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

template <typename Document>
struct PodLevelFile {
  Document content = {};
  uint64_t checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    Document::PlainFields(self.content, visit);
    Document::PodFields(self.content, visit);
    visit({"checksum", "Checksum", "checksum.Checksum"}, self.checksum);
  }
};

// Only written and read, never hashed as a whole.
template <typename Document>
struct DataFile {
  PlainFile<Document> plain = {};
  std::string data = {};  // JSON
  uint64_t data_checksum = 0;

  template <typename Self, typename Visitor>
  static void Fields(Self& self, Visitor&& visit) {
    PlainFile<Document>::Fields(self.plain, visit);
    visit({"data", "Data", "string"}, self.data);
    visit({"dataChecksum", "DataChecksum", "checksum.Checksum"}, self.data_checksum);
  }
};

// The checksum of a file in a form without `data`.
template <typename File>
uint32_t ChecksumOfFile(std::string_view type, File file) {
  file.checksum = 0;
  return Fnv1a32(GoPrinter::PointerToStruct(type, file));
}

// Source: Go's printer, of a string.
inline uint32_t ChecksumOfData(std::string_view data) {
  return Fnv1a32("(string)" + std::string(data));
}

template <typename Document>
std::string FileText(const StateNames& names, const Document& document, StateForm form) {
  if (form == StateForm::kPodLevel) {
    PodLevelFile<Document> file{document};
    file.checksum = ChecksumOfFile(names.type, file);
    return GoJsonWriter::ToText(file);
  }
  PlainFile<Document> plain{document};
  plain.checksum = ChecksumOfFile(names.type, plain);
  if (form == StateForm::kPlain) return GoJsonWriter::ToText(plain);
  DataFile<Document> file{std::move(plain), GoJsonWriter::ToText(document)};
  file.data_checksum = ChecksumOfData(file.data);
  return GoJsonWriter::ToText(file);
}

// The checksum under one of the two names; the matching one if one matches.
template <typename File>
uint32_t EitherChecksum(const File& file, std::string_view type, std::string_view other_type) {
  const uint32_t computed = ChecksumOfFile(type, file);
  if (computed == file.checksum || other_type.empty()) return computed;
  const uint32_t other = ChecksumOfFile(other_type, file);
  return other == file.checksum ? other : computed;
}

// Fails as the kubelet that reads the newest form, which it tries first.
inline Error LoadFailure(const StateNames& names, const Error& error) {
  const int version = VersionOf(names.kind, StateForm::kData);
  return WithRemedy(names.kind,
                    error.In("could not load v" + std::to_string(version) + " checkpoint"));
}

inline std::string DeserializeFailure(const StateNames& names) {
  return "failed to deserialize " + std::string(names.manager) + " checkpoint";
}

// `whole`: whether `file` could be read without an error.
template <typename Document>
Result<Verified<Document>> ReadData(const StateNames& names, const DataFile<Document>& file,
                                    const Result<Done>& whole) {
  const std::string read = DeserializeFailure(names);
  if (!whole.ok()) return LoadFailure(names, whole.error().In(read));
  Verified<Document> verified{.document = {}, .form = StateForm::kData};
  const Result<Done> content = GoJsonReader::Read(file.data, verified.document);
  if (!content.ok()) return LoadFailure(names, content.error().In(read + " data"));
  verified.stored_checksum = file.data_checksum;
  verified.computed_checksum = ChecksumOfData(file.data);
  if (verified.stored_checksum != verified.computed_checksum) {
    Error mismatch = Mismatch(names.kind, file.data_checksum, verified.computed_checksum);
    mismatch.message = LoadFailure(names, mismatch).message;
    return mismatch;
  }
  verified.plain_checksum = file.plain.checksum;
  verified.plain_part_agrees =
      GoJsonWriter::ToText(file.plain) == FileText(names, verified.document, StateForm::kPlain);
  return verified;
}

template <typename Document>
Result<Verified<Document>> ReadState(const StateNames& names, std::string_view text) {
  const Result<JsonNode> parsed = ParseJson(text);
  if (!parsed.ok()) {
    return LoadFailure(names, parsed.error().In(DeserializeFailure(names)));
  }
  DataFile<Document> with_data;
  const Result<Done> whole = GoJsonReader::Read(*parsed, with_data);
  if (!with_data.data.empty() || with_data.data_checksum != 0) {
    return ReadData(names, with_data, whole);
  }
  PodLevelFile<Document> pod_level;
  if (GoJsonReader::Read(*parsed, pod_level).ok()) {
    const uint32_t computed = EitherChecksum(pod_level, names.type, names.pod_level_type);
    if (computed == pod_level.checksum) {
      return Verified<Document>{std::move(pod_level.content), computed, computed,
                                StateForm::kPodLevel};
    }
  }
  PlainFile<Document> plain;
  if (const Result<Done> read = GoJsonReader::Read(*parsed, plain); !read.ok()) {
    return WithRemedy(names.kind, read.error());
  }
  const uint32_t computed = EitherChecksum(plain, names.type, names.plain_type);
  if (plain.checksum != 0 && plain.checksum != computed) {
    return Mismatch(names.kind, plain.checksum, computed);
  }
  return Verified<Document>{std::move(plain.content), plain.checksum, computed};
}

}  // namespace alignd::checkpoint
