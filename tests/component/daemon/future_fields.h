// Requests of a later version of the CRI API, and requests without what alignd sets.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <vector>

#include "runtime/v1/cri.pb.h"

namespace alignd::daemon {

namespace v1 = runtime::v1;

inline constexpr int kFuture = 9999;  // not used by any version of the CRI API

// Adds an unknown field to `message` and to every message in it.
inline void AddFuture(google::protobuf::Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->is_map() || field->cpp_type() != field->CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) AddFuture(*reflection.MutableMessage(&message, field));
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i) {
      AddFuture(*reflection.MutableRepeatedMessage(&message, field, i));
    }
  }
  google::protobuf::UnknownFieldSet& unknown = *reflection.MutableUnknownFields(&message);
  unknown.AddLengthDelimited(kFuture, std::string("\0\xff future", 9));
  unknown.AddVarint(kFuture + 1, 7);
}

// What alignd sets.
inline void ClearWhatIsAssigned(v1::LinuxContainerResources& resources) {
  resources.clear_cpuset_cpus();
  resources.clear_cpuset_mems();
  resources.clear_cpu_quota();
}

}  // namespace alignd::daemon
