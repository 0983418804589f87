// The documents of a file that a user names.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"

namespace alignd::cli {

// Where a file comes from: one that the user names may be a pipe. Of a directory, FIFOs, sockets
// and devices are errors: to read them could last for ever.
enum class FileOrigin { kNamed, kInDirectory };

// The documents of a file as JSON: of YAML, or of JSON with one object, or one object per line; of
// lstopo's XML, the `node` that it describes. "-" is standard input.
// `stop`: as in LstopoLimits.
// Errors: it cannot be read, is none of them, or is longer than 256 MiB; as NodeJsonOfLstopo.
Result<std::vector<std::string>> ReadDocuments(const std::string& file,
                                               FileOrigin origin = FileOrigin::kNamed,
                                               int stop = -1);

// The file as an error names it.
std::string ShownFile(const std::string& file);

// Why a file without a document is refused: it may have been written in part.
Error EmptyFile(const std::string& file);

}  // namespace alignd::cli
