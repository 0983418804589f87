// The image service of the simulated runtime: every name can be pulled.
#include "simulator/runtime_model.h"

namespace alignd::simulator {

namespace cri = runtime::v1;

grpc::Status RuntimeModel::List(const cri::ListImagesRequest& request,
                                cri::ListImagesResponse& response) {
  const std::string& wanted = request.filter().image().image();
  for (const std::string& name : images_) {
    if (!wanted.empty() && wanted != name) continue;
    cri::Image& image = *response.add_images();
    image.set_id(name);
    image.add_repo_tags(name);
    image.set_size(1);
    image.mutable_spec()->set_image(name);
  }
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Show(const cri::ImageStatusRequest& request,
                                cri::ImageStatusResponse& response) {
  const std::string& name = request.image().image();
  if (!images_.contains(name)) return grpc::Status::OK;  // an unknown image is an empty answer
  response.mutable_image()->set_id(name);
  response.mutable_image()->add_repo_tags(name);
  response.mutable_image()->set_size(1);
  *response.mutable_image()->mutable_spec() = request.image();
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Pull(const cri::PullImageRequest& request,
                                cri::PullImageResponse& response) {
  if (request.image().image().empty()) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "pull of an image without a name"};
  }
  images_.insert(request.image().image());
  response.set_image_ref(request.image().image());
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::Remove(const cri::RemoveImageRequest& request,
                                  cri::RemoveImageResponse&) {
  images_.erase(request.image().image());
  return grpc::Status::OK;
}

grpc::Status RuntimeModel::FsInfo(const cri::ImageFsInfoRequest&,
                                  cri::ImageFsInfoResponse& response) {
  cri::FilesystemUsage& usage = *response.add_image_filesystems();
  usage.set_timestamp(clock_());
  usage.mutable_fs_id()->set_mountpoint("/");
  usage.mutable_used_bytes()->set_value(images_.size());
  usage.mutable_inodes_used()->set_value(images_.size());
  return grpc::Status::OK;
}

}  // namespace alignd::simulator
