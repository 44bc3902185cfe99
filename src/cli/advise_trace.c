/* drover advise --spot-trace FILE: how often spot machines are lost, from records of some. */
#include "base/io.h"
#include "base/jread.h"
#include "base/mem.h"
#include "cli/advise.h"

#include <math.h>
#include <stdlib.h>

enum { TRACE_BYTES_MAX = 64 << 20, MACHINES_MAX = 1000000, GAP_MAX_S = 7 * 86400 };

/* A whole number from 0 to MACHINES_MAX, written as such or as 4.0. */
static bool read_count(const struct jnode *node, uint32_t *out)
{
    char *end = NULL;
    if (node->kind != JREAD_NUMBER) {
        return false;
    }
    double number = strtod(node->raw, &end); /* ends where the number does: it is valid JSON */
    if (!(number >= 0 && number <= MACHINES_MAX) || number != floor(number)) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static enum err_code read_trace(const struct jnode *root, struct spot_record *record,
                                struct err *err)
{
    const struct jnode *data = jread_get(root, "data");
    double gap_s = jread_number(jread_get(root, "metadata"), "gap_seconds", 0);
    if (!root || root->kind != JREAD_OBJECT) {
        return err_set(err, ERR_INVALID, "not an object with metadata and data");
    }
    if (!(gap_s > 0 && gap_s <= GAP_MAX_S)) {
        return err_set(err, ERR_INVALID,
                       "metadata.gap_seconds must be a number above 0 and at most %d", GAP_MAX_S);
    }
    if (!data || data->kind != JREAD_ARRAY || data->count < 2) {
        return err_set(err, ERR_INVALID, "data must be a list of two numbers or more");
    }
    uint32_t *machines = mem_array(data->count, sizeof *machines);
    size_t count = 0;
    const struct jnode *node = jread_first(data);
    while (node && read_count(node, &machines[count])) {
        count++;
        node = node->next;
    }
    if (node) {
        free(machines);
        return err_set(err, ERR_INVALID,
                       "data[%zu] is not how many machines there were (0 to %d, whole)", count,
                       MACHINES_MAX);
    }
    spot_record_add(record, machines, count, gap_s);
    free(machines);
    return ERR_OK;
}

int advise_read_trace(struct advise *advise, const char *file)
{
    AUTO_STR struct str text = {0};
    struct jread doc = {0};
    struct err err = {0};
    enum err_code code = io_read_file(file, TRACE_BYTES_MAX, &text, &err);
    if (code != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    code = jread_parse(&doc, str_text(&text), text.size, &err);
    code = code == ERR_OK ? read_trace(doc.root, &advise->trace, &err) : code;
    jread_release(&doc);
    advise->trace_count++;
    return code == ERR_OK ? EXIT_DONE : cli_error(EXIT_USAGE, "%s: %s", file, err.text);
}

int advise_use_traces(struct advise *advise)
{
    struct spot_rate rate;
    struct err err = {0};
    if (spot_rate(&advise->trace, &rate, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "--spot-trace: %s, so nothing can be said of losses",
                         err.text);
    }
    advise->loss_rate_hour = 3600 * rate.rate;
    if (!advise->as_json) {
        AUTO_STR struct str out = {0};
        str_addf(&out,
                 "spot: %.3g losses an hour and machine (%.3g to %.3g), from %.0f in %.1f hours\n",
                 3600 * rate.rate, 3600 * rate.low, 3600 * rate.high, advise->trace.losses,
                 advise->trace.there_s / 3600);
        cli_write(&out);
    }
    return EXIT_DONE;
}
