// The plan of a change for a node whose alignd does not run, from its state files.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/control/v1/control.pb.h"

namespace alignd::cli {

struct OfflinePlanOptions {
  std::string state_dir;
  std::string device_plugin_dir;  // empty: device-plugins in the state directory
  std::string root = "/";         // of the node: its machine, and the unit of alignd
  std::string node;               // a scenario's `node` instead of that machine; empty: none
  // With which the state files were written; empty: the --config of alignd's unit.
  std::string current_config;
};

// As ControlClient::PlanChange, by what a start of alignd would read. Writes nothing. The notes say
// what the files cannot show. A container is refused, as undecided, if the plan depends on the
// policy that its pod may have chosen by annotation (admission/own_policy.h): the files do not have
// it. Errors: kUnavailable: an alignd runs with these files, or a change of the files was
// interrupted; kNotFound: there are no state files; kCorrupt, kInvalidArgument: files that a start
// would not carry over, as they do not suffice then; the problems of either configuration.
Result<control::v1::ChangeResponse> PlanFromFiles(const OfflinePlanOptions& options,
                                                  const control::v1::ChangeRequest& request);

}  // namespace alignd::cli
