# Before the packages are made: compresses manual pages, as Debian requires, without the time.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man*/*.[1-8]"
     "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/man/man*/*.[1-8]")
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
