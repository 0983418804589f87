// The methods of CRI that have one request and one answer.
#pragma once

#include <string_view>

namespace alignd::cri {

// Whether `method` ("/runtime.v1.RuntimeService/Version") is known to be unary: those of
// RuntimeService and ImageService in runtime.v1 and runtime.v1alpha2, up to cri-api 0.36. What is
// younger is relayed as a stream, which is right for every method.
bool IsUnaryMethod(std::string_view method);

}  // namespace alignd::cri
