/* What a client sends in a whole session, handshake and every command, made
 * from a seed; for fuzzing and mutations.
 */
#ifndef BTRNBD_TESTS_LIB_NBDSESSION_H
#define BTRNBD_TESTS_LIB_NBDSESSION_H

#include <stddef.h>
#include <stdint.h>

#define SESSION_MAX 32768      /* bytes */
#define SESSION_PIECES 64

struct session {
  uint8_t data[SESSION_MAX];
  size_t len;
  /* Where flags, options and requests begin; piece[pieces] is the end. */
  size_t piece[SESSION_PIECES + 1];
  unsigned pieces;
};

/* A number below N. */
extern uint64_t session_random (uint64_t *state, uint64_t n);

/* With the export NAME of SIZE bytes, and up to MAX_DATA bytes in a write. */
extern void session_make (struct session *, uint64_t *state,
                          const char *name, uint64_t size,
                          uint32_t max_data);

#endif /* BTRNBD_TESTS_LIB_NBDSESSION_H */
