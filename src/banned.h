/* banned.h - functions that invite mistakes do not compile here.
 *
 * The build puts this file in front of every source (-include), so it applies without being asked
 * for. A call to a banned function fails with an undeclared name that says what to use instead:
 *
 *     error: 'strcpy_is_banned__use_str_add' undeclared
 *
 * The system headers that declare them come first, since their own text must still compile.
 */
#ifndef BANNED_H
#define BANNED_H

#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* They write without knowing how much room there is. */
#undef strcpy
#define strcpy(...) strcpy_is_banned__use_str_add
#undef strcat
#define strcat(...) strcat_is_banned__use_str_add
#undef stpcpy
#define stpcpy(...) stpcpy_is_banned__use_str_add
#undef sprintf
#define sprintf(...) sprintf_is_banned__use_str_addf_or_snprintf
#undef vsprintf
#define vsprintf(...) vsprintf_is_banned__use_str_addf_or_vsnprintf
#undef gets
#define gets(...) gets_is_banned__use_getline
/* With alloca the room is the stack, and running out of it cannot be seen. */
#undef alloca
#define alloca(...) alloca_is_banned__use_an_arena
#undef strdupa
#define strdupa(...) strdupa_is_banned__use_mem_strdup
#undef strndupa
#define strndupa(...) strndupa_is_banned__use_mem_strndup

/* They may leave the end of the string out. */
#undef strncpy
#define strncpy(...) strncpy_is_banned__use_snprintf
#undef strncat
#define strncat(...) strncat_is_banned__use_snprintf

/* They keep their state or their result in one place shared by all callers. */
#undef strtok
#define strtok(...) strtok_is_banned__use_strtok_r_or_strchr
#undef gmtime
#define gmtime(...) gmtime_is_banned__use_gmtime_r
#undef localtime
#define localtime(...) localtime_is_banned__use_localtime_r
#undef ctime
#define ctime(...) ctime_is_banned__use_clock_add_rfc3339
#undef asctime
#define asctime(...) asctime_is_banned__use_clock_add_rfc3339

/* They cannot tell a number from garbage. */
#undef atoi
#define atoi(...) atoi_is_banned__use_strtol
#undef atol
#define atol(...) atol_is_banned__use_strtol
#undef atoll
#define atoll(...) atoll_is_banned__use_strtoll
#undef atof
#define atof(...) atof_is_banned__use_strtod

/* They give other numbers on other machines; ours come from a seed. */
#undef rand
#define rand(...) rand_is_banned__use_rng_next
#undef srand
#define srand(...) srand_is_banned__use_struct_rng
#undef random
#define random(...) random_is_banned__use_rng_next
#undef srandom
#define srandom(...) srandom_is_banned__use_struct_rng
#undef drand48
#define drand48(...) drand48_is_banned__use_rng_unit

#endif
