// Readers of the fields that turn something on. Private to the core.
#pragma once

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "core/json/json_view.h"

namespace alignd {

// podPolicies. Errors: kInvalidArgument with the path of the field and the known names.
Result<Done> ReadPodPolicySwitch(const json::View& top, KubeletConfig& config);

// namespacePolicies. Errors: as above; a name that an earlier one covers has no effect, and is one.
Result<Done> ReadNamespacePolicies(const json::View& top, KubeletConfig& config);

// sharedPoolHandlers. Errors: as above, of a name that CheckHandlerName refuses, or that is empty.
Result<Done> ReadSharedPoolHandlers(const json::View& top, KubeletConfig& config);

// notDevices. Errors: as above, of a name that CheckNotDevice refuses.
Result<Done> ReadNotDevices(const json::View& top, KubeletConfig& config);

// annotatedExtendedResources. Errors: as above.
Result<Done> ReadAnnotatedExtendedResources(const json::View& top, KubeletConfig& config);

}  // namespace alignd
