/* What a fuzz target offers, to libFuzzer or to replay.c. */
#ifndef BTRNBD_TESTS_FUZZ_FUZZ_H
#define BTRNBD_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

extern int LLVMFuzzerInitialize (int *argc, char ***argv);
extern int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);
extern size_t LLVMFuzzerCustomMutator (uint8_t *data, size_t size,
                                       size_t max_size, unsigned seed);
/* Of libFuzzer, or of replay.c. */
extern size_t LLVMFuzzerMutate (uint8_t *data, size_t size, size_t max_size);

#endif /* BTRNBD_TESTS_FUZZ_FUZZ_H */
