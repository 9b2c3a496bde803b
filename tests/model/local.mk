# Random operations against a model in memory.
check_PROGRAMS += tests/model/model
tests_model_model_SOURCES = \
	tests/model/main.c \
	tests/model/model.c \
	tests/model/model.h
tests_model_model_CPPFLAGS = $(TEST_CPPFLAGS)
tests_model_model_LDADD = libengine.la

check_PROGRAMS += tests/model/stress
tests_model_stress_SOURCES = tests/lib/early.h tests/model/stress.c
tests_model_stress_CPPFLAGS = $(TEST_CPPFLAGS)
tests_model_stress_LDADD = libengine.la

MODEL_TESTS = tests/model/model.sh tests/model/stress.sh
TESTS += $(MODEL_TESTS)
EXTRA_DIST += $(MODEL_TESTS)
