#include "search/domain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const uint64_t second[] = {1};
static const uint64_t outer[] = {0, 2};

static struct domain domain_of(const struct search_param *params, size_t count)
{
    struct domain domain;
    struct search_options options = {.params = params, .param_count = count};
    struct err err = {0};
    assert_int_equal(domain_init(&domain, &options, &err), ERR_OK);
    return domain;
}

static void test_numbers_survive_the_way_to_coordinates_and_back(void **state)
{
    (void)state;
    const struct search_param params[] = {
        {.kind = SEARCH_UNIFORM, .low = -3, .high = 5},
        {.kind = SEARCH_LOG, .low = 1e-6, .high = 10},
        {.kind = SEARCH_NORMAL, .low = -INFINITY, .high = INFINITY, .mean = 2, .sd = 3},
        {.kind = SEARCH_NORMAL, .low = 5, .high = 9, .mean = 0, .sd = 1},
        {.kind = SEARCH_NORMAL, .low = -1, .high = 1, .mean = 0, .sd = 1},
    };
    struct domain domain = domain_of(params, 5);
    for (size_t i = 0; i < 5; i++) {
        for (double x = 0.01; x < 1; x += 0.01) {
            struct search_value value = domain_value(&domain.dims[i], x);
            assert_true(value.number >= params[i].low && value.number <= params[i].high);
            assert_true(fabs(domain_coordinate(&domain.dims[i], &value) - x) < 1e-6);
        }
        assert_true(isfinite(domain_value(&domain.dims[i], 0).number));
        assert_true(isfinite(domain_value(&domain.dims[i], 1).number));
    }
    domain_release(&domain);
}

static void test_every_index_survives_and_every_coordinate_has_one(void **state)
{
    (void)state;
    const struct search_param params[] = {
        {.kind = SEARCH_UNIFORM, .low = 3, .step = 1, .count = 13},
        {.kind = SEARCH_LOG, .low = 1, .step = 1, .count = 100},
        {.kind = SEARCH_LOG, .low = 0.1, .step = 5, .count = 7},
        {.kind = SEARCH_NORMAL, .low = -10, .step = 1, .count = 21, .mean = 0, .sd = 4},
        {.kind = SEARCH_CATEGORICAL, .count = 5},
        {.kind = SEARCH_ORDERED, .count = 6},
        {.kind = SEARCH_FIXED},
    };
    struct domain domain = domain_of(params, 7);
    for (size_t i = 0; i < 7; i++) {
        const struct dim *dim = &domain.dims[i];
        for (uint64_t index = 0; index < dim->param.count; index++) {
            struct search_value value = {.present = true, .index = index};
            struct search_value back = domain_value(dim, domain_coordinate(dim, &value));
            assert_int_equal(back.index, index);
        }
        for (double unit = 0; unit <= 1; unit += 0.01) {
            assert_true(domain_value(dim, domain_at_unit(dim, unit)).index < dim->param.count);
        }
    }
    domain_release(&domain);
}

/* Huge counts must not overflow. */
static void test_counts_beyond_doubles_stay_in_range(void **state)
{
    (void)state;
    const struct search_param params[] = {
        {.kind = SEARCH_UNIFORM, .low = 0, .step = 1, .count = UINT64_C(1) << 63},
        {.kind = SEARCH_ORDERED, .count = UINT64_MAX},
    };
    struct domain domain = domain_of(params, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(domain_value(&domain.dims[i], 1).index < params[i].count);
        assert_int_equal(domain_value(&domain.dims[i], 0).index, 0);
    }
    assert_int_equal(domain_rank_count(&domain, 1), UINT64_MAX);
    domain_release(&domain);
}

static bool present(void *arg, size_t param, const struct search_value *values)
{
    (void)arg;
    return param != 3 || (values[0].index + values[4].index) % 2 == 0;
}

/* a: 3; b: 4 when a is 1; c: 2 when b (so a) is present and 0 or 2; d: 3; e: 2 values. */
static const struct search_param tree[] = {
    {.name = "a", .kind = SEARCH_CATEGORICAL, .count = 3},
    {.name = "b",
     .kind = SEARCH_ORDERED,
     .count = 4,
     .conditional = true,
     .parent = 0,
     .when = second,
     .when_count = 1},
    {.name = "c",
     .kind = SEARCH_UNIFORM,
     .low = 0,
     .step = 1,
     .count = 2,
     .conditional = true,
     .parent = 1,
     .when = outer,
     .when_count = 2},
    {.name = "d", .kind = SEARCH_CATEGORICAL, .count = 3},
    {.name = "e", .kind = SEARCH_ORDERED, .count = 2},
};

/* Every assignment of all indices, reduced to what is present: the plainest count. */
static size_t count_distinct(const struct domain *domain)
{
    static double seen[512][5];
    size_t count = 0;
    for (unsigned i = 0; i < 3 * 4 * 2 * 3 * 2; i++) {
        double point[5];
        const uint64_t indices[5] = {i % 3, i / 3 % 4, i / 12 % 2, i / 24 % 3, i / 72};
        for (size_t k = 0; k < 5; k++) {
            struct search_value value = {.present = true, .index = indices[k]};
            point[k] = domain_coordinate(&domain->dims[k], &value);
        }
        struct search_value values[5];
        domain_values(domain, point, values);
        domain_point(domain, values, point);
        bool found = false;
        for (size_t k = 0; k < count && !found; k++) {
            found = true;
            for (size_t j = 0; j < 5; j++) {
                found = found && (isnan(point[j]) ? isnan(seen[k][j]) : point[j] == seen[k][j]);
            }
        }
        if (!found) {
            memcpy(seen[count++], point, sizeof point);
        }
    }
    return count;
}

static void test_ranks_are_the_distinct_combinations(void **state)
{
    (void)state;
    struct domain domain = domain_of(tree, 5);
    size_t wanted = count_distinct(&domain);
    assert_int_equal(wanted, (2 + 2 + 2 * 2) * 3 * 2);
    assert_int_equal(domain_rank_count(&domain, 1), wanted);
    for (int with_present = 0; with_present < 2; with_present++) {
        domain.present = with_present ? present : NULL;
        wanted = count_distinct(&domain);
        static double points[64][5];
        size_t count = 0;
        for (uint64_t rank = 0; rank < domain_rank_count(&domain, 1); rank++) {
            double *point = points[count];
            if (!domain_unrank(&domain, 1, rank, point)) {
                continue;
            }
            for (size_t i = 0; i < count; i++) {
                assert_true(memcmp(points[i], point, sizeof points[i]) != 0);
            }
            count++;
        }
        assert_int_equal(count, wanted);
    }
    domain_release(&domain);
}

static void refused(const struct search_param *params, size_t count, const char *text)
{
    struct domain domain;
    struct search_options options = {.params = params, .param_count = count};
    struct err err = {0};
    assert_int_equal(domain_init(&domain, &options, &err), ERR_INVALID);
    if (!strstr(err.text, text)) {
        fail_msg("%s", err.text);
    }
}

static void test_nonsense_is_refused_by_name(void **state)
{
    (void)state;
    const struct search_param empty = {.name = "lr", .kind = SEARCH_UNIFORM, .low = 1, .high = 1};
    refused(&empty, 1, "lr: the range is empty");
    const struct search_param zero = {.name = "lr", .kind = SEARCH_LOG, .low = 0, .high = 1};
    refused(&zero, 1, "above 0");
    const struct search_param endless = {.kind = SEARCH_UNIFORM, .low = 0, .high = INFINITY};
    refused(&endless, 1, "ends of a range");
    const struct search_param nan_sd = {.kind = SEARCH_NORMAL, .mean = 0, .sd = NAN};
    refused(&nan_sd, 1, "sd");
    const struct search_param none = {.name = "c", .kind = SEARCH_CATEGORICAL};
    refused(&none, 1, "no values");
    struct search_param circle[2] = {tree[1], tree[1]};
    circle[0].parent = 1;
    circle[1].parent = 0;
    refused(circle, 2, "circle");
    struct search_param lost = tree[1];
    lost.parent = 7;
    refused(&lost, 1, "names no other");
}

static void test_values_outside_the_space_do_not_fit(void **state)
{
    (void)state;
    struct domain domain = domain_of(tree, 5);
    struct search_value values[5] = {
        {true, 1, 1}, {true, 2, 2}, {true, 1, 1}, {true, 2, 2}, {true, 0, 0}};
    assert_null(domain_misfit(&domain, values));
    values[3].index = 3;
    assert_string_equal(domain_misfit(&domain, values), "d");
    values[3].index = 0;
    values[2].present = false;
    assert_string_equal(domain_misfit(&domain, values), "c");
    domain_release(&domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_survive_the_way_to_coordinates_and_back),
        cmocka_unit_test(test_every_index_survives_and_every_coordinate_has_one),
        cmocka_unit_test(test_counts_beyond_doubles_stay_in_range),
        cmocka_unit_test(test_ranks_are_the_distinct_combinations),
        cmocka_unit_test(test_nonsense_is_refused_by_name),
        cmocka_unit_test(test_values_outside_the_space_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
