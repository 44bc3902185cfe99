/* Ordinary text holds no metrics: logs of programs of every kind, and not one number is taken. */
#include "metrics/lines.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const ordinary[] = {
    /* times, dates, versions, addresses */
    "took 3.2s",
    "took 3.2 s, 5 files",
    "elapsed: 12.5",
    "elapsed time: 0:01:02.5",
    "2026-01-02T03:04:05.678Z INFO listening on 10.0.0.1:8080",
    "2026-01-02 03:04:05,678 WARNING retry=3 delay=1.5 host=10.1.2.3",
    "Jan  2 03:04:05 host kernel: [12345.678901] usb 1-1: new high-speed device number 5",
    "127.0.0.1 - - [02/Jan/2026:03:04:05 +0000] \"GET /v1/loss HTTP/1.1\" 200 1234 0.005",
    "version: 2.1.0",
    "version=2.1",
    "Python 3.11.2 (main, Mar 13 2023, 12:18:29) [GCC 12.2.0] on linux",
    "torch 2.1.0+cu118, cuda 11.8, cudnn 8700",
    "release 1.5, build 20260102",
    /* packages and builds */
    "Collecting numpy>=1.21.0",
    "  Downloading torch-2.1.0-cp311-cp311-manylinux1_x86_64.whl (670.2 MB)",
    "     |################################| 670.2 MB 12.5 MB/s eta 0:00:00",
    "Successfully installed numpy-1.26.2 torch-2.1.0 accuracy-0.0.3",
    "Get:1 http://deb.debian.org/debian bookworm/main amd64 libc6 amd64 2.36-9 [2,757 kB]",
    "[12/345] Compiling C object src/metrics/libmetrics.a.p/loss.c.o",
    "loss.py:45: DeprecationWarning: use x",
    "  File \"/app/loss.py\", line 45, in accuracy",
    "Step 3/12 : RUN pip install -r requirements.txt",
    "Step 1: loading 50000 images, size=3.2",
    "make[1]: *** [Makefile:12: all] Error 2",
    /* settings */
    "Namespace(batch_size=64, epochs=14, lr=1.0, gamma=0.7, seed=1, log_interval=10)",
    "args: loss_weight=0.5, label_smoothing=0.1, dropout=0.25",
    "config: loss='mse', accuracy_threshold=0.95",
    "target accuracy: 0.95",
    "stopping at required accuracy 0.97",
    "Using 16bit precision (AMP)",
    "precision: 16",
    "max_steps=1000 warmup=0.1 weight_decay=0.01",
    "Epochs: 10, batch size: 32",
    "seed = 42",
    "num_params: 11.7",
    /* progress without numbers worth keeping */
    "Map: 100%|##########| 25000/25000 [00:05<00:00, 4567.89 examples/s]",
    "Downloading: 100%|##########| 1.2G/1.2G [00:30<00:00, 40.1MB/s]",
    "Epoch 3:  50%|#####     | 16/32 [00:01<00:01, 12.3it/s]",
    "Epoch 00003: val_loss did not improve from 0.30",
    "Epoch 5: ReduceLROnPlateau reducing learning rate to 0.0001.",
    "Validation loss decreased (0.35 --> 0.31).  Saving model ...",
    "Saved checkpoint at step 1000 to /ckpt/step-1000.pt (3.2 GB)",
    "epoch 3 done in 12.5 seconds",
    "epoch 3 took 12.5",
    "step 100: 12.3 it/s, eta 3.5",
    /* machines */
    "GPU 0: NVIDIA A100, 40 GB, util 97%, mem 12.5 GB",
    "| N/A   34C    P0    52W / 300W |   1024MiB / 16384MiB |     12%      Default |",
    "cuda:0 rank=0 world_size=8 local_rank=0",
    "Mem: 15.6Gi total, 3.2Gi used, cpu=12.5",
    "load average: 0.52, 0.58, 0.59",
    "slurmstepd: error: Exceeded step memory limit: 1024",
    "PING 10.0.0.1: 5 packets transmitted, 5 received, 0% packet loss, time 4005ms",
    "rtt min/avg/max/mdev = 0.045/0.052/0.061/0.006 ms",
    "nccl INFO Channel 00/02 : 0 1 2 3",
    "pid: 1234, port: 8080, status=0",
    "exit code: 1",
    /* prose */
    "Error: 0.5 is not a whole number",
    "Error 404: not found",
    "error: 5",
    "the loss of 3.5 million dollars was total",
    "we return 0 here",
    "loss=1,234,567 dollars",
    "score 5 points to win",
    "accuracy must exceed 0.9",
    "Traceback (most recent call last):",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total)",
    "ValueError: loss is nan",
    "https://example.com/loss?acc=1&step=2.5.1",
    "x = 1, y = 2",
    "theta=0.5 phi=0.25",
    "{\"ts\": 1700000000.5, \"level\": \"info\", \"msg\": \"ready\", \"port\": 8080}",
    "{'a': 1, 'b': 2.5}",
    "{\"step\": 5, \"bytes\": 1024}",
    "{broken json: 0.5",
    "nan",
    "----------",
    "",
};

static void ordinary_text_holds_no_metrics(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ordinary / sizeof ordinary[0]; i++) {
        AUTO_STR struct str out = {0};
        struct metric_sink sink = testing_sink(&out);
        struct lines *lines = lines_create();
        lines_feed(lines, ordinary[i], strlen(ordinary[i]), 0, &sink);
        lines_feed(lines, "\n", 1, 0, &sink);
        lines_end(lines, 0, &sink);
        lines_destroy(lines);
        if (out.size > 0) {
            print_message("text: %s\n", ordinary[i]);
        }
        assert_string_equal(str_text(&out), "");
    }
}

/* A whole run, with all of the above between its lines: exactly its metrics come out. */
static void ordinary_text_changes_nothing_for_metrics(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    AUTO_STR struct str expected = {0};
    struct metric_sink sink = testing_sink(&out);
    struct lines *lines = lines_create();
    for (size_t i = 0; i < sizeof ordinary / sizeof ordinary[0]; i++) {
        AUTO_STR struct str text = {0};
        str_addf(&text, "%s\nepoch %zu: loss=%zu.5 acc=0.25\n", ordinary[i], i, i);
        str_addf(&expected, "%sepoch@%zu=%zu loss@%zu=%zu.5 acc@%zu=0.25", i > 0 ? " " : "", i, i,
                 i, i, i);
        lines_feed(lines, str_text(&text), text.size, 0, &sink);
    }
    lines_end(lines, 0, &sink);
    lines_destroy(lines);
    assert_string_equal(str_text(&out), str_text(&expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_text_holds_no_metrics),
        cmocka_unit_test(ordinary_text_changes_nothing_for_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
