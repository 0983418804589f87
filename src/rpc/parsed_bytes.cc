#include "rpc/parsed_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
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
constexpr size_t kUnknownPlace = 32;              // in a list of unknown fields, which doubles
constexpr size_t kUnknownSet = 32 + kAllocation;  // of a message that has unknown fields
constexpr size_t kMapLinks = 48;                  // of an entry of a map, beside key and value
constexpr size_t kMapEntry = 168;  // the first of a map, also if it is empty; with the table
constexpr size_t kNumber = 16;     // in a list of numbers, which doubles
constexpr int kMaxNesting = 100;   // of the parser

size_t TextBytes(size_t length) { return kText + (length > kShortText ? length + kAllocation : 0); }

// The field that the parser takes this tag for; null if it keeps what follows as an unknown field,
// which it does too with a known field of another wire type.
const FieldDescriptor* KnownField(const Descriptor* type, uint32_t tag) {
  if (type == nullptr) return nullptr;
  const auto* const field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
  if (field == nullptr) return nullptr;
  const WireFormatLite::WireType wire = WireFormatLite::GetTagWireType(tag);
  if (wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED && field->is_packable()) return field;
  const auto kind = static_cast<WireFormatLite::FieldType>(field->type());
  return wire == WireFormatLite::WireTypeForFieldType(kind) ? field : nullptr;
}

// Enums of proto2 are closed: the parser keeps a value that it does not know as an unknown field.
bool MayBecomeUnknown(const FieldDescriptor* field) {
  return field == nullptr || field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
}

class Counter {
 public:
  explicit Counter(size_t limit) : limit_(limit) {}

  size_t total() const { return total_; }

  // `type` is null inside of an unknown group, and `group` is the number of the group that the end
  // must name, or 0 outside of one. False: the bytes are no message.
  bool CountMessage(CodedInputStream& in, const Descriptor* type, int group, int depth) {
    if (depth > kMaxNesting) return false;
    bool has_unknown = type == nullptr;  // a group is counted where it begins
    while (total_ <= limit_) {
      const uint32_t tag = in.ReadTag();
      if (tag == 0) return group == 0 && in.ConsumedEntireMessage();
      if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_END_GROUP) {
        return group != 0 && WireFormatLite::GetTagFieldNumber(tag) == group;
      }
      const FieldDescriptor* const field = KnownField(type, tag);
      if (!has_unknown && MayBecomeUnknown(field)) {
        has_unknown = true;
        total_ += kUnknownSet;
      }
      if (!CountField(in, field, tag, depth)) return false;
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
  bool CountField(CodedInputStream& in, const FieldDescriptor* field, uint32_t tag, int depth) {
    uint64_t varint = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
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
        return CountGroup(in, field, WireFormatLite::GetTagFieldNumber(tag), depth);
      default:
        return false;
    }
  }

  void AddNumber(const FieldDescriptor* field) {
    if (MayBecomeUnknown(field)) {
      total_ += kUnknownPlace;
    } else if (field->is_repeated()) {
      total_ += kNumber;
    }
  }

  bool CountGroup(CodedInputStream& in, const FieldDescriptor* field, int number, int depth) {
    if (field == nullptr) {
      total_ += kUnknownPlace + kText;
      return CountMessage(in, nullptr, number, depth + 1);
    }
    AddMessage(*field->message_type());
    total_ += kPlace;
    return CountMessage(in, field->message_type(), number, depth + 1);
  }

  // Of a field that is no message, or not known.
  static size_t LengthDelimitedBytes(const FieldDescriptor* field, size_t size) {
    if (field == nullptr) return kUnknownPlace + TextBytes(size);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) return kPlace + TextBytes(size);
    // Packed numbers, of a byte each at least.
    return size * (MayBecomeUnknown(field) ? kUnknownPlace : kNumber);
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
    const size_t before = total_;
    if (field->is_map()) total_ += kMapLinks;
    if (!field->is_map()) AddMessage(*field->message_type());
    total_ += kPlace;
    const CodedInputStream::Limit outer = in.PushLimit(length);
    if (!CountMessage(in, field->message_type(), 0, depth + 1)) return false;
    in.PopLimit(outer);
    if (field->is_map()) total_ = std::max(total_, before + kMapEntry);
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
  counter.CountMessage(bytes, &type, 0, 0);
  return counter.total();
}

size_t ParsedBytes(std::string_view bytes, const Descriptor& type, size_t limit) {
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  return ParsedBytes(in, type, limit);
}

}  // namespace alignd::rpc
