/* base/csum: known answers. */
#include "unit/test.h"

#include "base/csum.h"

static void
check (enum csum_type type, const char *data, const char *hex)
{
  uint8_t out[CSUM_SIZE_MAX];
  char got[2 * CSUM_SIZE_MAX + 1] = "";

  csum_data (type, data, strlen (data), out);
  for (size_t i = 0; i < csum_size (type); ++i)
    sprintf (got + 2 * i, "%02x", out[i]);
  assert_string_equal (got, hex);
}

static void
known_answers (void **state)
{
  (void) state;
  /* Little-endian on disk: crc32c of the check string is 0xe3069283. */
  check (CSUM_CRC32C, "123456789", "839206e3");
  check (CSUM_CRC32C, "", "00000000");
  /* XXH64, seed 0: "" ef46db3751d8e999, "abc" 44bc2cf5ad770999. */
  check (CSUM_XXHASH64, "", "99e9d85137db46ef");
  check (CSUM_XXHASH64, "abc", "990977adf52cbc44");
  check (CSUM_SHA256, "abc", "ba7816bf8f01cfea414140de5dae2223"
         "b00361a396177a9cb410ff61f20015ad");
  check (CSUM_SHA256, "", "e3b0c44298fc1c149afbf4c8996fb924"
         "27ae41e4649b934ca495991b7852b855");
  check (CSUM_BLAKE2B, "", "0e5751c026e543b2e8ab2eb06099daa1"
         "d1e5df47778f7787faab45cdf12fe3a8");
  check (CSUM_BLAKE2B, "abc", "bddd813c634239723171ef3fee98579b"
         "94964e3bb1cb3e427262c8c068d52319");
}

static void
raw_crc_chains (void **state)
{
  (void) state;
  assert_int_equal (crc32c_raw (crc32c_raw (~0u, "12345", 5), "6789", 4),
                    (uint32_t) ~0xe3069283u);
  assert_int_equal (crc32c_raw (7, "", 0), 7);
}

static void
names (void **state)
{
  enum csum_type t;

  (void) state;
  for (unsigned i = 0; i < 4; ++i) {
    assert_true (csum_type_known (i));
    assert_true (csum_type_by_name (csum_name (i), &t));
    assert_int_equal (t, i);
  }
  assert_false (csum_type_known (4));
  assert_true (csum_type_by_name ("blake2", &t));
  assert_int_equal (t, CSUM_BLAKE2B);
  assert_false (csum_type_by_name ("md5", &t));
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (known_answers),
    cmocka_unit_test (raw_crc_chains),
    cmocka_unit_test (names),
  };
  return cmocka_run_group_tests_name ("base-csum", tests, NULL, NULL);
}
