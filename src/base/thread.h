/* thread.h - threads that signals leave alone.
 *
 * Signals are for the thread that runs the program's loop: taken by another, one would not wake it.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/check.h"

#include <pthread.h>

/* Starts run(argument) with every signal blocked. 0, or what pthread_create says; *thread is then
 * not set. */
MUST_USE int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
