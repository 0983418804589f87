# Writes HEADER with the commit of SOURCE, or with COMMIT, as MACRO, if it is not in there already.
set(commit "${COMMIT}")
if(commit STREQUAL "")
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(commit unknown)
  endif()
endif()
set(text "#define ${MACRO} \"${commit}\"\n")
set(before "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
