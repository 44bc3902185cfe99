/* cppcheck.h - base/check.h as cppcheck understands it: it does not see that a failed CHECK never
 * comes back, but it knows assert. scripts/lint includes it in front of every file. */
#define BASE_CHECK_H
#define MUST_USE
#define PRINTF_LIKE(format_index, first_arg)
#define CHECK(condition) assert(condition)
