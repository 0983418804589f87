// The container annotation with the mark of an assignment, and the label that proves it.
#pragma once

#include <string>
#include <string_view>

#include "alignd/admission/assignment_mark.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::checkpoint {

inline constexpr char kMarkAnnotation[] = "alignd.io/assignment";

// The container label with the id of the mark: a random text that is not known before the container
// is created. CRI-O takes the annotations of a restored container from its checkpoint, which is an
// image of the pod's author; labels always come from the request.
inline constexpr char kMarkLabel[] = "alignd.io/assignment-id";

// The value of the annotation: JSON in one line with version, the names of pod and container, `id`
// (the value of the label), and a checksum over all of it.
std::string FormatMark(const ContainerKey& key, std::string_view id,
                       const admission::AssignmentMark& mark);

// `id`: the container's label; empty if it has none. Errors: kCorrupt, naming what is wrong: not
// such a text, a checksum that does not match, a mark of another container, another id, a list that
// cannot be read, or nothing in it; kInvalidArgument for a version that this program does not know.
Result<admission::AssignmentMark> ParseMark(const ContainerKey& key, std::string_view id,
                                            std::string_view text);

}  // namespace alignd::checkpoint
