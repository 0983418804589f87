// The container annotation with the mark of an assignment.
#pragma once

#include <string>
#include <string_view>

#include "alignd/admission/assignment_mark.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::checkpoint {

inline constexpr char kMarkAnnotation[] = "alignd.io/assignment";

// The value of the annotation: JSON in one line with version, the names of pod and container, and a
// checksum over all of it.
std::string FormatMark(const ContainerKey& key, const admission::AssignmentMark& mark);

// Errors: kCorrupt, naming what is wrong: not such a text, a checksum that does not match, a mark
// of another container, a list that cannot be read, or nothing in it; kInvalidArgument for a
// version that this program does not know.
Result<admission::AssignmentMark> ParseMark(const ContainerKey& key, std::string_view text);

}  // namespace alignd::checkpoint
