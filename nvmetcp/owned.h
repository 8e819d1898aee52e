/* SPDX-License-Identifier: MIT */
/*
 * owned - which controllers the supervisor made: only those does it ever remove, also after it was
 * started again.
 *
 * A name says little, since numbers are given again: a controller counts as long as the object in
 * /sys is the same one and leads where it was meant to. Its cntlid is kept for people: the target
 * gives another one at each reconnect.
 *
 * Before a connect its path is written down as expected, with the process that connects: what that
 * leaves if it is killed, with the supervisor or without, is found again. Nobody else's controller
 * may be taken for it later: the doubt ends with the process, and one look after that.
 *
 * Plain data of one boot; its owner's thread.
 */
#ifndef FM_NVMETCP_OWNED_H
#define FM_NVMETCP_OWNED_H

#include <stdbool.h>
#include <stdint.h>

#include "nvmetcp/inventory.h"
#include "nvmetcp/process.h"

struct fm_err;

/* Where a controller leads. The address is literal; its spelling does not matter. */
struct fm_owned_path {
	char subsystem[256];
	char address[80];
	char port[16];
};

struct fm_owned {
	struct fm_owned_path path;
	/* "": a connect is or was under way, and what came of it has not been seen */
	char controller[32];
	/* not said yet whether it made one: fm_owned_made() or fm_owned_forget() follows, or its
	 * process ends without a word */
	bool is_expected;
	bool is_doubtful;		/* ... it will not be said any more */
	bool is_over;			/* ... and the process had ended before the next look */
	/* ... but what was seen of it has gone, and nothing else is taken for it */
	bool is_spent;
	/* nobody has said that it made this one: it came while the process lived, and may be
	 * somebody else's */
	bool is_guessed;
	/* that connects, while that is expected; pid 0: an fmove-nvmed of before did not say */
	struct fm_process process;
	uint64_t id;			/* of the object in /sys; 0: not seen yet */
	int cntlid;
};

struct fm_owned_list {
	struct fm_owned *entry;
	unsigned count;
};

/* That process begins to connect this path. -ENOMEM, -EINVAL: a text is too long. */
int fm_owned_expect(struct fm_owned_list *list, const char *subsystem, const char *address,
		    const char *port, const struct fm_process *process, struct fm_err *err);

/* It has made this controller. */
void fm_owned_made(struct fm_owned_list *list, const struct fm_process *process,
		   const char *controller, int cntlid);

/* It has made none; the one that may be there is somebody else's. */
void fm_owned_forget(struct fm_owned_list *list, const struct fm_process *process);

/* It will not say what it has made: it was killed, or hangs. */
void fm_owned_doubt(struct fm_owned_list *list, const struct fm_process *process);

/*
 * Compares the list with the inventory: drops controllers that are gone, and finds those that were
 * expected. What is over (set by the caller before it had the inventory read) is found now, as a
 * guess, or dropped. Returns whether anything changed. A controller with another host NQN is never
 * ours.
 */
bool fm_owned_settle(struct fm_owned_list *list, const struct fm_inventory *inv,
		     const char *host_nqn);

/* The entry of this controller, or NULL. */
const struct fm_owned *fm_owned_find(const struct fm_owned_list *list,
				     const struct fm_inv_controller *c);

/* Whether two literal addresses are one, however they are spelt. */
bool fm_owned_is_same_address(const char *a, const char *b);

/* A JSON text, the caller's to free(); NULL: no memory. boot: the kernel's id of this boot. */
char *fm_owned_write(const struct fm_owned_list *list, const char *boot);

/*
 * *list is empty before. What is of another boot is left out: it has gone with it. -EINVAL: it is
 * no such text (the list is empty then), -ENOMEM.
 */
int fm_owned_read(struct fm_owned_list *list, const char *text, const char *boot,
		  struct fm_err *err);

/* Empties it. A zeroed one is allowed. */
void fm_owned_clear(struct fm_owned_list *list);

#endif
