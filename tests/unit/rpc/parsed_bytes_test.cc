#include "rpc/parsed_bytes.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "runtime/v1/cri.pb.h"

namespace alignd::rpc {
namespace {

namespace v1 = runtime::v1;

constexpr size_t kNoLimit = size_t{1} << 40;

std::string Repeated(const std::string& part, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += part;
  return all;
}

// A field that holds these bytes.
std::string Field(int number, const std::string& bytes) {
  std::string field;
  const auto varint = [&](size_t value) {
    for (; value >= 0x80; value >>= 7) field += static_cast<char>(value | 0x80);
    field += static_cast<char>(value);
  };
  varint(static_cast<size_t>(number) << 3 | 2);
  varint(bytes.size());
  return field + bytes;
}

// The count is not much less than what the parsed message takes, and not much more.
template <typename Message>
void ExpectCounted(const std::string& bytes) {
  Message message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  const size_t counted = ParsedBytes(bytes, *Message::descriptor(), kNoLimit);
  EXPECT_GE(counted * 10, message.SpaceUsedLong() * 9) << bytes.size() << " bytes";
  EXPECT_LE(counted, message.SpaceUsedLong() * 3) << bytes.size() << " bytes";
}

TEST(ParsedBytes, FollowWhatTheMessageTakes) {
  constexpr size_t kParts = 10'000;
  constexpr int kConfig = 2;
  const auto config = [](const std::string& field) {
    return Field(kConfig, Repeated(field, kParts));
  };
  ExpectCounted<v1::CreateContainerRequest>(config(Field(4, "")));  // args
  ExpectCounted<v1::CreateContainerRequest>(config(Field(4, "an argument that is longer")));
  ExpectCounted<v1::CreateContainerRequest>(config(Field(6, "")));  // envs
  ExpectCounted<v1::CreateContainerRequest>(config(Field(6, Field(1, "A") + Field(2, "b"))));
  ExpectCounted<v1::CreateContainerRequest>(config(Field(7, "")));                 // mounts
  ExpectCounted<v1::CreateContainerRequest>(config(Field(100, "")));               // not known
  ExpectCounted<v1::CreateContainerRequest>(config(std::string("\xa0\x06\x01")));  // likewise
  ExpectCounted<v1::RestorePodRequest>(Repeated(Field(5, ""), kParts));
  ExpectCounted<v1::CreateContainerRequest>(Field(kConfig, Field(4, std::string(1 << 20, 'a'))));
  v1::CreateContainerRequest labels;
  for (size_t i = 0; i < kParts; ++i) {
    (*labels.mutable_config()->mutable_labels())["example.com/label-" + std::to_string(i)] = "x";
  }
  ExpectCounted<v1::CreateContainerRequest>(labels.SerializeAsString());
}

// Two bytes became a container of 480 bytes: a request of 16 MiB took gigabytes.
TEST(ParsedBytes, StopAboveTheLimit) {
  const std::string bytes = Repeated(Field(5, ""), 8 << 20);
  const size_t counted =
      ParsedBytes(bytes, *v1::RestorePodRequest::descriptor(), kMaxParsedRequestBytes);
  EXPECT_GT(counted, kMaxParsedRequestBytes);
  EXPECT_LT(counted, kMaxParsedRequestBytes + 4096);
}

TEST(ParsedBytes, EndWhereTheBytesAreNoMessage) {
  const auto& type = *v1::CreateContainerRequest::descriptor();
  const size_t empty = ParsedBytes("", type, kNoLimit);
  EXPECT_EQ(ParsedBytes("\xff", type, kNoLimit), empty);
  EXPECT_LT(ParsedBytes(std::string(1 << 20, '\x0b'), type, kNoLimit), empty + (64 << 10))
      << "groups in groups: the parser allows 100";
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string noise(random() % 64, '\0');
    for (char& byte : noise) byte = static_cast<char>(random());
    EXPECT_LT(ParsedBytes(noise, type, kNoLimit), empty + 64 * 1024);
  }
}

}  // namespace
}  // namespace alignd::rpc
