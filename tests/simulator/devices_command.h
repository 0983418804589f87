// `alignsim devices --dir DIR --resource NAME --device ID[:numa=N] ...`: a device plugin.
// Signals and lines on standard input change its health and its answers.
#pragma once

#include <string_view>

#include "alignd/base/result.h"
#include "simulator/command.h"
#include "simulator/device_plugin.h"

namespace alignd::simulator {

// SIGUSR1 makes all devices unhealthy, SIGUSR2 healthy; lines on standard input go to Obey.
void AddDevicesCommand(CLI::App& app, Action& action);

// Runs the command in a line: `healthy [ID]` and `unhealthy [ID]` (without ID: all), `answer`,
// `hang`, `fail` and `nothing` (see Manner), `end-lists`. Errors: kInvalidArgument for a line that
// is none of these; kNotFound for an unknown device.
Result<Done> Obey(std::string_view line, DevicePlugin& plugin);

}  // namespace alignd::simulator
