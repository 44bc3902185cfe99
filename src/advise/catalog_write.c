/* The catalog as CSV, so that what was merged can be read again. */
#include "advise/catalog.h"

#include <string.h>

static void add_text(struct str *out, const char *text)
{
    if (!strpbrk(text, ",\"\n\r#") && text[0] != ' ') {
        str_add(out, text);
        return;
    }
    str_add_char(out, '"');
    for (; *text; text++) {
        str_add(out, *text == '"' ? "\"" : "");
        str_add_char(out, *text);
    }
    str_add_char(out, '"');
}

static void add_number(struct str *out, double number)
{
    str_add_char(out, ',');
    if (number > 0) {
        str_add_double(out, number);
    }
}

static void add_money(struct str *out, int64_t micro, bool shown)
{
    str_add_char(out, ',');
    if (shown) {
        money_add(out, micro);
    }
}

static void add_row(struct str *out, const struct catalog_row *row, bool owned)
{
    const char *const names[] = {row->provider, row->region, row->type};
    for (size_t i = 0; i < 3; i++) {
        str_add(out, i ? "," : "");
        add_text(out, names[i]);
    }
    add_number(out, row->vcpus);
    add_number(out, row->memory_gib);
    str_add_char(out, ',');
    add_text(out, row->gpu);
    str_addf(out, ",%u", row->gpus);
    add_number(out, row->gpu_memory_gib);
    add_number(out, row->network_mbps);
    add_money(out, row->price_hour_micro, true);
    add_money(out, row->spot_hour_micro, row->spot_hour_micro != CATALOG_NO_SPOT);
    str_addf(out, ",%lld", (long long)row->billing.granule_s);
    add_number(out, (double)row->billing.minimum_s);
    add_number(out, (double)row->billing.free_s / MONEY_HOUR_S);
    str_addf(out, ",%s", row->currency);
    if (owned) {
        add_money(out, row->purchase_micro, row->purchase_micro > 0);
        add_number(out, row->lifetime_h);
        add_number(out, row->power_w);
        add_money(out, row->kwh_micro, row->kwh_micro > 0);
    }
    str_addf(out, ",%s,", row->date);
    add_text(out, row->source);
    str_add_char(out, '\n');
}

void catalog_write_csv(const struct catalog *catalog, struct str *out)
{
    bool owned = false;
    for (size_t i = 0; i < catalog->count; i++) {
        owned = owned || catalog->rows[i].purchase_micro > 0;
    }
    str_addf(out,
             "provider,region,type,vcpus,memory_gib,gpu,gpus,gpu_memory_gib,network_mbps,"
             "price_hour,spot_hour,billing_s,billing_min_s,free_hours,currency,%sdate,source\n",
             owned ? "purchase,lifetime_h,power_w,kwh_price," : "");
    for (size_t i = 0; i < catalog->count; i++) {
        add_row(out, &catalog->rows[i], owned);
    }
}
