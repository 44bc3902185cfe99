#include "recipe/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_durations_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } cases[] = {
        {"30s", 30000},
        {"5m", 300000},
        {"2h", 7200000},
        {"1d", 86400000},
        {"500ms", 500},
        {"10", 10000},
        {"0.5", 500},
        {"1.5h", 5400000},
        {"0", 0},
        {"0.001s", 1},
        {"0.0001s", -1},
        {"1 h", 3600000},
        {"3650d", 315360000000},
        {"3651d", -1},
        {"", -1},
        {"s", -1},
        {"-1s", -1},
        {"1 ", -1},
        {"1w", -1},
        {"1.s", -1},
        {".5s", -1},
        {"1h30m", -1},
        {"1e3", -1},
        {"99999999999999999999", -1},
        {"1.0000000000s", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = -1;
        bool ok = units_duration(cases[i].text, &ms);
        if (ok != (cases[i].ms >= 0) || ms != cases[i].ms) {
            fail_msg("'%s' gave %lld", cases[i].text, (long long)ms);
        }
    }
}

static void test_sizes_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t bytes;
    } cases[] = {
        {"8GB", true, 8000000000},  {"8GiB", true, UINT64_C(8) << 30},
        {"512M", true, 512000000},  {"16Gi", true, UINT64_C(16) << 30},
        {"1.5KiB", true, 1536},     {"8gb", true, 8000000000},
        {"100", true, 100},         {"100B", true, 100},
        {"7 GB", true, 7000000000}, {"8191PiB", true, UINT64_C(8191) << 50},
        {"8192PiB", false, 0},      {"0.1B", false, 0},
        {"GB", false, 0},           {"8GBB", false, 0},
        {"8iB", false, 0},          {"8EB", false, 0},
        {"-8GB", false, 0},         {"", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 0;
        bool ok = units_size(cases[i].text, &bytes);
        if (ok != cases[i].ok || bytes != cases[i].bytes) {
            fail_msg("'%s' gave %llu", cases[i].text, (unsigned long long)bytes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durations_are_exact_or_refused),
        cmocka_unit_test(test_sizes_are_exact_or_refused),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
