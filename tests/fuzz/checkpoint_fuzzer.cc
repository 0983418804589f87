// Any text is refused with a message and a remedy, or read as one of the three state files. A file
// that was read is the same after writing. Fuzzers cannot guess checksums, so each text of the
// right form is also tried with the right checksum.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/documents.h"
#include "alignd/checkpoint/go_json_reader.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/checkpoint/verify.h"

namespace alignd::checkpoint {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
bool Readable(const Result<T>& read) {
  if (read.ok()) return true;
  Require(read.error().code == ErrorCode::kCorrupt);
  Require(!read.error().message.empty() && !read.error().remedy.empty());
  return false;
}

// The text written again, with `form` in that form; `{}` if it is no such document. It verifies.
template <typename Document, typename... Form>
std::string WithRightChecksum(std::string_view text, Form... form) {
  Document document;
  return GoJsonReader::Read(text, document).ok() ? ToText(document, form...) : "{}";
}

void TryCpu(std::string_view text) {
  const Result<CpuCheckpoint> read = ParseCpuCheckpoint(text);
  if (!Readable(read)) return;
  const std::string written = FormatCpuCheckpoint(read->policy_name, read->state, StateForm::kData);
  const Result<CpuCheckpoint> again = ParseCpuCheckpoint(written);
  Require(again.ok() && *again == *read);
}

void TryMemory(std::string_view text) {
  const Result<MemoryCheckpoint> read = ParseMemoryCheckpoint(text);
  if (!Readable(read)) return;
  const std::string written =
      FormatMemoryCheckpoint(read->policy_name, read->state, StateForm::kData);
  const Result<MemoryCheckpoint> again = ParseMemoryCheckpoint(written);
  Require(again.ok() && *again == *read);
}

void TryDevice(std::string_view text) {
  const Result<DeviceCheckpoint> read = ParseDeviceCheckpoint(text);
  if (!Readable(read)) return;
  const std::string written = FormatDeviceCheckpoint(read->ToState());
  const Result<DeviceCheckpoint> again = ParseDeviceCheckpoint(written);
  Require(again.ok() && again->allocations == read->allocations);
}

}  // namespace
}  // namespace alignd::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace alignd::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  TryCpu(text);
  TryMemory(text);
  for (const auto form : {StateForm::kPlain, StateForm::kPodLevel, StateForm::kData}) {
    TryCpu(WithRightChecksum<CpuDocument>(text, form));
    TryMemory(WithRightChecksum<MemoryDocument>(text, form));
  }
  TryDevice(text);
  TryDevice(WithRightChecksum<DeviceDocument>(text));
  const auto kind = KindOfText(text);
  if (kind) Readable(VerifyCheckpoint(*kind, text));
  return 0;
}
