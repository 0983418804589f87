/* For LD_PRELOAD: ends the process, as SIGKILL does, at one of its calls that change a file or send to
 * a socket. Which one is in a file that the process shares with its test (cut_off.h).
 *
 * Counted are calls about regular files, directories and sockets, and no others: an eventfd's and a
 * terminal's have no effect that outlives the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cut_off.h"

static struct CutOff* plan;

__attribute__((constructor)) static void ReadPlan(void) {
  const char* path = getenv(kCutOffVariable);
  if (path == NULL) return;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) plan = mapped;
  close(file);
}

static void End(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Whether the process ends at this call. */
static int IsLast(void) {
  if (plan == NULL || !__atomic_load_n(&plan->is_counting, __ATOMIC_SEQ_CST)) return 0;
  return __atomic_add_fetch(&plan->calls, 1, __ATOMIC_SEQ_CST) ==
         __atomic_load_n(&plan->last, __ATOMIC_SEQ_CST);
}

static mode_t TypeOf(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 ? (status.st_mode & S_IFMT) : 0;
}

/* Standard output and errors are the log. */
static int Changes(int descriptor) {
  if (descriptor == STDOUT_FILENO || descriptor == STDERR_FILENO) return 0;
  const mode_t type = TypeOf(descriptor);
  return type == S_IFREG || type == S_IFSOCK || type == S_IFDIR;
}

static void Before(void) {
  if (IsLast()) End();
}

static void BeforeOn(int descriptor) {
  if (Changes(descriptor)) Before();
}

#define REAL(name) \
  static __typeof__(&name) real; \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Half of what is written to a file arrives: a write is not atomic. */
ssize_t write(int descriptor, const void* bytes, size_t size) {
  REAL(write);
  if (Changes(descriptor) && IsLast()) {
    if (TypeOf(descriptor) == S_IFREG && real(descriptor, bytes, size / 2) < 0) abort();
    End();
  }
  return real(descriptor, bytes, size);
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  REAL(writev);
  BeforeOn(descriptor);
  return real(descriptor, parts, count);
}

/* A call that changes something whenever it is made. */
#define COUNTED(type, name, parameters, arguments) \
  type name parameters { \
    REAL(name); \
    Before(); \
    return real arguments; \
  }

COUNTED(ssize_t, send, (int descriptor, const void* bytes, size_t size, int flags),
        (descriptor, bytes, size, flags))
COUNTED(ssize_t, sendmsg, (int descriptor, const struct msghdr* message, int flags),
        (descriptor, message, flags))
COUNTED(int, connect, (int descriptor, const struct sockaddr* address, socklen_t size),
        (descriptor, address, size))

COUNTED(int, fsync, (int descriptor), (descriptor))
COUNTED(int, fdatasync, (int descriptor), (descriptor))
COUNTED(int, ftruncate, (int descriptor, off_t size), (descriptor, size))
COUNTED(int, rename, (const char* from, const char* to), (from, to))
COUNTED(int, renameat, (int from_directory, const char* from, int to_directory, const char* to),
        (from_directory, from, to_directory, to))
COUNTED(int, renameat2,
        (int from_directory, const char* from, int to_directory, const char* to, unsigned flags),
        (from_directory, from, to_directory, to, flags))
COUNTED(int, link, (const char* from, const char* to), (from, to))
COUNTED(int, linkat,
        (int from_directory, const char* from, int to_directory, const char* to, int flags),
        (from_directory, from, to_directory, to, flags))
COUNTED(int, unlink, (const char* path), (path))
COUNTED(int, unlinkat, (int directory, const char* path, int flags), (directory, path, flags))
COUNTED(int, remove, (const char* path), (path))
COUNTED(int, mkdir, (const char* path, mode_t mode), (path, mode))

static int Creates(int flags) { return (flags & (O_CREAT | O_TRUNC)) != 0; }

/* A call that changes something if it makes or empties a file. It has a mode if it makes one. */
#define OPENS(name, parameters, arguments) \
  int name parameters { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    if (Creates(flags)) Before(); \
    return real arguments; \
  }

OPENS(open, (const char* path, int flags, ...), (path, flags, mode))
OPENS(open64, (const char* path, int flags, ...), (path, flags, mode))
OPENS(openat, (int directory, const char* path, int flags, ...), (directory, path, flags, mode))
OPENS(openat64, (int directory, const char* path, int flags, ...), (directory, path, flags, mode))
