// Parts of reports as text.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>

#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

// Makes every text in the message printable: a line end in the name of a pod or in the error of a
// plugin must not look like a line of the report.
void MakePrintable(google::protobuf::Message& message);

// "0,1".
template <typename Number>
std::string Joined(const google::protobuf::RepeatedField<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

inline std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

// " of NUMA node 0 (500m)" for a container of the shared pool that stays there; otherwise empty.
std::string OfNode(const control::v1::ContainerAssignment& assignment);

// "nvidia.com/gpu gpu0 (NUMA 0) [unhealthy]"; empty without devices.
std::string DescribeAssignedDevices(const control::v1::ContainerAssignment& container);

// "gpu.example.com/node-1/gpu-0 (NUMA 1)", by comma.
std::string DescribeClaimedDevices(
    const google::protobuf::RepeatedPtrField<control::v1::ClaimedDevice>& devices);

// "CPUs 1-4, 1073741824 bytes of memory of NUMA 0".
std::string DescribeWholePod(const control::v1::WholePod& pod);

}  // namespace alignd::cli
