#include "rpc/parsed_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

namespace alignd::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr size_t kAllocation = 16;                           // what the allocator adds
constexpr size_t kText = sizeof(std::string) + kAllocation;  // without a long text
constexpr size_t kShortText = 15;                            // is in the string itself
constexpr size_t kPlace = 16;                                // in a list of pointers, which doubles
constexpr size_t kUnknownPlace = 32;  // in a list of unknown fields, which doubles
constexpr size_t kMapLinks = 48;      // of an entry of a map, beside key and value
constexpr size_t kNumber = 16;        // in a list of numbers, which doubles
constexpr int kMaxNesting = 100;      // of the parser

size_t TextBytes(size_t length) { return kText + (length > kShortText ? length + kAllocation : 0); }

class Counter {
 public:
  explicit Counter(size_t limit) : limit_(limit) {}

  size_t total() const { return total_; }

  // `type` is null inside of an unknown group. False: the bytes are no message.
  bool CountMessage(CodedInputStream& in, const Descriptor* type, int depth) {
    if (depth > kMaxNesting) return false;
    while (total_ <= limit_) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) return in.ConsumedEntireMessage();
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const FieldDescriptor* const field = type ? type->FindFieldByNumber(number) : nullptr;
      const WireFormatLite::WireType wire = WireFormatLite::GetTagWireType(tag);
      if (wire == WireFormatLite::WIRETYPE_END_GROUP) return true;
      if (!CountField(in, field, wire, depth)) return false;
    }
    return true;
  }

  void AddMessage(const Descriptor& type) {
    if (last_ != &type) {
      const Message* const prototype = MessageFactory::generated_factory()->GetPrototype(&type);
      last_ = &type;
      last_bytes_ = prototype->SpaceUsedLong() + kAllocation;
    }
    total_ += last_bytes_;
  }

 private:
  bool CountField(CodedInputStream& in, const FieldDescriptor* field, WireFormatLite::WireType wire,
                  int depth) {
    uint64_t varint = 0;
    switch (wire) {
      case WireFormatLite::WIRETYPE_VARINT:
        AddNumber(field);
        return in.ReadVarint64(&varint);
      case WireFormatLite::WIRETYPE_FIXED64:
        AddNumber(field);
        return in.Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        AddNumber(field);
        return in.Skip(4);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return CountLengthDelimited(in, field, depth);
      case WireFormatLite::WIRETYPE_START_GROUP:
        total_ += kUnknownPlace + kText;
        return CountMessage(in, nullptr, depth + 1);
      default:
        return false;
    }
  }

  void AddNumber(const FieldDescriptor* field) {
    if (field == nullptr) total_ += kUnknownPlace;
    if (field != nullptr && field->is_repeated()) total_ += kNumber;
  }

  // Of a field that is no message, or not known.
  static size_t LengthDelimitedBytes(const FieldDescriptor* field, size_t size) {
    if (field == nullptr) return kUnknownPlace + TextBytes(size);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) return kPlace + TextBytes(size);
    return size * kNumber;  // packed numbers, of a byte each at least
  }

  bool CountLengthDelimited(CodedInputStream& in, const FieldDescriptor* field, int depth) {
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length)) return false;
    const auto size = static_cast<size_t>(length);
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!in.Skip(length)) return false;
      total_ += LengthDelimitedBytes(field, size);
      return true;
    }
    if (field->is_map()) total_ += kMapLinks;
    if (!field->is_map()) AddMessage(*field->message_type());
    total_ += kPlace;
    const CodedInputStream::Limit outer = in.PushLimit(length);
    if (!CountMessage(in, field->message_type(), depth + 1)) return false;
    in.PopLimit(outer);
    return true;
  }

  const size_t limit_;
  size_t total_ = 0;
  const Descriptor* last_ = nullptr;  // mostly, many parts of one type follow each other
  size_t last_bytes_ = 0;
};

}  // namespace

size_t ParsedBytes(CodedInputStream& bytes, const Descriptor& type, size_t limit) {
  Counter counter(limit);
  counter.AddMessage(type);
  counter.CountMessage(bytes, &type, 0);
  return counter.total();
}

size_t ParsedBytes(std::string_view bytes, const Descriptor& type, size_t limit) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  return ParsedBytes(in, type, limit);
}

}  // namespace alignd::rpc
