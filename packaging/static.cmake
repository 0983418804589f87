# static/alignd and its like: the programs, from the same objects as the other ones, without any shared
# library. Debian has no static libraries of fmt, spdlog, prometheus-cpp and cpp-httplib:
# scripts/lib/static-libraries.sh makes them.
set(ALIGND_STATIC_LIBRARIES ${CMAKE_BINARY_DIR}/static-libraries CACHE PATH
  "Directory in which scripts/lib/static-libraries.sh has made static libraries")
foreach(name cpp-httplib cpp-httplib-tls fmt prometheus-cpp-core spdlog)
  set(library ${ALIGND_STATIC_LIBRARIES}/lib${name}.a)
  if(NOT EXISTS ${library})
    message(FATAL_ERROR "${library} is missing: "
                        "run scripts/lib/static-libraries.sh ${ALIGND_STATIC_LIBRARIES}")
  endif()
endforeach()
set(made ${ALIGND_STATIC_LIBRARIES}/libfmt.a ${ALIGND_STATIC_LIBRARIES}/libprometheus-cpp-core.a
  ${ALIGND_STATIC_LIBRARIES}/libspdlog.a)

# Debian's cpp-httplib has TLS; that of alignd has none.
list(TRANSFORM ALIGND_HTTP_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE http_sources)
add_library(alignd_http_static STATIC ${http_sources})
target_include_directories(alignd_http_static PRIVATE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_definitions(alignd_http_static PRIVATE
  $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_COMPILE_DEFINITIONS>
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(alignd_http_static PRIVATE alignd_options alignd_hardening)

pkg_check_modules(ALIGND_STATIC_PKG REQUIRED absl_strings protobuf zlib libnghttp2 yaml-cpp hwloc)
pkg_check_modules(ALIGND_STATIC_TLS REQUIRED openssl libbrotlienc libbrotlidec)
# dbus is without the libsystemd that its file names: Debian has no static one, and only the server in
# libdbus calls it. hwloc is without the libudev that its file names for the same reason: it looks for the
# disks of this machine there, which reading a file does not. The atomic operations of x86-64 need no
# library.
set(libraries ${ALIGND_STATIC_PKG_STATIC_LIBRARIES} dbus-1)
set(tls_libraries ${ALIGND_STATIC_TLS_STATIC_LIBRARIES})
foreach(list libraries tls_libraries)
  list(REMOVE_ITEM ${list} atomic dl pthread rt udev)
  list(REMOVE_DUPLICATES ${list})
  list(TRANSFORM ${list} PREPEND -l)  # not the targets of these names, which are shared libraries
endforeach()

# alignd_own_libraries(TARGET LIST): appends the project's static libraries that TARGET is linked with, but for
# alignd_http.
function(alignd_own_libraries target list)
  set(found ${${list}})
  get_target_property(linked ${target} LINK_LIBRARIES)
  foreach(library IN LISTS linked)
    if(NOT library MATCHES "^alignd_" OR library STREQUAL "alignd_http" OR library IN_LIST found)
      continue()
    endif()
    get_target_property(type ${library} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${library})
      alignd_own_libraries(${library} found)
    endif()
  endforeach()
  set(${list} ${found} PARENT_SCOPE)
endfunction()

# alignd_static(PROGRAM HTTP): the target PROGRAM-static.
#   HTTP  NO_TLS, or TLS for a program that calls the API server. The types of cpp-httplib depend on it: the
#         program has one of its two libraries, and alignd_http compiled for this one.
function(alignd_static program http)
  set(own)
  alignd_own_libraries(${program} own)
  set(objects)
  foreach(library IN LISTS own)
    list(APPEND objects $<TARGET_FILE:${library}>)
  endforeach()
  add_executable(${program}-static $<TARGET_OBJECTS:${program}>)
  if(http STREQUAL "TLS")
    set(http_library alignd_http)
    set(http_made ${ALIGND_STATIC_LIBRARIES}/libcpp-httplib-tls.a ${tls_libraries})
    target_sources(${program}-static PRIVATE ${PROJECT_SOURCE_DIR}/packaging/static_names.cc)
  else()
    set(http_library alignd_http_static)
    set(http_made ${ALIGND_STATIC_LIBRARIES}/libcpp-httplib.a)
  endif()
  set_target_properties(${program}-static PROPERTIES
    LINKER_LANGUAGE CXX OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/static)
  add_dependencies(${program}-static ${own} ${http_library})
  target_link_libraries(${program}-static PRIVATE
    # Packed relative relocations: the usual ones are 0.6 MiB, which each start reads.
    -static-pie -Wl,-z,relro,-z,now,--build-id=none,-z,pack-relative-relocs -Wl,--gc-sections
    -Wl,--defsym=sd_listen_fds=0,--defsym=sd_is_socket=0
    -Wl,--defsym=udev_new=0,--defsym=udev_unref=0,--defsym=udev_device_unref=0
    -Wl,--defsym=udev_device_new_from_subsystem_sysname=0,--defsym=udev_device_get_property_value=0
    -Wl,--start-group
    ${objects} $<TARGET_FILE:${http_library}> ${http_made} ${made} ${libraries} -Wl,--end-group)
endfunction()

alignd_static(alignd NO_TLS)
alignd_static(alignctl TLS)
alignd_static(alignd-events TLS)
alignd_static(alignd-extender TLS)
