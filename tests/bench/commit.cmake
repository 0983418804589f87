# Writes HEADER with the commit of SOURCE, if it is not in there already.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  set(commit unknown)
endif()
set(text "#define ALIGND_BENCH_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${HEADER} "${text}")
endif()
