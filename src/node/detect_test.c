#include "node/detect.h"
#include "node/node.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_a_gpus_kind_is_its_models_word(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *kind;
    } cases[] = {
        {"Tesla K80", "k80"},
        {"Tesla V100-SXM2-16GB", "v100"},
        {"NVIDIA H200", "h200"},
        {"NVIDIA A100 80GB PCIe", "a100"},
        {"NVIDIA GeForce RTX 3090", "rtx-3090"},
        {"NVIDIA GeForce GTX 1080 Ti", "gtx-1080-ti"},
        {"NVIDIA RTX A6000", "rtx-a6000"},
        {"NVIDIA TITAN V", "titan-v"},
        {"  Odd   name", "odd"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char kind[64];
        detect_gpu_kind(cases[i].name, kind, sizeof kind);
        assert_string_equal(kind, cases[i].kind);
    }
    char small[4];
    detect_gpu_kind("NVIDIA GeForce RTX 3090", small, sizeof small);
    assert_string_equal(small, "rtx");
}

static void test_this_machine_offers_something(void **state)
{
    (void)state;
    struct node_capacity capacity;
    node_detect("/tmp", 0, &capacity);
    assert_true(capacity.cpu_milli >= 1000);
    assert_true(capacity.memory_bytes > 0);
    node_detect("/tmp", 7, &capacity);
    assert_int_equal(capacity.cpu_milli, 7000);
    node_detect("/tmp", UINT32_MAX, &capacity);
    assert_int_equal(capacity.cpu_milli, 10000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpus_kind_is_its_models_word),
        cmocka_unit_test(test_this_machine_offers_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
