#include "cli/message_text.h"

#include <vector>

#include "host/printable.h"

namespace alignd::cli {

void MakePrintable(google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  fields.ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* field : set) {
    const bool is_text = field->cpp_type() == field->CPPTYPE_STRING;
    const bool is_message = field->cpp_type() == field->CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (is_message) MakePrintable(*fields.MutableMessage(&message, field));
      if (is_text) {
        fields.SetString(&message, field, host::Printable(fields.GetString(message, field)));
      }
      continue;
    }
    for (int i = 0; i < fields.FieldSize(message, field); ++i) {
      if (is_message) MakePrintable(*fields.MutableRepeatedMessage(&message, field, i));
      if (!is_text) continue;
      const std::string text = fields.GetRepeatedString(message, field, i);
      fields.SetRepeatedString(&message, field, i, host::Printable(text));
    }
  }
}

std::string OfNode(const control::v1::ContainerAssignment& assignment) {
  if (!assignment.has_shared_on_node()) return "";
  const control::v1::SharedOnNode& share = assignment.shared_on_node();
  return " of NUMA node " + std::to_string(share.numa()) + " (" + std::to_string(share.millis()) +
         "m)";
}

std::string DescribeAssignedDevices(const control::v1::ContainerAssignment& container) {
  std::string text;
  for (const control::v1::AssignedDevices& assigned : container.devices()) {
    text += (text.empty() ? "" : ", ") + assigned.resource();
    for (const control::v1::Device& device : assigned.devices()) {
      text += " " + device.id();
      if (!device.numa().empty()) text += " (NUMA " + Joined(device.numa()) + ")";
      if (!device.kubelet_id().empty()) text += " (kubelet: " + device.kubelet_id() + ")";
      if (!device.problem().empty()) text += " [" + device.problem() + "]";
    }
  }
  return text;
}

std::string DescribeClaimedDevices(
    const google::protobuf::RepeatedPtrField<control::v1::ClaimedDevice>& devices) {
  std::string text;
  for (const control::v1::ClaimedDevice& device : devices) {
    text +=
        (text.empty() ? "" : ", ") + device.driver() + "/" + device.pool() + "/" + device.name();
    text += device.numa().empty() ? " (NUMA unknown)" : " (NUMA " + Joined(device.numa()) + ")";
    if (!device.note().empty()) text += " [" + device.note() + "]";
  }
  return text;
}

std::string DescribeWholePod(const control::v1::WholePod& pod) {
  std::string text = pod.cpus().empty() ? "" : "CPUs " + pod.cpus();
  for (const control::v1::MemoryBlock& block : pod.memory()) {
    text += (text.empty() ? "" : ", ") + std::to_string(block.bytes()) + " bytes of " +
            block.type() + " of NUMA " + Joined(block.numa());
  }
  return text;
}

}  // namespace alignd::cli
