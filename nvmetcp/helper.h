/* SPDX-License-Identifier: MIT */
/*
 * helper - calls that can hang in the kernel (connect, disconnect, mount, a read of a device whose
 * target is gone), each in a process of its own with a deadline, so that the supervisor never
 * blocks.
 *
 * A helper is a fork of this process, which therefore must have no other thread. It has the request
 * as it stands in memory, and no descriptor but standard input, standard error and, as standard
 * output, a socket for its one answer, in JSON. It is not executed anew: loading a dozen libraries
 * takes longer than most calls. Past its deadline it gets SIGKILL; one that does not even die then
 * (D state) is left to the kernel, counted, and its volume's next call waits until it has gone, so
 * that there is never a second call for the same device beside a stuck one. A helper dies with the
 * supervisor. Loop thread only; the program must not ignore SIGCHLD nor wait for children that it
 * has not made, and must have 0, 1 and 2 open.
 *
 * What calls there are, and what each is asked and answers, is in helper_calls.h.
 */
#ifndef FM_NVMETCP_HELPER_H
#define FM_NVMETCP_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/json.h"


struct fm_err;
struct fm_loop;
struct fm_helpers;
struct fm_process;

#define FM_HELPERS_MAX 64		/* at once, stuck ones included */
/* beside them, of those that end what others hang in: two for each of so many volumes as may be */
#define FM_HELPERS_FREEING_MAX 512
#define FM_HELPER_ANSWER_MAX (256u << 10)
#define FM_HELPER_NAME "nvmed-helper"	/* of the process; its command line is the supervisor's */

/*
 * The owner's, zero-initialised with `done` set; it must stay until done() was called, which
 * happens exactly once for each fm_helper_start() that returned 0. `code` is 0 or a negative errno
 * with `text` one line; -ETIMEDOUT is the deadline, called up to a second after it (the SIGKILL is
 * given time), -EPROTO a helper that died, -EBADMSG and -EMSGSIZE one that answered nonsense.
 * `answer` is a borrowed JSON object; unless code is 0 it may be NULL.
 */
struct fm_helper {
	/*
	 * From inside fm_helper_start(), when the process is there and has not begun; it begins
	 * when this returns 0. An error ends it with nothing done, and is what fm_helper_start()
	 * returns. May be NULL.
	 */
	int (*begins)(struct fm_helper *helper, const struct fm_process *process,
		      struct fm_err *err);
	void (*done)(struct fm_helper *helper, int code, const char *text,
		     const struct fm_json *answer);
	/* The next call ends what others may hang in: it does not wait until they have ended. */
	bool is_freeing;
	/* The helpers': */
	struct fm_helper_run *run;
};

struct fm_helpers_opts {
	struct fm_loop *loop;
	/* what a helper does: answers on standard output, returns its exit status;
	 * fm_helper_main */
	int (*run)(struct fm_json *request);
};

int fm_helpers_new(const struct fm_helpers_opts *opts, struct fm_helpers **out, struct fm_err *err);

/*
 * Kills the helpers under way. Their done() is called with -ECANCELED before this returns, and must
 * start nothing. Waits for their end, a second at most. NULL is allowed.
 */
void fm_helpers_free(struct fm_helpers *helpers);

/*
 * `key` names what the call is about (a controller, a volume): a second call for one whose helper
 * is under way or stuck is refused with -EBUSY. request is borrowed, {"call": NAME, ...}. -EAGAIN:
 * FM_HELPERS_MAX are under way, or FM_HELPERS_FREEING_MAX of its kind.
 */
int fm_helper_start(struct fm_helpers *helpers, struct fm_helper *helper, const char *key,
		    struct fm_json *request, uint64_t timeout_ns, struct fm_err *err);

/*
 * Gives a helper up, as if its deadline had passed. done() follows, not from inside this call.
 * Nothing happens if it is not under way.
 */
void fm_helper_give_up(struct fm_helpers *helpers, struct fm_helper *helper);

/* Whether there is one whose key begins so: under way, or stuck. Its owner may have been told long
 * ago that it is over. */
bool fm_helper_is_any(const struct fm_helpers *helpers, const char *key);

/* How many have not died of their SIGKILL. */
unsigned fm_helpers_stuck(const struct fm_helpers *helpers);

/* Does what the request says and answers on standard output; takes keys out of the request. Returns
 * the exit status. */
int fm_helper_main(struct fm_json *request);

#endif
