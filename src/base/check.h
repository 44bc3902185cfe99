/* check.h - assertions that stay on, and the attributes we use everywhere.
 *
 * CHECK states what must be true if our own code is right. Input from disk, network or user is
 * never CHECKed: it is validated at the edge. A failed CHECK prints where and aborts; a restart is
 * a tested path.
 */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_arg)                                                       \
    __attribute__((format(printf, format_index, first_arg)))

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(condition), 0)) {                                                   \
            check_failed(__FILE__, __LINE__, __func__, #condition);                                \
        }                                                                                          \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *function,
                            const char *condition);

#endif
