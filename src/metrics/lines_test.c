/* What lines.h recognises, one example of each program's output after the other. */
#include "base/rng.h"
#include "metrics/lines.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void feed(struct lines *lines, const char *text, size_t size, struct str *out)
{
    struct metric_sink sink = testing_sink(out);
    lines_feed(lines, text, size, 1000, &sink);
}

static void end(struct lines *lines, struct str *out)
{
    struct metric_sink sink = testing_sink(out);
    lines_end(lines, 1000, &sink);
    lines_destroy(lines);
}

static void expect(const char *text, const char *expected)
{
    AUTO_STR struct str out = {0};
    struct lines *lines = lines_create();
    feed(lines, text, strlen(text), &out);
    end(lines, &out);
    if (strcmp(str_text(&out), expected) != 0) {
        print_message("text: %s\n", text);
    }
    assert_string_equal(str_text(&out), expected);
}

static void the_common_forms_are_understood(void **state)
{
    (void)state;
    expect("epoch 3: loss=0.12 accuracy=0.97\n", "epoch@3=3 loss@3=0.12 accuracy@3=0.97");
    expect("step 100 | loss 0.3 | acc: 91.2%\n", "loss@100=0.3 acc@100=0.912");
    expect("Epoch 2, Step 40: loss = 1e-5, lr = 0.001\n", "epoch@40=2 loss@40=1e-5 lr@40=0.001");
    expect("[Epoch 7] loss=nan acc=-inf\n", "epoch@7=7 loss@7=nan acc@7=-inf");
    expect("Validation Loss: 0.31, Validation Accuracy: 0.9\n", "val_loss=0.31 val_accuracy=0.9");
    expect("loss: 2\n", "loss=2");
    expect("global_step=12 'loss': 0.25\n", "loss@12=0.25");
    expect("2026-01-02 10:11:12,123 - INFO - epoch 3: loss=0.12\n", "epoch@3=3 loss@3=0.12");
    expect("INFO:root:iter 5 loss=0.5\n", "loss@5=0.5");
    expect("I0102 10:11:12.345678 1234 train.py:45] step 100, loss 0.25\n", "loss@100=0.25");
    expect("best val accuracy: 0.93\n", "best_val_accuracy=0.93");
    expect("loss=tensor(0.5, device='cuda:0')\n", "loss=0.5");
    expect("accuracy=0.97\xC2\xB1"
           "0.01\n",
           "accuracy=0.97");
}

static void keras_progress_bars_count_once_an_epoch(void **state)
{
    (void)state;
    expect("Epoch 1/2\n"
           "\r   1/1875 [....] - ETA: 5:26 - loss: 2.31 - accuracy: 0.06"
           "\b\b\b\b\b\b\r 900/1875 [==>.] - ETA: 1s - loss: 0.50 - accuracy: 0.80"
           "\b\b\b\b\b\b\r1875/1875 [====] - 3s 1ms/step - loss: 0.29 - accuracy: 0.91 - val_loss: "
           "0.14 - val_accuracy: 0.95\n"
           "Epoch 2/2\n"
           "\r1875/1875 [====] - 3s 1ms/step - loss: 0.2 - val_loss: 0.1\r\n",
           "epoch@1=1 loss@1=0.29 accuracy@1=0.91 val_loss@1=0.14 val_accuracy@1=0.95 "
           "epoch@2=2 loss@2=0.2 val_loss@2=0.1");
    /* To a file, each state of the bar is a line. */
    expect("Epoch 1/2\n 1/9 [..] - ETA: 5s - loss: 2.3\n 5/9 [=.] - ETA: 2s - loss: 1.3\n"
           " 9/9 [==] - 3s 10ms/step - loss: 0.7\nEpoch 2/2\n 1/9 [..] - ETA: 5s - loss: 0.6\n",
           "epoch@1=1 loss@1=0.7 epoch@2=2 loss@2=0.6");
    /* Keras 3, in colours. */
    expect("Epoch 3/10\n\033[1m1875/1875\033[0m \033[32m\xE2\x94\x81\xE2\x94\x81\033[0m\033[37m"
           "\033[0m \033[1m3s\033[0m 1ms/step - accuracy: 0.8784 - loss: 0.4296\n",
           "epoch@3=3 accuracy@3=0.8784 loss@3=0.4296");
    expect("Epoch 3: val_loss improved from 0.50 to 0.48, saving model to best.h5\n", "");
}

static void dictionaries_and_json_are_understood(void **state)
{
    (void)state;
    expect("{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 1.0}\n",
           "epoch@1=1 loss@1=0.5 grad_norm@1=1.25 learning_rate@1=5e-5");
    expect("{'loss': '0.5', 'epoch': '0.25'}\n", "epoch@0.25=0.25 loss@0.25=0.5");
    expect("{'eval_loss': nan, 'eval_accuracy': np.float64(0.75), 'epoch': 2}\n",
           "epoch@2=2 eval_loss@2=nan eval_accuracy@2=0.75");
    expect(" 33%|###   | 500/1500 [01:02<02:00, 8.1it/s]{'loss': 0.5, 'epoch': 1.0}\n",
           "epoch@1=1 loss@1=0.5");
    expect("{\"step\": 3, \"loss\": 0.5, \"val\": {\"loss\": 0.75}, \"host\": \"a\"}\n",
           "loss@3=0.5 val/loss@3=0.75");
    /* An entry of a log with a message is about its message. */
    expect("{\"level\":\"info\",\"msg\":\"saved\",\"step\":3,\"bytes\":12345}\n", "");
    expect("{\"level\":\"info\",\"msg\":\"eval\",\"step\":3,\"loss\":0.5,\"bytes\":12345}\n",
           "loss@3=0.5");
    expect("{\"ts\":1700000000,\"port\":8080,\"pid\":7}\n", "");
}

static void other_programs_are_understood(void **state)
{
    (void)state;
    /* PyTorch's examples: MNIST, ImageNet, transfer learning. */
    expect("Train Epoch: 1 [12800/60000 (21%)]\tLoss: 0.318\n", "epoch@1=1 train_loss@1=0.318");
    expect("\nTest set: Average loss: 0.0265, Accuracy: 9912/10000 (99%)\n\n",
           "test_loss=0.0265 test_accuracy=0.9912");
    expect("Epoch: [0][  10/5005]\tTime  0.309 ( 1.276)\tData  0.000 ( 0.105)\tLoss 6.98e+00 "
           "(7.05e+00)\tAcc@1   0.39 (  0.10)\tAcc@5   1.17 (  0.50)\n",
           "epoch@0=0 loss@0=6.98 acc@1@0=0.39 acc@5@0=1.17");
    expect(" * Acc@1 76.130 Acc@5 92.862\n", "acc@1=76.13 acc@5=92.862");
    expect("train Loss: 0.5 Acc: 0.75\nval Loss: 0.25 Acc: 0.875\n",
           "train_loss=0.5 train_acc=0.75 val_loss=0.25 val_acc=0.875");
    /* Lightning on tqdm: the last state of each epoch. */
    expect("\rEpoch 0:  50%|#### | 16/32 [00:01<00:01, 12.3it/s, loss=2.31, v_num=0]"
           "\rEpoch 0: 100%|#####| 32/32 [00:02<00:00, 12.3it/s, loss=1.50, v_num=0]"
           "\rEpoch 1:   3%|#    | 1/32 [00:00<00:01, 12.3it/s, loss=1.25, v_num=0]",
           "epoch@0=0 loss@0=1.5 epoch@1=1 loss@1=1.25");
    /* XGBoost, LightGBM, CatBoost, scikit-learn, fairseq. */
    expect("[12]\ttrain-rmse:0.51\ttest-logloss:0.48\n", "train-rmse@12=0.51 test-logloss@12=0.48");
    expect("[10]\tvalid_0's binary_logloss: 0.51\tvalid_0's auc: 0.9\n",
           "valid_0_binary_logloss@10=0.51 valid_0_auc@10=0.9");
    expect("Iteration 1, loss = 2.25\n", "loss@1=2.25");
    expect("epoch 001 | loss 12.5 | nll_loss 11.25 | ppl 2200.5 | lr 0.0001 | gnorm 1.25\n",
           "epoch@1=1 loss@1=12.5 nll_loss@1=11.25 ppl@1=2200.5 lr@1=0.0001 gnorm@1=1.25");
}

static void a_step_carries_over_to_lines_without_one(void **state)
{
    (void)state;
    expect("Epoch 4/9\n----------\ntrain Loss: 0.5\nval Loss: 0.25\n",
           "epoch@4=4 train_loss@4=0.5 epoch@4=4 val_loss@4=0.25");
    expect("step 7 loss=0.5\nTest accuracy: 0.75\n", "loss@7=0.5 test_accuracy@7=0.75");
}

static void what_is_said_to_drover_counts_in_any_case(void **state)
{
    (void)state;
    expect("drover: {\"step\":3,\"port\":80,\"x\":NaN,\"time\":1700000000.5}\n",
           "port@3=80 x@3=nan");
    expect("50%|###  |drover: {\"elapsed\":2}\n", "elapsed=2");
    expect("drover: {\"name\":\"score\",\"value\":4,\"epoch\":2}\n", "epoch@2=2 score@2=4");
    expect("drover: {\"step\":3,\"x\":\n", "");
}

static void what_is_wanted_is_known(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    struct lines *lines = lines_create();
    const char *text = "throughput 12\nThroughput: 13\nepoch 2 throughput=14 other=15\nblub: 3\n";
    lines_want(lines, "throughput");
    feed(lines, text, strlen(text), &out);
    end(lines, &out);
    assert_string_equal(str_text(&out), "throughput=13 epoch@2=2 throughput@2=14 other@2=15");
}

static void patterns_replace_the_defaults(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    struct err err = {0};
    const char *text = "epoch 3: loss=0.5\nresult(7) => 12.5 at 9\ndrover: {\"a\":1}\n";
    struct lines *lines = lines_create();
    assert_int_equal(lines_add_pattern(lines, "result", "result(*) => {value} at {step}", &err),
                     ERR_OK);
    feed(lines, text, strlen(text), &out);
    lines_use_defaults(lines, true);
    feed(lines, text, strlen(text), &out);
    end(lines, &out);
    assert_string_equal(str_text(&out), "result@9=12.5 a=1 epoch@3=3 loss@3=0.5 result@9=12.5 a=1");
}

static void patterns_have_a_limit(void **state)
{
    (void)state;
    struct err err = {0};
    struct lines *lines = lines_create();
    for (int i = 0; i < LINES_PATTERNS_MAX; i++) {
        assert_int_equal(lines_add_pattern(lines, "x", "x={value}", &err), ERR_OK);
    }
    assert_int_equal(lines_add_pattern(lines, "x", "x={value}", &err), ERR_INVALID);
    assert_string_equal(err.text, "more than 32 patterns");
    lines_destroy(lines);
}

static void long_lines_are_cut_at_a_word(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    str_add(&text, "step 1 loss=0.5 ");
    while (text.size < LINES_LINE_MAX - 10) {
        str_add_char(&text, 'x');
    }
    str_add(&text, " acc=0.123456789\nloss=0.25\n");
    expect(str_text(&text), "loss@1=0.5 loss@1=0.25");
}

static void strange_bytes_do_no_harm(void **state)
{
    (void)state;
    expect("\033]0;title 5\aloss=0.5\n", "loss=0.5");
    expect("\033]0;title 5\033\\loss=0.5\n", "loss=0.5");
    expect("\033[38;5;1mloss\033[0m=0.5\n", "loss=0.5");
    expect("\033", "");
    expect("\xFF\xFEloss=0.5\xFF\n", "loss=0.5");
    expect("loss=0.5", "loss=0.5");
    expect("", "");
}

/* Any cut of any of these lines into pieces gives the same points. */
static const char *const pieces[] = {
    "epoch 3: loss=0.12 accuracy=0.97\n",
    "Epoch 4/9\n",
    "\r 1/9 [=] - ETA: 1s - loss: 0.5",
    "\r 9/9 [==] - 1s - loss: 0.25\n",
    "\r\n",
    "\033[1mstep 100\033[0m | loss 0.3 | acc: 91.2%\r\n",
    "{'loss': 0.5, 'epoch': 1.0}\n",
    "drover: {\"step\":3,\"x\":1}\n",
    "took 3.2s\n",
    "\033]0;t",
    "\a",
    "\b\b\b",
    "loss=",
    "0.5 ",
    "val ",
    "accuracy: 9/10\n",
};

static void pieces_make_no_difference(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 2000; round++) {
        AUTO_STR struct str text = {0};
        AUTO_STR struct str whole = {0};
        AUTO_STR struct str cut = {0};
        size_t count = 1 + rng_below(&rng, 30);
        for (size_t i = 0; i < count; i++) {
            str_add(&text, pieces[rng_below(&rng, sizeof pieces / sizeof pieces[0])]);
        }
        struct lines *at_once = lines_create();
        feed(at_once, str_text(&text), text.size, &whole);
        end(at_once, &whole);
        struct lines *in_pieces = lines_create();
        for (size_t at = 0; at < text.size;) {
            size_t size = 1 + rng_below(&rng, 20);
            size = size < text.size - at ? size : text.size - at;
            feed(in_pieces, str_text(&text) + at, size, &cut);
            at += size;
        }
        end(in_pieces, &cut);
        assert_string_equal(str_text(&whole), str_text(&cut));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_common_forms_are_understood),
        cmocka_unit_test(keras_progress_bars_count_once_an_epoch),
        cmocka_unit_test(dictionaries_and_json_are_understood),
        cmocka_unit_test(other_programs_are_understood),
        cmocka_unit_test(a_step_carries_over_to_lines_without_one),
        cmocka_unit_test(what_is_said_to_drover_counts_in_any_case),
        cmocka_unit_test(what_is_wanted_is_known),
        cmocka_unit_test(patterns_replace_the_defaults),
        cmocka_unit_test(patterns_have_a_limit),
        cmocka_unit_test(long_lines_are_cut_at_a_word),
        cmocka_unit_test(strange_bytes_do_no_harm),
        cmocka_unit_test(pieces_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
