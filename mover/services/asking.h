/* SPDX-License-Identifier: MIT */
/*
 * asking - one question to all peers, or to one: each that is connected is asked, what each says is
 * handed on as it comes, and when all were heard, or will not be, whoever asked hears that.
 *
 * Nobody is left out in silence: of a peer that is not connected, goes away, refuses, says too much
 * or does not answer in time, failed() says why. What comes later, or was never asked for, is
 * dropped.
 *
 * For services, which have a struct fm_asking each in their state (volumes, node_facts) and call it
 * in their functions of the same name. Control thread.
 */
#ifndef FM_ASKING_H
#define FM_ASKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/node/engine.h"
#include "mover/wire/wire.h"

struct fm_ask;
struct fm_session;

/* What is asked. */
struct fm_question {
	struct fm_share_limits places;	/* of all that ask at a time, by user */
	uint64_t timeout_ns;
	/* of a struct of the service's that begins with a struct fm_ask */
	size_t ask_bytes;
	uint64_t said_max;		/* of one node, as fm_ask_reply counts it */
	const char *said_what;		/* "says more than 5 volumes" */
	void (*send)(struct fm_session *s, uint64_t id);
	void (*answer)(struct fm_ask *ask, const char *node, const struct fm_wire_msg *m,
		       bool is_more);
	/* Nothing comes of that node, or nothing more. */
	void (*failed)(struct fm_ask *ask, const char *node, const struct fm_err *err);
	/* Once, last. Then the ask is freed. */
	void (*done)(struct fm_ask *ask);
};

struct fm_asking {
	const struct fm_question *question;
	struct fm_list asks;		/* fm_ask.at */
	unsigned count;
	struct fm_share places;
};

struct fm_asked {
	struct fm_session *session;	/* NULL: has answered, or never will */
	uint64_t id;
	uint64_t said;			/* so far */
};

/* begin (a task): peers that are connected are asked -> answer() as they come -> done(). */
struct fm_ask {
	struct fm_list at;		/* fm_asking.asks */
	struct fm_asking *asking;
	struct fm_engine *engine;
	char node[FM_WIRE_NAME_MAX + 1];	/* "": all of them */
	struct fm_share_held place;
	uint64_t deadline_ns;
	struct fm_task begin_task;
	struct fm_task done_task;
	bool is_over;
	unsigned count, waiting;
	struct fm_asked asked[FM_PEERS_MAX];
};

/* What a peer said. */
struct fm_ask_reply {
	uint64_t id;
	uint32_t code;			/* not 0: it refuses, with this text */
	struct fm_wire_str text;
	uint64_t said;			/* how much this message says */
	bool is_more;
};

void fm_asking_init(struct fm_asking *asking, const struct fm_question *question);

/*
 * Of every peer (node NULL), or of that one. *out has question->ask_bytes, zeros behind the ask;
 * nothing is called before the loop's next pass. uid: who asks. -ENOENT: there is no such peer;
 * -EBUSY: no place is left, or none for that user; -ENOMEM; -ECANCELED: we stop.
 */
int fm_asking_begin(struct fm_asking *asking, struct fm_engine *engine, uid_t uid,
		    const char *node, struct fm_ask **out, struct fm_err *err);

/* m came, which says that. */
void fm_asking_heard(struct fm_asking *asking, struct fm_session *s, const struct fm_wire_msg *m,
		     const struct fm_ask_reply *reply);

void fm_asking_session_lost(struct fm_asking *asking, const struct fm_session *s,
			    const struct fm_err *err);
void fm_asking_tick(struct fm_asking *asking, uint64_t now_ns);
/* All of them end with err. */
void fm_asking_stop(struct fm_asking *asking, const struct fm_err *err);
bool fm_asking_is_idle(const struct fm_asking *asking);

#endif
