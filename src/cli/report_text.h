// Reports of the control service as text, for people.
#pragma once

#include <iosfwd>
#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

// Version and policies, a line per NUMA node and per resource, the conditions, and a table of the
// containers with assignments. The CPU lists are valid, as in an answer of ControlClient. Texts of
// others are printed as host::Printable.
void PrintStatus(const control::v1::GetStatusResponse& report, std::ostream& out);

// For each container: the hints of every resource, the merged hint, and why the other candidates
// lost. Each line starts with `indent`.
void PrintExplanations(
    const google::protobuf::RepeatedPtrField<control::v1::ContainerDecision>& containers,
    const std::string& indent, std::ostream& out);

// Explains the symbols of PrintExplanations, in one line.
void PrintLegend(std::ostream& out);

// Texts of others are printed as host::Printable.
void PrintDecisions(const control::v1::ExplainResponse& report, std::ostream& out);

}  // namespace alignd::cli
