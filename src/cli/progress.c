#include "cli/progress.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { SHOW_MS = 100, BAR = 24 };

void progress_add_bytes(struct str *out, uint64_t bytes)
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double number = (double)bytes;
    size_t unit = 0;
    while (number >= 1000 && unit < 5) {
        number /= 1000;
        unit++;
    }
    str_addf(out, unit ? "%.1f %s" : "%.0f %s", number, units[unit]);
}

void progress_begin(struct progress *progress, const char *verb, uint64_t items_all,
                    uint64_t bytes_all)
{
    *progress = (struct progress){.verb = verb,
                                  .items_all = items_all,
                                  .bytes_all = bytes_all,
                                  .is_on = isatty(STDERR_FILENO) == 1,
                                  .began_ms = clock_mono_ms()};
}

static void add_bar(struct str *out, double share)
{
    int full = (int)(share * BAR);
    str_add(out, " [");
    for (int i = 0; i < BAR; i++) {
        str_add_char(out, i < full ? '#' : '.');
    }
    str_addf(out, "] %3.0f%%", share * 100);
}

void progress_show(struct progress *progress)
{
    int64_t now_ms = clock_mono_ms();
    if (!progress->is_on || now_ms - progress->shown_ms < SHOW_MS) {
        return;
    }
    progress->shown_ms = now_ms;
    AUTO_STR struct str line = {0};
    double seconds = (double)(now_ms - progress->began_ms) / 1000;
    str_addf(&line, "\r%s", progress->verb);
    if (progress->bytes_all > 0) {
        double share = (double)progress->bytes / (double)progress->bytes_all;
        add_bar(&line, share > 1 ? 1 : share);
    }
    str_addf(&line, "  %" PRIu64 " files, ", progress->items);
    progress_add_bytes(&line, progress->bytes);
    if (seconds > 0.5 && progress->bytes > 0) {
        double rate = (double)progress->bytes / seconds;
        str_add(&line, ", ");
        progress_add_bytes(&line, (uint64_t)rate);
        str_add(&line, "/s");
        if (progress->bytes_all > progress->bytes) {
            str_add(&line, ", ");
            clock_add_duration(
                &line, (int64_t)((double)(progress->bytes_all - progress->bytes) / rate * 1000));
            str_add(&line, " left");
        }
    }
    str_add(&line, "\x1b[K");
    (void)!write(STDERR_FILENO, line.text, line.size);
}

void progress_end(struct progress *progress)
{
    if (progress->is_on && progress->shown_ms) {
        (void)!write(STDERR_FILENO, "\r\x1b[K", 4);
    }
    progress->is_on = false;
}
