/* Asks libalignd which nodes can take pods: fit NODES.json PODS.json [OPTIONS.json]
 *
 *   cc fit.c $(pkg-config --cflags --libs libalignd) -o fit
 *
 * docs/library.md describes the files. */
#include <alignd.h>
#include <stdio.h>
#include <stdlib.h>

/* The whole file, with a zero byte behind it. */
static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  size_t size = 0;
  size_t capacity = 1 << 16;
  char *text = malloc(capacity);
  for (size_t got = 1; text != NULL && got > 0; size += got) {
    if (size + 1 >= capacity) text = realloc(text, capacity *= 2);
    got = text == NULL ? 0 : fread(text + size, 1, capacity - size - 1, file);
  }
  if (text == NULL || ferror(file)) {
    fprintf(stderr, "%s: cannot be read\n", path);
    exit(2);
  }
  fclose(file);
  text[size] = '\0';
  return text;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: fit NODES.json PODS.json [OPTIONS.json]\n");
    return 2;
  }
  if (alignd_api_version() < ALIGND_API_VERSION) {
    fprintf(stderr, "libalignd %s is too old\n", alignd_version());
    return 2;
  }
  char *nodes = read_file(argv[1]);
  char *pods = read_file(argv[2]);
  char *options = argc > 3 ? read_file(argv[3]) : NULL;
  char *result = NULL;
  int status = alignd_fit(nodes, pods, options, &result);
  if (result != NULL) puts(result);
  alignd_free(result);
  free(nodes);
  free(pods);
  free(options);
  return status == ALIGND_OK ? 0 : 2;
}
