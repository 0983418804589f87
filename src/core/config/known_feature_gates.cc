#include "core/config/known_feature_gates.h"

#include <algorithm>
#include <cstddef>

namespace alignd {
namespace {

// The gates that a kubelet 1.36.2 accepts: those of pkg/features, and those of the libraries that
// register theirs with it (apiserver, apiextensions-apiserver, client-go, controller-manager, and
// logs, metrics and zpages of component-base). Names are as in featureGates: a gate may have
// another name in the source (CustomCPUCFSQuotaPeriod, RuntimeClassInImageCriApi). Source:
// kubernetes v1.36.2 pkg/features/kube_features.go; the files kube_features.go and
// known_features.go of these libraries;
// test/compatibility_lifecycle/reference/versioned_feature_list.yaml.
constexpr std::string_view kOf136 =
    "APIResponseCompression APIServerIdentity APIServerTracing APIServingWithRoutine "
    "AggregatedDiscoveryRemoveBetaType AllowDNSOnlyNodeCSR "
    "AllowInsecureKubeletCertificateSigningRequests AllowOverwriteTerminationGracePeriodSeconds "
    "AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AllowUnsafeMalformedObjectDeletion "
    "AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AtomicFIFO AuthorizeNodeWithSelectors "
    "AuthorizePodWebsocketUpgradeCreatePermission AuthorizeWithSelectors BtreeWatchCache "
    "CBORServingAndStorage CPUManagerPolicyAlphaOptions CPUManagerPolicyBetaOptions "
    "CPUManagerPolicyOptions CRDObservedGenerationTracking CRDValidationRatcheting "
    "CRIListStreaming CSIServiceAccountTokenSecrets CSIVolumeHealth "
    "ChangeContainerStatusOnKubeletRestart ClearingNominatedNodeNameAfterBinding "
    "ClientsAllowCARotation ClientsAllowCBOR ClientsAllowTLSCacheGC ClientsPreferCBOR "
    "CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook "
    "ClusterTrustBundle ClusterTrustBundleProjection ComponentFlagz ComponentStatusz "
    "ConcurrentWatchObjectDecode ConsistentListFromCache ConstrainedImpersonation "
    "ContainerCheckpoint ContainerRestartRules ContainerStopSignals ContextualLogging "
    "ControllerManagerReleaseLeaderElectionLockOnExit CoordinatedLeaderElection "
    "CrossNamespaceVolumeDataSource CustomCPUCFSQuotaPeriod CustomResourceFieldSelectors "
    "DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules "
    "DRADeviceTaints DRAExtendedResource DRAListTypeAttributes DRAPartitionableDevices "
    "DRAPrioritizedList DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization "
    "DRAResourcePoolStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims "
    "DeclarativeValidation DeclarativeValidationBeta DeclarativeValidationTakeover "
    "DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableAllocatorDualWrite "
    "DisableCPUQuotaWithExclusiveCPUs DisableNodeKubeProxyVersion DynamicResourceAllocation "
    "EnvFiles EventedPLEG ExecProbeTimeout ExtendWebSocketsToKubelet "
    "ExternalServiceAccountTokenSigner GangScheduling GenericWorkload GitRepoVolumeDriver "
    "GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance "
    "HPAScaleToZero HostnameOverride ImageMaximumGCAge ImageVolume ImageVolumeWithDigest "
    "InOrderInformers InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling "
    "InPlacePodVerticalScaling InPlacePodVerticalScalingExclusiveCPUs "
    "InPlacePodVerticalScalingExclusiveMemory InPlacePodVerticalScalingInitContainers "
    "InformerResourceVersion JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy "
    "JobSuccessPolicy KMSv1 KubeletCgroupDriverFromCRI KubeletCrashLoopBackOffMax "
    "KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletInUserNamespace KubeletPSI "
    "KubeletPodResourcesDynamicResources KubeletPodResourcesGet "
    "KubeletPodResourcesListUseActivePods KubeletRegistrationGetOnExistsOnly "
    "KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders KubeletTracing "
    "ListFromCacheSnapshot LocalStorageCapacityIsolationFSQuotaMonitoring LogarithmicScaleDown "
    "LoggingAlphaOptions LoggingBetaOptions LoggingStableOptions "
    "ManifestBasedAdmissionControlConfig MatchLabelKeysInPodAffinity "
    "MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge "
    "MaxUnavailableStatefulSet MemoryQoS MultiCIDRServiceAllocator MutableCSINodeAllocatableCount "
    "MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs "
    "MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy NFTablesProxyMode "
    "NativeHistograms NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread NodeLogQuery "
    "NodeSwap NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching "
    "OrderedNamespaceDeletion PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime "
    "PodAndContainerStatsFromCRI PodCertificateRequest PodDeletionCost PodLifecycleSleepAction "
    "PodLifecycleSleepActionAllowZero PodLogsQuerySplitStreams PodObservedGenerationTracking "
    "PodReadyToStartContainersCondition PodSchedulingReadiness PodTopologyLabelsAdmission PodsAPI "
    "PortForwardWebsockets PreferSameTrafficDistribution PreventStaticPodAPIReferences "
    "ProcMountType QOSReserved RecoverVolumeExpansionFailure RecursiveReadOnlyMounts "
    "ReduceDefaultCrashLoopBackOffDecay RelaxedDNSSearchValidation "
    "RelaxedEnvironmentVariableValidation RelaxedServiceNameValidation ReloadKubeletClientCAFile "
    "ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResilientWatchCacheInitialization "
    "ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits "
    "RetryGenerateName RotateKubeletServerCertificate RuntimeClassInImageCriApi "
    "SELinuxChangePolicy SELinuxMount SELinuxMountReadWriteOncePod SchedulerAsyncAPICalls "
    "SchedulerAsyncPreemption SchedulerPopFromBackoffQ SchedulerQueueingHints "
    "SeparateCacheWatchRPC SeparateTaintEvictionController ServiceAccountNodeAudienceRestriction "
    "ServiceAccountTokenJTI ServiceAccountTokenNodeBinding "
    "ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo "
    "ServiceCIDRStatusFieldWiping ShardedListAndWatch SidecarContainers SizeBasedListCostEstimate "
    "StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob "
    "StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet "
    "StatefulSetSemanticRevisionComparison StorageCapacityScoring StorageNamespaceIndex "
    "StorageVersionAPI StorageVersionHash StorageVersionMigrator "
    "StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf "
    "StrictIPCIDRValidation StructuredAuthenticationConfiguration "
    "StructuredAuthenticationConfigurationEgressSelector "
    "StructuredAuthenticationConfigurationJWKSMetrics SupplementalGroupsPolicy SystemdWatchdog "
    "TaintTolerationComparisonOperators TokenRequestServiceAccountUIDValidation "
    "TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions "
    "TopologyManagerPolicyBetaOptions TopologyManagerPolicyOptions "
    "TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation "
    "UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO "
    "UserNamespacesHostNetworkSupport UserNamespacesSupport VolumeAttributesClass "
    "VolumeLimitScaling WatchCacheInitializationPostStartHook WatchList WatchListClient WinDSR "
    "WinOverlay WindowsCPUAndMemoryAffinity WindowsGracefulNodeShutdown WindowsHostNetwork "
    "WorkloadAwarePreemption WorkloadWithJob ";

// Those of 1.37 that 1.36 does not have, as far as they are known.
constexpr std::string_view kOf137 =
    "CompositePodGroup ConditionalAuthorization H2CContainerProbe PodLevelCheckpointRestore "
    "SchedulerPreemptionForPodResize StatefulSetRecreateStrategy ";

// Some that were removed before 1.36. Configurations still have them.
constexpr std::string_view kRemoved =
    "CPUManager CSIMigrationPortworx HonorPVReclaimPolicy "
    "InPlacePodVerticalScalingAllocatedStatus InTreePluginPortworxUnregister MemoryManager "
    "ServiceTrafficDistribution StructuredAuthorizationConfiguration TopologyAwareHints "
    "UserNamespacesPodSecurityStandards WatchFromStorageWithoutResourceVersion ";

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string_view> AllNames() {
  std::vector<std::string_view> names;
  for (const std::string_view text : {kOf136, kOf137, kRemoved}) {
    for (const std::string_view name : Words(text)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

const std::vector<std::string_view>& OtherFeatureGates() {
  static const std::vector<std::string_view> names = AllNames();
  return names;
}

}  // namespace alignd
