/* What every cmocka program includes, in the order that cmocka needs. */
#ifndef BTRNBD_TESTS_UNIT_TEST_H
#define BTRNBD_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif /* BTRNBD_TESTS_UNIT_TEST_H */
