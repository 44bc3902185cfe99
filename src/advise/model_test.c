#include "advise/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void read_runs(struct profile *profile, const char *text)
{
    struct err err = {0};
    *profile = (struct profile){0};
    if (profile_add_csv(profile, "runs", text, strlen(text), &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
}

static struct model_speed speed(const char *text, enum profile_mode mode, double server_mbps,
                                struct model_setting setting)
{
    struct profile profile;
    struct model model;
    struct err err = {0};
    read_runs(&profile, text);
    if (model_fit(&profile, "x", mode, server_mbps, &model, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    profile_release(&profile);
    return model_predict(&model, &setting);
}

static void test_one_run_with_its_traffic_foresees_the_full_server(void **state)
{
    (void)state;
    /* 2 gradients a second of 90 Mbit each: 180 Mbit/s; a 450 Mbit/s server takes 5 a second. */
    static const char one[] =
        "type,batch,workers,bandwidth_mbps,steps_per_s,mode\nx,128,1,180,2,async\n";
    for (uint32_t n = 1; n <= 64; n *= 2) {
        struct model_speed at =
            speed(one, PROFILE_ASYNC, 450, (struct model_setting){.workers = n, .servers = 1});
        assert_true(at.steps_per_s < 5.3);
        assert_true(at.steps_per_s > (n == 1 ? 1.8 : n < 4 ? 3 : 4));
        assert_true(fabs(at.examples_per_s / at.steps_per_s - 128) < 1e-6);
    }
    struct model_setting two = {.workers = 64, .servers = 2};
    assert_true(speed(one, PROFILE_ASYNC, 450, two).steps_per_s > 9);
    struct model_setting wide = {.workers = 64, .servers = 1, .server_mbps = 4500};
    assert_true(speed(one, PROFILE_ASYNC, 450, wide).steps_per_s > 35);
}

static void test_the_law_is_found_again_from_exact_runs(void **state)
{
    (void)state;
    char text[1000] = "type,batch,workers,steps_per_s,mode\n";
    for (int n = 1; n <= 4; n *= 2) {
        double time = sqrt(1.0 / (n * n) + .04); /* c = 1, s = 0.2 */
        size_t size = strlen(text);
        snprintf(text + size, sizeof text - size, "x,32,%d,%.9f,sync\n", n, 1 / (time * n));
    }
    struct model_speed at =
        speed(text, PROFILE_SYNC, 0, (struct model_setting){.workers = 16, .servers = 1});
    double truth = 1 / (16 * sqrt(1.0 / 256 + .04));
    assert_true(fabs(at.steps_per_s / truth - 1) < .01);
}

/* Whatever the runs say, each narrows every interval. */
static void test_each_further_run_narrows_the_interval(void **state)
{
    (void)state;
    static const char *const rows[] = {"x,64,1,10\n", "x,64,4,3\n", "x,64,2,90\n", "x,64,8,1\n",
                                       "x,64,16,200\n"};
    char text[400] = "type,batch,workers,steps_per_s\n";
    double before[64] = {0};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        size_t size = strlen(text);
        snprintf(text + size, sizeof text - size, "%s", rows[r]);
        for (uint32_t n = 1; n <= 64; n++) {
            double sd =
                speed(text, PROFILE_ASYNC, 0, (struct model_setting){.workers = n, .servers = 1})
                    .log_sd;
            assert_true(r == 0 || sd < before[n - 1]);
            before[n - 1] = sd;
        }
    }
    assert_true(before[15] < .1);
}

static void test_the_promised_narrowing_is_what_happens(void **state)
{
    (void)state;
    struct profile profile;
    struct model model;
    read_runs(&profile, "type,batch,workers,steps_per_s\nx,64,1,10\nx,64,2,18\n");
    assert_int_equal(model_fit(&profile, "x", PROFILE_ASYNC, 0, &model, NULL), ERR_OK);
    struct model_setting extra = {.workers = 8, .servers = 1};
    struct model_setting there = {.workers = 12, .servers = 1};
    double promised = model_sd_after(&model, &extra, &there);
    profile_release(&profile);
    double is = speed("type,batch,workers,steps_per_s\nx,64,1,10\nx,64,2,18\nx,64,8,40\n",
                      PROFILE_ASYNC, 0, there)
                    .log_sd;
    assert_true(fabs(promised - is) < 1e-6);
}

static void test_batches_of_other_sizes_cost_in_proportion(void **state)
{
    (void)state;
    static const char two[] = "type,batch,workers,examples_per_s\nx,128,1,100\nx,512,1,100\n";
    struct model_speed at = speed(
        two, PROFILE_SYNC, 0, (struct model_setting){.workers = 1, .servers = 1, .batch = 1024});
    assert_true(at.examples_per_s > 80 && at.examples_per_s < 125);
}

static void test_bad_profiles_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "batch,workers\n1,1\n",
        "type,workers,steps_per_s\nx,0,1\n",
        "type,workers,steps_per_s\nx,1,nan\n",
        "type,workers,steps_per_s\nx,1,-3\n",
        "type,workers,steps_per_s\nx,1,1e308\n",
        "type,workers,steps_per_s\nx,1.5,1\n",
        "type,workers,mode\nx,1,often\n",
        "type,workers,step_per_s\nx,1,2\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct profile profile = {0};
        struct err err = {0};
        assert_int_equal(profile_add_csv(&profile, "f", bad[i], strlen(bad[i]), &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "f:"));
        profile_release(&profile);
    }
    struct profile profile;
    struct model model;
    read_runs(&profile, "type,workers,bandwidth_mbps\nx,1,100\n");
    assert_int_equal(model_fit(&profile, "x", PROFILE_SYNC, 0, &model, NULL), ERR_NOT_FOUND);
    profile_release(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_run_with_its_traffic_foresees_the_full_server),
        cmocka_unit_test(test_the_law_is_found_again_from_exact_runs),
        cmocka_unit_test(test_each_further_run_narrows_the_interval),
        cmocka_unit_test(test_the_promised_narrowing_is_what_happens),
        cmocka_unit_test(test_batches_of_other_sizes_cost_in_proportion),
        cmocka_unit_test(test_bad_profiles_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
