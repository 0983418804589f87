// Limits of what a peer can make alignd keep. docs/configuration.md has the table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/checkpoint/binding_checkpoint.h"
#include "allocation/admission_request.h"
#include "host/file.h"

namespace alignd::allocation {

// UID, namespace and name of a pod, name of a container, name of a resource. The kubelet makes a
// directory of each UID, and a name in Kubernetes has at most 253 bytes.
// Source: k8s.io/apimachinery pkg/util/validation, DNS1123SubdomainMaxLength.
inline constexpr size_t kMaxNameBytes = 253;

// A longer id of a device is refused. Ids of real plugins have up to about 60 bytes.
inline constexpr size_t kMaxDeviceIdBytes = 1024;

// The answer of a plugin for one container. Linux starts no process with more than 2 MiB of
// arguments and environment (with the usual stack limit), and Kubernetes allows 256 KiB of
// annotations.
inline constexpr size_t kMaxAnswerBytes = size_t{1024} * 1024;

// The device lists of all plugins together, as ids in bytes.
inline constexpr size_t kMaxInventoryBytes = size_t{8} * 1024 * 1024;

// Each state file: the next start reads no longer one.
inline constexpr size_t kMaxStateBytes = host::kMaxFileBytes;

// `what` names the text, which is not repeated in the error.
// Errors: kInvalidArgument if it is longer than `max_bytes`, with both sizes, or not UTF-8, which
// the state files cannot contain.
Result<Done> RequireName(std::string_view what, std::string_view text,
                         size_t max_bytes = kMaxNameBytes);

// Names of the pod, its containers and their resources, and the kubelet-allocated ids.
// Errors: kInvalidArgument, naming the limit and the size.
Result<Done> RequireNames(const AdmissionRequest& request);

// Errors: kInvalidArgument if the ids of all resources together are longer than kMaxInventoryBytes.
Result<Done> RequireInventory(const devicemanager::DeviceState& state);

// The size of the text as a string in a state file, in bytes, with the quotes.
size_t JsonBytes(std::string_view text);

// An upper bound of the size of the device file, in bytes: at most 256 too much for each NUMA node
// of an allocation, each allocation and each resource. Much cheaper than the file's text.
size_t MaxDeviceFileBytes(const devicemanager::DeviceState& state);

// An upper bound of the size of the file of these bindings, in bytes. Much cheaper than its text.
size_t MaxBindingFileBytes(const checkpoint::Bindings& bindings);

// The error of a file whose text, parsed before it is written, is not what was to be written.
// `parsed`: the error of the parser, if it is one.
Error NotReadBack(const Result<Done>& parsed);

// Whether the state files of this state can be read at the next start. Makes the text of a file
// only if an upper bound of its size exceeds the limit.
// Errors: kInvalidArgument, naming the limit and the size.
Result<Done> RequireReadable(const admission::NodeState& state);

}  // namespace alignd::allocation
