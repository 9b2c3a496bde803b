/* What a fuzz target offers, to libFuzzer or to replay.c. */
#ifndef BTRNBD_TESTS_FUZZ_FUZZ_H
#define BTRNBD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern int LLVMFuzzerInitialize (int *argc, char ***argv);
extern int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

#endif /* BTRNBD_TESTS_FUZZ_FUZZ_H */
