# static/alignd and static/alignctl, from the same objects as the other programs, without any shared
# library. Debian has no static libraries of fmt, spdlog, prometheus-cpp and cpp-httplib:
# scripts/lib/static-libraries.sh makes them.
set(ALIGND_STATIC_LIBRARIES ${CMAKE_BINARY_DIR}/static-libraries CACHE PATH
  "Directory in which scripts/lib/static-libraries.sh has made static libraries")
set(made)
foreach(name cpp-httplib fmt prometheus-cpp-core spdlog)
  set(library ${ALIGND_STATIC_LIBRARIES}/lib${name}.a)
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} is missing: "
                        "run scripts/lib/static-libraries.sh ${ALIGND_STATIC_LIBRARIES}")
  endif()
  list(APPEND made ${library})
endforeach()

# Debian's cpp-httplib has TLS; the one here has none.
list(TRANSFORM ALIGND_HTTP_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE http_sources)
add_library(alignd_http_static STATIC ${http_sources})
target_include_directories(alignd_http_static PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(alignd_http_static PRIVATE
  $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_COMPILE_DEFINITIONS>
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(alignd_http_static PRIVATE alignd_options alignd_hardening)

# alignctl without TLS: in place of src/events/api_client.cc, which comes later in the group.
add_library(alignd_no_api_client STATIC ${PROJECT_SOURCE_DIR}/src/events/no_api_client.cc)
target_include_directories(alignd_no_api_client PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(alignd_no_api_client PRIVATE alignd_edge alignd_options alignd_hardening)

pkg_check_modules(ALIGND_STATIC_PKG REQUIRED
  grpc++_unsecure protobuf libcares re2 zlib libnghttp2 yaml-cpp)
# grpc's file does not name the next two. dbus is without the libsystemd that its file names: Debian has
# no static one, and only the server in libdbus calls it. The atomic operations of x86-64 need no library.
set(libraries ${ALIGND_STATIC_PKG_STATIC_LIBRARIES} address_sorting upb dbus-1)
list(REMOVE_ITEM libraries atomic pthread rt)
list(REMOVE_DUPLICATES libraries)
list(TRANSFORM libraries PREPEND -l)  # not the targets of these names, which are shared libraries

foreach(program alignd alignctl)
  add_executable(${program}-static $<TARGET_OBJECTS:${program}>)
  set_target_properties(${program}-static PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/static)
  add_dependencies(${program}-static alignd_cli alignd_edge alignd_core alignd_proto alignd_http_static
    alignd_events alignd_no_api_client)
  target_link_libraries(${program}-static PRIVATE
    -static-pie -Wl,-z,relro,-z,now,--build-id=none -Wl,--gc-sections
    -Wl,--defsym=sd_listen_fds=0,--defsym=sd_is_socket=0 -Wl,--start-group
    $<TARGET_FILE:alignd_cli> $<TARGET_FILE:alignd_no_api_client> $<TARGET_FILE:alignd_events>
    $<TARGET_FILE:alignd_edge> $<TARGET_FILE:alignd_core>
    $<TARGET_FILE:alignd_proto>
    $<TARGET_FILE:alignd_http_static> ${made} ${libraries} -Wl,--end-group)
endforeach()
