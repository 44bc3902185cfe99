/* show.h - the faces of `drover run`: live on a terminal, plain lines off it, JSON for programs. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "master/master.h"

enum show_kind { SHOW_PLAIN, SHOW_LIVE, SHOW_JSON, SHOW_QUIET };

struct show;

struct show *show_create(enum show_kind kind, uint32_t slots);
const struct master_observer *show_observer(const struct show *show);

/* The end: the live view makes room, the summary or the last JSON line is printed. */
void show_end(struct show *show, const struct session *session, enum master_end end,
              int64_t elapsed_ms);
void show_destroy(struct show *show);

#endif
