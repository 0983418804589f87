// A picture of a node as SVG, in the manner of lstopo.
#pragma once

#include <string>

#include "picture/picture.h"

namespace alignd::picture {

// A document without anything from elsewhere. Equal pictures give equal bytes. Its size is bounded
// by the number of CPUs and of containers with exclusive CPUs or devices (kMaxOwnersListed).
std::string RenderSvg(const Picture& picture);

// Containers below the picture; what is beyond is counted.
inline constexpr size_t kMaxOwnersListed = 256;

}  // namespace alignd::picture
