// What the readers of NodeResourceTopology objects have in common. Private to the core.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/noderesourcetopology/zones.h"
#include "alignd/placement/topology_object.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// Limits of what is read, so that no object takes much memory.
inline constexpr uint64_t kMaxCpus = 8192;  // of an object
inline constexpr uint64_t kMaxDevicesOfZone = 4096;

// What to do about objects that alignd has not written, and about those that it has.
inline constexpr char kPublish[] =
    "publish the object with alignd, or give the output of alignctl topology -o json, made on that "
    "node";
inline constexpr char kWriteWithAlignd[] = "let alignd write the object";
inline constexpr char kGiveAllAtOnce[] =
    "give the output of one kubectl get pods,noderesourcetopologies,nodes -A -o json";

Error BadObject(std::string message, std::string remedy);
// Of the object: "NodeResourceTopology NAME: ...".
Error BadField(const TopologyObject& object, const std::string& what, std::string remedy);
// "NodeResourceTopology NAME: zone node-0...".
Error BadZone(const TopologyObject& object, int numa_id, const std::string& what);

// "node-0" -> 0. Also "node--1", which no zone is: groups of devices have the NUMA nodes that their
// plugin has reported.
// Source: resource-topology-exporter, Node Feature Discovery.
std::optional<int64_t> NumaIdOf(std::string_view zone);
bool HasZone(const TopologyObject& object, int64_t numa_id);

// capacity, allocatable and available of the JSON object.
// Errors: kInvalidArgument: not a whole number of at least 0, or more than the one before it.
Result<noderesourcetopology::Amount> ReadAmounts(const json::View& holder);

// An amount of the zone; zeros: the zone does not have it.
noderesourcetopology::Amount AmountIn(const noderesourcetopology::Zone& zone,
                                      const std::string& resource);

// nullptr: there is none of that name.
const std::string* AttributeOf(const std::map<std::string, std::string>& attributes,
                               const std::string& name);

// A number of CPUs in an attribute; nullopt: there is none, or it is no such number.
std::optional<uint64_t> CpusIn(const std::map<std::string, std::string>& attributes,
                               const char* name);

// The text of a member, or of a member's member; empty: it has none, or it is no text. Then the
// reader of the object reports the fault.
std::string TextAt(const nlohmann::json& object, const char* member);
std::string TextAt(const nlohmann::json& object, const char* first, const char* second);

// The value of an attribute of the object that is a JSON text; null: there is none.
// Errors: kInvalidArgument: it does not parse.
Result<nlohmann::json> JsonAttribute(const TopologyObject& object, const char* name);

}  // namespace alignd::placement
