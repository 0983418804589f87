// Reports of the control service as text, for people.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

// One screen: health and its problems, policies, a bar of CPUs per NUMA node with memory and
// devices, device plugins, pending containers, conditions, and how many are assigned.
// `wide`: messages in full, and a table of the containers with assignments. The CPU lists are
// valid, as in an answer of ControlClient. Texts of others are printed as host::Printable.
void PrintStatus(const control::v1::GetStatusResponse& report, bool wide, std::ostream& out);

// A line per container. `wide`: also the pods' UIDs and the CPUs of the shared pool.
void PrintPods(const control::v1::ListPodsResponse& report, bool wide, std::ostream& out);

void PrintWhyNot(const control::v1::WhyNotResponse& report, std::ostream& out);

// For each container: the hints of every resource, the merged hint, and why the other candidates
// lost. Each line starts with `indent`.
void PrintExplanations(
    const google::protobuf::RepeatedPtrField<control::v1::ContainerDecision>& containers,
    const std::string& indent, std::ostream& out);

// Explains the symbols of PrintExplanations, in one line.
void PrintLegend(std::ostream& out);

// `knows_queue`: alignd has answered, so a pod without a position is not in its queue. Texts of
// others are printed as host::Printable.
void PrintDecisions(const control::v1::ExplainResponse& report, bool knows_queue,
                    std::ostream& out);

}  // namespace alignd::cli
