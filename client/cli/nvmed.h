/* SPDX-License-Identifier: MIT */
/*
 * nvmed - requests to fmove-nvmed, the supervisor of volumes, over its socket: one JSON object per
 * message, one request at a time.
 *
 * Every call has an end: connecting never waits, and an answer is waited for until a deadline.
 * A connection belongs to one thread.
 */
#ifndef FM_CLIENT_NVMED_H
#define FM_CLIENT_NVMED_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;
struct fm_json;
struct fm_nvmed;

#define FM_NVMED_SOCKET "/run/fmove-nvmed/nvmed.sock"
#define FM_NVMED_MESSAGE_MAX (256u << 10)	/* bytes */

struct fm_nvmed_request {
	const char *op;			/* "status", "up", ... */
	const char *volume;		/* NULL, as the others: not said */
	const char *node;
	const char *address;
	const char *port;
	const char *host_address;
	const char *host_interface;
	bool has_timeout;
	/* how long fmove-nvmed waits for what is wanted; 0: not at all */
	uint64_t timeout_ms;
	bool is_forced;
	bool is_for_unit;		/* up: until systemd may mount it */
	bool is_all;			/* up and down: every volume */
	bool has_force_after;
	uint64_t force_after_ms;	/* down of all: how long what is in use is waited for */
};

/*
 * path NULL or "": FMOVE_NVMED_SOCKET from the environment, or FM_NVMED_SOCKET. -ECONNREFUSED:
 * nobody is there; -EACCES: not for you; -EBUSY: too many ask already; -ENOMEM and others.
 */
int fm_nvmed_connect(const char *path, struct fm_nvmed **out, struct fm_err *err);

/* NULL is allowed. */
void fm_nvmed_close(struct fm_nvmed *nvmed);

/*
 * Ask, and wait for the answer until wait_ms are over. 0 and the "done" message, which the caller
 * frees; or what fmove-nvmed refused with, -ETIMEDOUT, -ECONNRESET, -EPROTO (no answer of this
 * protocol), -EMSGSIZE. After those four the connection is only good for closing.
 */
int fm_nvmed_ask(struct fm_nvmed *nvmed, const struct fm_nvmed_request *request, uint64_t wait_ms,
		 struct fm_json **done, struct fm_err *err);

/* The answer of the last request as it came; until the next one. */
const char *fm_nvmed_answer(const struct fm_nvmed *nvmed);

/* Why a restart of fmove-nvmed forgets what the last request wished, also where the answer was an
 * error; "": it does not, or nothing was wished. Until the next request. */
const char *fm_nvmed_not_remembered(const struct fm_nvmed *nvmed);

#endif
