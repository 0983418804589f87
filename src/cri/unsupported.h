// Methods that alignd refuses because they could create or change containers past its decisions.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "proxy/forwarder.h"

namespace alignd::cri {

// Whether alignd sends the method to the runtime as it comes, although it does not intercept it.
// `path`: "/runtime.v1.RuntimeService/Exec".
// * RuntimeService: the methods that CRI 0.37 has. None of those that are not intercepted creates a
//   container, or changes the CPUs, the memory nodes or the devices of one.
// * ImageService: all. An image is no container.
// * grpc.*: health checks and reflection.
// A method of a later CRI may create containers. A caller takes UNIMPLEMENTED for an older runtime.
// See docs/refused-calls.md.
bool MayPass(std::string_view path);

// Ends every call of `path` at once with UNIMPLEMENTED, the reason and what to do.
std::unique_ptr<proxy::CallHandler> MakeUnsupported(const std::string& path);

}  // namespace alignd::cri
