// Reports of the control service, told for people.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "control/reports.h"

namespace alignd::cli {

// Version and policies, one line per NUMA node and per resource, and a table of the containers that
// hold something.
void PrintStatus(const control::StatusReport& report, std::ostream& out);

// Of each container the hints of every resource, what they were merged to, and why the other
// candidates lost. Each line starts with `indent`.
void PrintExplanations(const std::vector<control::ContainerExplanation>& containers,
                       const std::string& indent, std::ostream& out);

// What the marks in PrintExplanations mean, in one line.
void PrintLegend(std::ostream& out);

void PrintDecisions(const std::vector<control::DecisionReport>& decisions, std::ostream& out);

}  // namespace alignd::cli
