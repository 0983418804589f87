/* What a test and the process that it ends share: a file with this structure. */
#pragma once

#include <stdint.h>

/* Names the file. */
#define kCutOffVariable "ALIGND_CUT_OFF"

struct CutOff {
  int64_t is_counting; /* 0: calls are not counted */
  int64_t calls;       /* counted so far, by all threads */
  int64_t last;        /* the process ends at this call, before it is done; 0: at none */
};
