#include "control/readable.h"

#include "alignd/checkpoint/utf8.h"

namespace alignd::control {

std::string Readable(std::string_view text) { return checkpoint::ToValidUtf8(text); }

}  // namespace alignd::control
