#include "advise/catalog.h"

#include "advise/require.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "provider,region,type,vcpus,memory_gib,gpu,gpus,price_hour,spot_hour,billing_s,date,source\n"

static void add(struct catalog *catalog, const char *file, const char *text)
{
    struct err err = {0};
    if (catalog_add_csv(catalog, file, text, strlen(text), &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
}

static void refuse(const char *text, const char *why)
{
    struct catalog catalog = {0};
    struct err err = {0};
    assert_int_equal(catalog_add_csv(&catalog, "f", text, strlen(text), &err), ERR_INVALID);
    assert_string_equal(err.text, why);
    catalog_release(&catalog);
}

static void test_the_newest_of_two_rows_counts_in_either_order(void **state)
{
    (void)state;
    static const char old[] = HEAD "a,r,x,1,1,,0,2,,1,2018,s\na,r,y,1,1,,0,5,,1,2018,s\n";
    static const char new[] = HEAD "a,r,x,1,1,,0,1,0.5,1,2020-03,s\n";
    for (int order = 0; order < 2; order++) {
        struct catalog catalog = {0};
        add(&catalog, "one", order ? new : old);
        add(&catalog, "two", order ? old : new);
        assert_int_equal(catalog.count, 2);
        assert_int_equal(catalog.rows[0].price_hour_micro, 1000000);
        assert_int_equal(catalog.rows[0].spot_hour_micro, 500000);
        assert_int_equal(catalog.rows[1].spot_hour_micro, CATALOG_NO_SPOT);
        assert_string_equal(catalog.rows[0].place, order ? "one:2" : "two:2");
        catalog_release(&catalog);
    }
}

static void test_two_truths_of_one_date_are_an_error(void **state)
{
    (void)state;
    refuse(HEAD "a,r,x,1,1,,0,2,,1,2018,s\na,r,x,1,1,,0,3,,1,2018,s\n",
           "f:3: a r x says something else than f:2 of the same date");
    struct catalog catalog = {0};
    add(&catalog, "f", HEAD "a,r,x,1,1,,0,2,,1,2018,s\na,r,x,1,1,,0,2,,1,2018,other\n");
    assert_int_equal(catalog.count, 1);
    catalog_release(&catalog);
}

static void test_bad_rows_are_refused_with_their_line(void **state)
{
    (void)state;
    refuse("provider,region,type,vcpus,memory_gib,date,source\n",
           "f:1: there is no column 'price_hour'");
    refuse("provider,region,type,vcpus,memory_gib,price_hour,spot_huor,date,source\n",
           "f:1: unknown column 'spot_huor' (did you mean 'spot_hour'?)");
    refuse(HEAD "a,r,x,1,1,,0,-2,,1,2018,s\n",
           "f:2: price_hour: '-2' is not an amount of money (such as 0.231)");
    refuse(HEAD "a,r,x,1,1,,0,nan,,1,2018,s\n",
           "f:2: price_hour: 'nan' is not an amount of money (such as 0.231)");
    refuse(HEAD "a,r,x,1,1,,0,1e308,,1,2018,s\n",
           "f:2: price_hour: '1e308' is not an amount of money (such as 0.231)");
    refuse(HEAD "a,r,x,1e308,1,,0,1,,1,2018,s\n",
           "f:2: vcpus: 1e+308 is not between 0.01 and 1e+06");
    refuse(HEAD "a,r,x,nan,1,,0,1,,1,2018,s\n", "f:2: vcpus: 'nan' is not a number");
    refuse(HEAD "a,r,x,,1,,0,1,,1,2018,s\n", "f:2: vcpus: is empty");
    refuse(HEAD "a,r,,1,1,,0,1,,1,2018,s\n", "f:2: type: is empty");
    refuse(HEAD "a,r,x,1,1,,0,,,1,2018,s\n",
           "f:2: price_hour: is empty, and there is no purchase with its lifetime_h");
    refuse(HEAD "a,r,x,1,1,,2,1,,1,2018,s\n", "f:2: gpu: is empty, but gpus counts some");
    refuse(HEAD "a,r,x,1,1,K80,1.5,1,,1,2018,s\n", "f:2: gpus: is not a whole number");
    refuse(HEAD "a,r,x,1,1,,0,1,,0,2018,s\n", "f:2: billing_s: 0 is not between 1 and 2.6784e+06");
    refuse(HEAD "a,r,x,1,1,,0,1,,1,2018-13,s\n", "f:2: date: is not YYYY, YYYY-MM or YYYY-MM-DD");
    refuse(HEAD "a,r,x,1,1,,0,1,,1,2018,\n", "f:2: source: is empty");
    refuse("provider,region,type,vcpus,memory_gib,price_hour,currency,date,source\n"
           "a,r,x,1,1,1,eur,2018,s\n",
           "f:2: currency: is not three capital letters");
}

static void test_owned_hardware_costs_its_wear_and_power(void **state)
{
    (void)state;
    struct catalog catalog = {0};
    add(&catalog, "f",
        "provider,region,type,vcpus,memory_gib,price_hour,purchase,lifetime_h,power_w,kwh_price,"
        "date,source\nowned,desk,pc,8,32,,2000,20000,500,0.2,2020,s\n");
    assert_int_equal(catalog.rows[0].price_hour_micro, 200000); /* 0.1 + 0.5 * 0.2 */
    catalog_release(&catalog);
}

static void test_what_is_written_reads_back_the_same(void **state)
{
    (void)state;
    struct catalog catalog = {0};
    struct catalog again = {0};
    AUTO_STR struct str one = {0};
    AUTO_STR struct str two = {0};
    add(&catalog, "f",
        "provider,region,type,vcpus,memory_gib,gpu,gpus,gpu_memory_gib,network_mbps,price_hour,"
        "spot_hour,billing_s,billing_min_s,free_hours,currency,purchase,lifetime_h,power_w,"
        "kwh_price,date,source\n"
        "a,\"r, 1\",x,0.5,7.5,K80,2,12,450,0.2336,0.1,3600,60,750,EUR,,,,,2018,\"a \"\"b\"\"\"\n"
        "owned,desk,pc,8,32,,0,,,,,1,,,USD,2000,20000,500,0.2,2020-01-31,s\n");
    catalog_write_csv(&catalog, &one);
    add(&again, "f", str_text(&one));
    catalog_write_csv(&again, &two);
    assert_string_equal(str_text(&one), str_text(&two));
    assert_non_null(strstr(str_text(&one), "\"r, 1\""));
    catalog_release(&catalog);
    catalog_release(&again);
}

static size_t count_meeting(const struct catalog *catalog, const char *text)
{
    struct require require = {0};
    struct err err = {0};
    size_t count = 0;
    if (require_parse(&require, text, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < catalog->count; i++) {
        count += require_met(&require, &catalog->rows[i]);
    }
    return count;
}

static void refuse_require(const char *text, const char *why)
{
    struct require require = {0};
    struct err err = {0};
    assert_int_equal(require_parse(&require, text, &err), ERR_INVALID);
    assert_string_equal(err.text, why);
    assert_int_equal(require.count, 0);
}

static void test_requirements_choose_rows(void **state)
{
    (void)state;
    struct catalog catalog = {0};
    add(&catalog, "f",
        HEAD
        "aws,eu-1,c4.large,2,4,,0,0.1,0.03,1,2018,s\naws,eu-1,p2.xlarge,4,61,K80,1,0.9,,1,2019,s\n"
        "gcp,us-1,n1,8,30,,0,0.4,0.1,1,2020,s\n");
    assert_int_equal(count_meeting(&catalog, ""), 3);
    assert_int_equal(count_meeting(&catalog, "vcpus >= 4"), 2);
    assert_int_equal(count_meeting(&catalog, "vcpus>=4 and memory<61"), 1);
    assert_int_equal(count_meeting(&catalog, "gpu=k80, gpus>0"), 1);
    assert_int_equal(count_meeting(&catalog, "gpu!=k80"), 2);
    assert_int_equal(count_meeting(&catalog, "region = EU-*"), 2);
    assert_int_equal(count_meeting(&catalog, "type=*.x*ge"), 1);
    assert_int_equal(count_meeting(&catalog, "spot<=0.1"), 2);
    assert_int_equal(count_meeting(&catalog, "network>0"), 0);
    assert_int_equal(count_meeting(&catalog, "date>=2019"), 2);
    refuse_require("vcpu>=4", "requirement 'vcpu>=4': no field 'vcpu' (did you mean 'vcpus'?)");
    refuse_require("vcpus>=many", "requirement 'vcpus>=many': 'many' is not a number");
    refuse_require("gpu>k80", "requirement 'gpu>k80': gpu is text, use = or !=");
    refuse_require("vcpus", "requirement 'vcpus': write FIELD >= VALUE");
    refuse_require("vcpus>=1,,gpus=0", "requirement ',gpus=0': a clause is empty or too long");
    catalog_release(&catalog);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_of_two_rows_counts_in_either_order),
        cmocka_unit_test(test_two_truths_of_one_date_are_an_error),
        cmocka_unit_test(test_bad_rows_are_refused_with_their_line),
        cmocka_unit_test(test_owned_hardware_costs_its_wear_and_power),
        cmocka_unit_test(test_what_is_written_reads_back_the_same),
        cmocka_unit_test(test_requirements_choose_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
