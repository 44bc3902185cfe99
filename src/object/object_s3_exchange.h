/* object_s3_exchange.h - one HTTP exchange as libcurl sees it: its options, its callbacks, its end.
 *
 * Private to object_s3_pump.c and object_s3_exchange.c.
 */
#ifndef OBJECT_OBJECT_S3_EXCHANGE_H
#define OBJECT_OBJECT_S3_EXCHANGE_H

#include "object/object_s3_pump.h"

/* Fills in the handle, and clears the answer. */
void s3_exchange_set_up(struct s3_exchange *exchange);

/* Sets code, err and status from how it ended. */
void s3_exchange_judge(struct s3_exchange *exchange, CURLcode result);

#endif
