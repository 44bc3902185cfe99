#include "advise/like.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct catalog_row cpu(const char *provider, const char *type, double vcpus)
{
    return (struct catalog_row){.provider = provider, .type = type, .gpu = "", .vcpus = vcpus};
}

static struct catalog_row gpu(const char *type, const char *kind, uint32_t gpus)
{
    return (struct catalog_row){
        .provider = "a", .type = type, .vcpus = 8, .gpu = kind, .gpus = gpus};
}

/* How the first is judged by the second alone; false: not at all. */
static bool judge(struct catalog_row row, struct catalog_row other, struct like *out)
{
    const struct catalog_row *measured[] = {&other};
    return like_find(&row, measured, 1, out);
}

static void test_a_type_is_like_itself(void **state)
{
    (void)state;
    struct like like;
    assert_true(judge(cpu("a", "c4.large", 2), cpu("a", "c4.large", 2), &like));
    assert_true(like.scale == 1 && like.scale_sd == 0 && like.index == 0);
    assert_true(judge(gpu("p2.xlarge", "K80", 1), gpu("p2.xlarge", "K80", 1), &like));
    assert_true(like.scale == 1 && like.scale_sd == 0);
}

static void test_the_same_gpu_is_judged_by_their_number(void **state)
{
    (void)state;
    struct like like;
    struct like same;
    assert_true(judge(gpu("g4dn.12xlarge", "T4", 4), gpu("g4dn.xlarge", "t4", 1), &like));
    assert_true(like.scale == 4 && like.scale_sd > 0);
    assert_true(judge(gpu("g4dn.2xlarge", "T4", 1), gpu("g4dn.xlarge", "T4", 1), &same));
    assert_true(same.scale == 1 && same.scale_sd > 0 && same.scale_sd < like.scale_sd);
}

static void test_other_gpus_say_nothing(void **state)
{
    (void)state;
    struct like like;
    assert_false(judge(gpu("p3.2xlarge", "V100", 1), gpu("g4dn.xlarge", "T4", 1), &like));
    assert_false(judge(gpu("p3.2xlarge", "V100", 1), cpu("a", "c4.large", 2), &like));
    assert_false(judge(cpu("a", "c4.large", 2), gpu("p3.2xlarge", "V100", 1), &like));
    assert_false(like_find(&(struct catalog_row){.type = "x"}, NULL, 0, &like));
}

static void test_cores_add_up_a_little_less_than_fully(void **state)
{
    (void)state;
    struct like like;
    assert_true(judge(cpu("a", "c4.2xlarge", 8), cpu("a", "c4.large", 2), &like));
    assert_true(like.scale > 3 && like.scale < 4);
    double up = like.scale;
    assert_true(judge(cpu("a", "c4.large", 2), cpu("a", "c4.2xlarge", 8), &like));
    assert_true(fabs(like.scale * up - 1) < 1e-9);
}

static void test_a_family_is_known_by_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        bool same;
    } pairs[] = {
        {"c4.large", "c4.8xlarge", true},
        {"c4.large", "c5.large", false},
        {"c4.large", "c4n.large", false},
        {"n2-standard-4", "n2-standard-32", true},
        {"n2-standard-4", "n2-highmem-4", false},
        {"Standard_D4s_v5", "Standard_D16s_v5", true},
        {"Standard_D4s_v5", "Standard_D4as_v5", false},
        {"Standard_D4s_v5", "Standard_D4s_v4", false},
        {"Standard_F8s_v2", "Standard_E8s_v2", false},
        {"big", "small", false},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct like like;
        assert_true(judge(cpu("a", pairs[i].a, 4), cpu("a", pairs[i].b, 8), &like));
        bool trusted = like.scale_sd < .3;
        if (trusted != pairs[i].same) {
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
        }
        assert_true(judge(cpu("a", pairs[i].a, 4), cpu("b", pairs[i].b, 8), &like));
        assert_true(like.scale_sd > .3); /* names of another provider mean something else */
    }
}

static void test_the_most_trusted_is_taken(void **state)
{
    (void)state;
    struct catalog_row row = cpu("a", "c4.2xlarge", 8);
    struct catalog_row other = cpu("a", "m4.2xlarge", 8);
    struct catalog_row family = cpu("a", "c4.large", 2);
    struct catalog_row same = cpu("a", "c4.2xlarge", 8);
    struct catalog_row with_gpu = gpu("p2.xlarge", "K80", 1);
    const struct catalog_row *measured[] = {&with_gpu, &other, &family, &other, &same};
    struct like like;
    assert_true(like_find(&row, measured, 5, &like));
    assert_int_equal(like.index, 4);
    assert_true(like_find(&row, measured, 4, &like));
    assert_int_equal(like.index, 2);
    assert_true(like_find(&row, measured, 2, &like));
    assert_int_equal(like.index, 1);
    assert_false(like_find(&row, measured, 1, &like));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_type_is_like_itself),
        cmocka_unit_test(test_the_same_gpu_is_judged_by_their_number),
        cmocka_unit_test(test_other_gpus_say_nothing),
        cmocka_unit_test(test_cores_add_up_a_little_less_than_fully),
        cmocka_unit_test(test_a_family_is_known_by_its_name),
        cmocka_unit_test(test_the_most_trusted_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
