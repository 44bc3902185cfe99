/* Repairing a volume whose log is not whole: it goes back to the commit before the gap.
 *
 * The numbers of the commits that are cut off are never used again. The end of the log stays where
 * it is: there the fence is set, and a checkpoint of the state before the gap that counts as of the
 * fence makes all behind it history. So one write of head, if-match, is the moment at which the
 * volume is repaired; before it the gap is there for everyone to see, after it nothing reads it any
 * more, and a repair that is killed is just begun again. Had the numbers been used again instead,
 * an owner that was succeeded and slept since, or the last one, taken over, could store a commit of
 * its own behind ours under the number it has come to, and caches would hold other bytes under the
 * same names.
 *
 * Fences in the part that is cut off stay, since they hold off owners that sleep; where one may
 * have been lost, ours takes its place. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_MAX = 16, HEADERS_AT_ONCE = 32, BLANKS_MAX = 1024, LOST_NAME_MAX = 96 };
#define SEQ_MAX (UINT64_C(1) << 62) /* no volume comes this far */

/* Every log object from `seq` on, in order. */
typedef enum err_code (*log_page_fn)(void *context, const struct object_call *list,
                                     struct err *err);
static enum err_code list_from(struct object_store *store, uint64_t seq, log_page_fn each,
                               void *context, struct err *err)
{
    AUTO_STR struct str after = {0};
    char name[CONTAINER_NAME_MAX];
    bool more = true;
    enum err_code code = ERR_OK;
    volume_log_name(seq - 1, name); /* there is no log/0 */
    str_add(&after, name);
    while (code == ERR_OK && more) {
        struct object_call list = {.verb = OBJECT_LIST, .key = "log/", .after = str_text(&after)};
        code = object_do(store, &list, err);
        if (code == ERR_OK) {
            code = each(context, &list, err);
            more = list.more && list.page_count > 0;
        }
        if (code == ERR_OK && more) {
            str_clear(&after);
            str_add(&after, list.page[list.page_count - 1].key);
        }
        object_call_release(&list);
    }
    return code;
}

/* The seq of a key of the list; 0: it is not the name of a commit. */
static enum err_code seq_of(const char *key, uint64_t *seq, struct err *err)
{
    struct container container = {0};
    *seq = container_parse(key, &container) ? container.number : 0;
    if (*seq >= SEQ_MAX) {
        return err_set(err, ERR_CORRUPT, "%s: no commit has that number: it is not of this volume",
                       key);
    }
    return ERR_OK;
}

/* Looking. ------------------------------------------------------------------------------------- */

struct counting {
    struct volume *volume;
    struct volume_repair_report *report;
};

/* Fences are nobody's work. What a header says is believed here: it is for people. */
static void count_some(struct counting *counting, const struct object_item *items, size_t count)
{
    struct object_call calls[HEADERS_AT_ONCE];
    struct volume_batch batch = {.calls = calls, .count = count};
    for (size_t i = 0; i < count; i++) {
        calls[i] = (struct object_call){
            .verb = OBJECT_GET, .key = items[i].key, .size = LOGOBJ_HEADER_BYTES};
    }
    volume_batch_run(counting->volume->store, &batch);
    for (size_t i = 0; i < count; i++) {
        struct container container = {0};
        bool is_later =
            container_parse(items[i].key, &container) && container.number > counting->report->seq;
        if (is_later && !logobj_claims_fence(str_text(&calls[i].body), calls[i].body.size)) {
            counting->report->later++;
            counting->report->later_bytes += items[i].size;
        }
        object_call_release(&calls[i]);
    }
}

static enum err_code count_page(void *context, const struct object_call *list, struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < list->page_count && code == ERR_OK; i++) {
        uint64_t seq = 0;
        code = seq_of(list->page[i].key, &seq, err);
    }
    for (size_t i = 0; i < list->page_count && code == ERR_OK; i += HEADERS_AT_ONCE) {
        size_t left = list->page_count - i;
        count_some(context, list->page + i, left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE);
    }
    return code;
}

static void note_owner(const struct volume_head *head, const struct volume_options *options,
                       struct volume_repair_report *report)
{
    if (!head->owned || volume_owner_is_gone(&head->owner, options->locks)) {
        return;
    }
    AUTO_STR struct str since = {0};
    clock_add_rfc3339(&since, head->owner.since_unix_ms);
    snprintf(report->owner, sizeof report->owner, "%.120s on %.100s (pid %" PRId64 ") since %s",
             head->owner.who, head->owner.host, head->owner.pid, str_text(&since));
}

static void note_gap(const struct volume_gap *gap, struct volume_repair_report *report)
{
    report->log = gap->log;
    report->seq = gap->seq;
    if (gap->log != VOLUME_LOG_WHOLE) {
        report->why = gap->why;
    }
}

/* ERR_AGAIN: an owner has written head meanwhile, and may have deleted what seems to be missing. */
static enum err_code look_once(struct volume *volume, const struct volume_options *options,
                               struct volume_repair_report *report, struct err *err)
{
    struct volume_head head = {0};
    struct volume_gap gap = {0};
    struct counting counting = {volume, report};
    char etag[OBJECT_ETAG_MAX] = "";
    *report = (struct volume_repair_report){0};
    enum err_code code = volume_format_read(volume->store, &volume->format, err);
    if (code == ERR_OK) {
        code = volume_read_head(volume, &head, etag, err);
    }
    if (code == ERR_OK) {
        code = volume_load_view(volume, &head.view, err);
    }
    volume->commit.next = head.view.seq + 1;
    if (code == ERR_OK) {
        code = volume_replay(volume, &gap, err);
    }
    note_gap(&gap, report);
    note_owner(&head, options, report);
    if (code == ERR_OK && gap.log != VOLUME_LOG_WHOLE) {
        code = list_from(volume->store, gap.seq, count_page, &counting, err);
    }
    bool has_trouble = etag[0] != '\0' && (code == ERR_CORRUPT || gap.log != VOLUME_LOG_WHOLE);
    struct object_call now = {.verb = OBJECT_HEAD, .key = "head"};
    if (has_trouble && object_do(volume->store, &now, NULL) == ERR_OK &&
        strcmp(now.etag, etag) != 0) {
        code = err_set(err, ERR_AGAIN, "the volume is being changed: try again later");
    }
    object_call_release(&now);
    volume_head_release(&head);
    return code;
}

enum err_code volume_repair_look(struct object_store *store, const struct volume_options *options,
                                 struct volume_repair_report *report, struct err *err)
{
    struct volume_options how = *options;
    struct volume_repair_report found = {0};
    enum err_code code = ERR_AGAIN;
    how.role = VOLUME_READER; /* without a pin: nothing is written */
    for (int looks = 0; looks < LOOKS_MAX && code == ERR_AGAIN; looks++) {
        struct volume *volume = volume_create(store, &how);
        code = look_once(volume, &how, &found, err);
        volume_give_back(volume);
    }
    if (code == ERR_OK) {
        *report = found;
    }
    return code;
}

/* Cutting off. --------------------------------------------------------------------------------- */

struct cut {
    struct volume *volume;
    struct volume_repair_report *report;
    uint64_t next;    /* behind all that has been set aside so far: in the end, of the fence */
    uint64_t *doomed; /* commits that have been copied */
    size_t doomed_count, doomed_cap;
    uint64_t *blanks; /* missing or damaged: may have been fences */
    size_t blank_count, blank_cap;
};

static void note_blank(struct cut *cut, uint64_t seq)
{
    if (cut->blank_count < BLANKS_MAX) {
        VEC_PUSH(cut->blanks, cut->blank_count, cut->blank_cap) = seq;
        volume_fence_note(cut->volume, seq);
    }
}

static enum err_code copy(struct cut *cut, uint64_t seq, const struct str *bytes, struct err *err)
{
    char name[LOST_NAME_MAX];
    snprintf(name, sizeof name, "lost/%08" PRIx32 "/log/%016" PRIx64, cut->volume->head.now.term,
             seq);
    enum err_code code =
        object_put_if_absent(cut->volume->store, name, str_text(bytes), bytes->size, err);
    if (code != ERR_EXISTS) {
        return code;
    }
    AUTO_STR struct str there = {0}; /* our own, after a lost reply: nobody else has this term */
    code = object_get(cut->volume->store, name, &there, NULL, err);
    if (code == ERR_OK && (there.size != bytes->size ||
                           memcmp(str_text(&there), str_text(bytes), bytes->size) != 0)) {
        code = err_set(err, ERR_CORRUPT, "%s: there already, with other bytes", name);
    }
    return code;
}

/* One that is there. */
static enum err_code set_aside(struct cut *cut, uint64_t seq, const struct str *bytes,
                               struct err *err)
{
    struct logobj_header header = {0};
    enum err_code code = copy(cut, seq, bytes, err);
    if (code != ERR_OK) {
        return code;
    }
    cut->report->copies++;
    bool is_sound = volume_log_read(cut->volume, seq, bytes, &header, NULL) == ERR_OK;
    bool is_fence = is_sound && (header.flags & LOGOBJ_FENCE) != 0;
    if (is_fence) {
        volume_fence_note(cut->volume, seq);
    } else if (is_sound && seq != cut->report->seq) { /* there the gap is, whatever lies in it */
        VEC_PUSH(cut->doomed, cut->doomed_count, cut->doomed_cap) = seq;
    } else {
        note_blank(cut, seq);
    }
    if (!is_fence && seq > cut->report->seq) {
        cut->report->later++;
        cut->report->later_bytes += bytes->size;
    }
    return ERR_OK;
}

static enum err_code set_aside_page(void *context, const struct object_call *list, struct err *err)
{
    struct cut *cut = context;
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < list->page_count && code == ERR_OK; i++) {
        AUTO_STR struct str bytes = {0};
        uint64_t seq = 0;
        code = seq_of(list->page[i].key, &seq, err);
        if (code != ERR_OK || seq == 0) {
            continue;
        }
        code = object_get(cut->volume->store, list->page[i].key, &bytes, NULL, err);
        for (; cut->next < seq && cut->blank_count < BLANKS_MAX; cut->next++) {
            note_blank(cut, cut->next);
        }
        cut->next = seq;
        if (code == ERR_OK) {
            code = set_aside(cut, seq, &bytes, err);
            cut->next++;
        } else if (code == ERR_NOT_FOUND) { /* listed, and lost all the same */
            note_blank(cut, cut->next++);
            code = ERR_OK;
        }
    }
    return code;
}

/* At the end of the log, where an owner that lives goes on. */
static enum err_code fence_end(struct cut *cut, struct err *err)
{
    struct volume *volume = cut->volume;
    enum err_code code = ERR_EXISTS;
    while (code == ERR_EXISTS) {
        AUTO_STR struct str ours = {0};
        AUTO_STR struct str there = {0};
        char name[CONTAINER_NAME_MAX];
        volume_log_name(cut->next, name);
        volume_fence_write(volume, cut->next, &ours);
        code = object_put_if_absent(volume->store, name, ours.text, ours.size, err);
        enum err_code got = ERR_OK;
        if (code == ERR_EXISTS) {
            got = object_get(volume->store, name, &there, NULL, err);
        }
        if (got != ERR_OK) {
            code = got;
        } else if (code == ERR_EXISTS && there.size == ours.size &&
                   memcmp(there.text, ours.text, ours.size) == 0) {
            code = ERR_OK;               /* ours, after a lost reply */
        } else if (code == ERR_EXISTS) { /* a commit that it has just stored */
            got = set_aside(cut, cut->next, &there, err);
            cut->next++;
            code = got == ERR_OK ? ERR_EXISTS : got;
        }
    }
    if (code == ERR_OK) {
        volume_fence_note(volume, cut->next);
        volume->commit.next = cut->next + 1;
    }
    return code;
}

/* Behind the checkpoint now. Our fences come first: an owner that sleeps must find one before it
 * finds a place that is free. What is not deleted here is garbage that gc finds. */
static enum err_code tidy(struct cut *cut, struct err *err)
{
    struct object_store *store = cut->volume->store;
    enum err_code code = ERR_OK;
    char name[CONTAINER_NAME_MAX];
    for (size_t i = 0; i < cut->blank_count && code == ERR_OK; i++) {
        AUTO_STR struct str ours = {0};
        volume_log_name(cut->blanks[i], name);
        volume_fence_write(cut->volume, cut->blanks[i], &ours);
        code = object_put(store, name, ours.text, ours.size, err);
    }
    for (size_t i = 0; i < cut->doomed_count && code == ERR_OK; i++) {
        volume_log_name(cut->doomed[i], name);
        code = object_delete(store, name, err);
    }
    return code;
}

static enum err_code cut_off(struct volume *volume, const struct volume_gap *gap,
                             struct volume_repair_report *report, struct err *err)
{
    struct cut cut = {.volume = volume, .report = report, .next = gap->seq};
    enum err_code code = list_from(volume->store, gap->seq, set_aside_page, &cut, err);
    if (code == ERR_OK) {
        code = fence_end(&cut, err);
    }
    if (code == ERR_OK) {
        code = volume_confirm(volume, err);
    }
    if (code == ERR_OK) {
        code = volume_begin(volume, err);
    }
    if (code == ERR_OK) {
        code = volume_checkpoint(volume, err); /* here it happens */
    }
    if (code == ERR_OK) {
        code = tidy(&cut, err);
    }
    free(cut.doomed);
    free(cut.blanks);
    return code;
}

/* Nothing was wrong after all: opened as ever. */
static enum err_code just_open(struct volume *volume, struct err *err)
{
    enum err_code code = volume_fence(volume, err);
    if (code == ERR_OK) {
        code = volume_confirm(volume, err);
    }
    return code == ERR_OK ? volume_begin(volume, err) : code;
}

static enum err_code repair(struct volume *volume, const struct volume_options *options,
                            struct volume_repair_report *report, struct err *err)
{
    struct volume_gap gap = {0};
    enum err_code code = volume_format_read(volume->store, &volume->format, err);
    if (code == ERR_OK) {
        code = volume_own(volume, options, err);
    }
    if (code == ERR_OK) {
        code = volume_load_view(volume, &volume->head.now.view, err);
    }
    volume->commit.next = volume->head.now.view.seq + 1;
    if (code == ERR_OK) {
        code = volume_replay(volume, &gap, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    note_gap(&gap, report);
    report->term = volume->head.now.term;
    code =
        gap.log == VOLUME_LOG_WHOLE ? just_open(volume, err) : cut_off(volume, &gap, report, err);
    return code == ERR_OK ? volume_leave(volume, err) : code;
}

enum err_code volume_repair(struct object_store *store, const struct volume_options *options,
                            struct volume_repair_report *report, struct err *err)
{
    struct volume_options how = *options;
    struct volume_repair_report done = {0};
    how.role = VOLUME_OWNER;
    struct volume *volume = volume_create(store, &how);
    enum err_code code = repair(volume, &how, &done, err);
    volume_lock_release(&volume->lock, code == ERR_OK);
    volume_give_back(volume);
    if (code == ERR_OK) {
        *report = done;
    }
    return code;
}
