#include "daemon/request_sources.h"

#include <utility>
#include <vector>

#include "podsource/annotation_source.h"
#include "podsource/cri_estimate.h"
#include "podsource/first_that_knows.h"
#include "podsource/pods_api_source.h"

namespace alignd::daemon {

Result<std::unique_ptr<podsource::ResourceSource>> MakeSources(const Options& options,
                                                               const cgroup::CgroupTree& cgroups,
                                                               const KubeletConfig& config) {
  const bool claims_add_sizes = DraNodeAllocatableResourcesOn(config);
  std::vector<std::unique_ptr<podsource::ResourceSource>> sources;
  if (!options.pods_api_endpoint.empty()) {
    podsource::PodsApiSource::Options api;
    api.endpoint = options.pods_api_endpoint;
    api.claims_add_sizes = claims_add_sizes;
    Result<std::unique_ptr<podsource::ResourceSource>> source = podsource::PodsApiSource::Make(api);
    if (!source.ok()) return source.error().In("--pods-api-endpoint");
    sources.push_back(*std::move(source));
  }
  sources.push_back(
      std::make_unique<podsource::AnnotationSource>(podsource::AnnotationSource::Options{
          config.annotated_extended_resources, &cgroups, claims_add_sizes}));
  sources.push_back(std::make_unique<podsource::CriEstimate>(claims_add_sizes));
  return std::unique_ptr<podsource::ResourceSource>(
      std::make_unique<podsource::FirstThatKnows>(std::move(sources)));
}

}  // namespace alignd::daemon
