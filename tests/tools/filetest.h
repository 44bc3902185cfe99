/* filetest.h - what the parts of filetest share. */
#ifndef TESTS_FILETEST_H
#define TESTS_FILETEST_H

#include <stdbool.h>
#include <stdint.h>

/* The next number below limit of those that follow from the seed. */
uint64_t roll(uint64_t limit);
uint64_t roll_state(void);
/* Says so and ends the program with 1. */
_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void must(bool well, const char *what);

/* other: the same file or folder through another mount, or NULL. The exit code. */
int run_fsx(const char *path, const char *other, long steps);
int run_names(const char *root, const char *other, long steps);

#endif
