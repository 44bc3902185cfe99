/* wire_check.h - what a valid message is. Inside of wire. */
#ifndef WIRE_WIRE_CHECK_H
#define WIRE_WIRE_CHECK_H

#include "wire/wire.h"

/* ERR_INVALID is the only error. Not for a Hello of another protocol. */
MUST_USE enum err_code wire_check_to_node(const Drover__ToNode *message, struct err *err);
MUST_USE enum err_code wire_check_to_master(const Drover__ToMaster *message, struct err *err);

/* Text for people and logs, of at most bytes_max, without control characters. */
bool wire_text_is_clean(const char *text, size_t bytes_max);

#endif
