# Rules about the source itself.
dist_check_SCRIPTS += tests/tidy/tidy.sh
TESTS += tests/tidy/tidy.sh
