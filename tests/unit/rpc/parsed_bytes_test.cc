#include "rpc/parsed_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "alignd/control/v1/control.pb.h"
#include "kubernetes/v1/pod.pb.h"
#include "podresources/v1/podresources.pb.h"
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

std::string VarintBytes(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// The wire types of protobuf's encoding.
enum class Wire {
  kVarint = 0,
  kFixed64 = 1,
  kText = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

std::string TagBytes(int number, Wire wire) {
  return VarintBytes(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(wire));
}

// A field that holds these bytes.
std::string Field(int number, const std::string& bytes) {
  return TagBytes(number, Wire::kText) + VarintBytes(bytes.size()) + bytes;
}

std::string VarintField(int number, uint64_t value) {
  return TagBytes(number, Wire::kVarint) + VarintBytes(value);
}

std::string Group(int number, const std::string& fields) {
  return TagBytes(number, Wire::kStartGroup) + fields + TagBytes(number, Wire::kEndGroup);
}

// Bytes of valid tags, of which many have a wire type that is not the field's.
class RandomFields {
 public:
  explicit RandomFields(uint64_t seed) : random_(seed) {}

  // Null: the fields of a group that is not known.
  std::string Message(const google::protobuf::Descriptor* type, int depth) {
    std::string all;
    for (uint64_t i = Below(6); i > 0; --i) {
      const std::string part = AnyField(type, depth);
      const bool often = part.size() < 64 && Below(3) == 0;
      all += Repeated(part, often ? 1 + Below(100) : 1);
    }
    return all;
  }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }

  int Number(const google::protobuf::Descriptor* type) {
    const int fields = type == nullptr ? 0 : type->field_count();
    if (fields == 0 || Below(8) == 0) return 1 + static_cast<int>(Below(200));
    return type->field(static_cast<int>(Below(static_cast<uint64_t>(fields))))->number();
  }

  std::string AnyField(const google::protobuf::Descriptor* type, int depth) {
    const int number = Number(type);
    switch (Below(8)) {
      case 0:
      case 1:
        return VarintField(number, Below(4) == 0 ? random_() : Below(8));
      case 2:
        return TagBytes(number, Wire::kFixed64) + std::string(8, 'f');
      case 3:
        return TagBytes(number, Wire::kFixed32) + std::string(4, 'f');
      case 4:
        return Group(number, depth > 0 ? Message(nullptr, depth - 1) : "");
      default:
        return Field(number, Content(type ? type->FindFieldByNumber(number) : nullptr, depth));
    }
  }

  std::string Content(const google::protobuf::FieldDescriptor* field, int depth) {
    const bool message = field != nullptr && field->message_type() != nullptr;
    if (message) return depth > 0 ? Message(field->message_type(), depth - 1) : "";
    return std::string(Below(2) == 0 ? 0 : Below(40), static_cast<char>('a' + Below(26)));
  }

  std::mt19937_64 random_;
};

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
  ExpectCounted<v1::RestorePodRequest>(Repeated(Field(5, Field(9, "")), kParts));  // empty labels
  v1::CreateContainerRequest labels;
  for (size_t i = 0; i < kParts; ++i) {
    (*labels.mutable_config()->mutable_labels())["example.com/label-" + std::to_string(i)] = "x";
  }
  ExpectCounted<v1::CreateContainerRequest>(labels.SerializeAsString());
}

// The parser keeps what it does not expect as unknown fields, also where the number is known.
TEST(ParsedBytes, CountFieldsOfAnotherWireType) {
  constexpr size_t kParts = 10'000;
  constexpr int kLogPath = 11;  // of ContainerConfig, a string
  constexpr int kMetadata = 1;  // likewise, a message
  constexpr int kArgs = 4;      // likewise, repeated
  constexpr int kReadonly = 3;  // of Mount, a number
  for (const int number : {kLogPath, kMetadata, kArgs}) {
    for (const std::string& part :
         {VarintField(number, 1), TagBytes(number, Wire::kFixed32) + "1234",
          TagBytes(number, Wire::kFixed64) + "12345678", Group(number, ""),
          Group(number, VarintField(number, 1)), Group(number, Group(number, Field(1, "")))}) {
      ExpectCounted<v1::ContainerConfig>(Repeated(part, kParts));
    }
  }
  for (const std::string& part :
       {Field(kReadonly, ""), Field(kReadonly, "a text that is longer"), Group(kReadonly, ""),
        TagBytes(kReadonly, Wire::kFixed32) + "1234"}) {
    ExpectCounted<v1::Mount>(Repeated(part, kParts));
  }
  // The set of unknown fields itself, in each of many small messages.
  constexpr int kEnvs = 6;
  ExpectCounted<v1::ContainerConfig>(Repeated(Field(kEnvs, VarintField(1, 1)), kParts));
  ExpectCounted<v1::ContainerConfig>(Repeated(Field(kEnvs, VarintField(100, 1)), kParts));
}

// The enums of proto2 are closed.
TEST(ParsedBytes, CountUnknownValuesOfEnums) {
  constexpr size_t kParts = 10'000;
  ExpectCounted<v1::ContainerStateValue>(Repeated(VarintField(1, 99), kParts));
  const std::string container = VarintField(6, 99);  // its state
  ExpectCounted<v1::ListContainersResponse>(Repeated(Field(1, container), kParts));
}

TEST(ParsedBytes, CountGroupsAsDeepAsTheParserGoes) {
  constexpr int kMaxGroups = 100;
  std::string groups;
  for (int i = 0; i < kMaxGroups; ++i) groups = Group(100, groups);
  ExpectCounted<v1::ContainerConfig>(Repeated(groups, 1000));
  const auto& type = *v1::ContainerConfig::descriptor();
  const std::string inner = VarintField(100, 1);
  std::string deeper = Group(100, Repeated(inner, 1000));
  for (int i = 0; i < kMaxGroups; ++i) deeper = Group(100, deeper);
  EXPECT_FALSE(v1::ContainerConfig().ParseFromString(deeper));
  EXPECT_LT(ParsedBytes(deeper, type, kNoLimit), ParsedBytes(groups, type, kNoLimit) + 256);
  EXPECT_LT(ParsedBytes(TagBytes(100, Wire::kStartGroup) + TagBytes(101, Wire::kEndGroup) +
                            Repeated(inner, 1000),
                        type, kNoLimit),
            ParsedBytes(Group(100, ""), type, kNoLimit) + 1)
      << "the parser stops at the end of another group";
}

TEST(ParsedBytes, AreNeverLessThanRandomFieldsTake) {
  const google::protobuf::Message* const types[] = {
      &v1::CreateContainerRequest::default_instance(),
      &v1::RestorePodRequest::default_instance(),
      &v1::ListContainersResponse::default_instance(),
      &kubernetes::v1::Pod::default_instance(),
      &control::v1::NumaNode::default_instance(),
      &::v1::ListPodResourcesResponse::default_instance(),
  };
  constexpr int kMessages = 1000;  // of each type
  constexpr int kDepth = 4;
  RandomFields random(7);
  for (const google::protobuf::Message* const type : types) {
    int parsed = 0;
    for (int i = 0; i < kMessages; ++i) {
      const std::string bytes = random.Message(type->GetDescriptor(), kDepth);
      const std::unique_ptr<google::protobuf::Message> message(type->New());
      if (!message->ParsePartialFromString(bytes)) continue;
      ++parsed;
      const size_t counted = ParsedBytes(bytes, *type->GetDescriptor(), kNoLimit);
      ASSERT_LE(message->SpaceUsedLong(), counted) << type->GetTypeName() << ' ' << i;
    }
    EXPECT_GT(parsed, kMessages / 2) << type->GetTypeName();
  }
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
