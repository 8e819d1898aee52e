/* SPDX-License-Identifier: MIT */
/*
 * peer - what the files of the hostile peer share. See peer.c.
 */
#ifndef FM_TEST_HOSTILE_PEER_H
#define FM_TEST_HOSTILE_PEER_H

#include "mover/base/err.h"
#include "mover/base/loop.h"
#include "mover/transport/net.h"
#include "mover/wire/wire.h"
#include "staging/service/about.h"
#include "staging/service/landing.h"
#include "staging/service/lent.h"
#include "tests/hostile/odds.h"

#define TALKS_MAX 8	     /* control connections at once */
#define LINES_MAX 24	     /* data connections at once */
#define REGION	  (1u << 20) /* lent to each of these, twice: to write to, to send from */
#define SENDS_MAX 96	     /* under way on one of them */
#define IDS_MAX	  32	     /* numbers of transfers that were heard of */
#define DEEDS_MAX 8	     /* transfers of our own that we remember */
#define PACKS_MAX 4
#define MANNERS_GOOD (1u << 24) /* who lies by a script does nothing else */
#define STAGES_MAX 8	     /* staging runs that we say something of */

/* What is in a store that no hostile peer may read. */
#define SECRET "nobody but n2 and root"

struct lie;
struct peer;

/* A control connection. */
struct talk {
	struct peer *peer;
	struct fm_ctl *ctl; /* NULL: the place is free */
	struct fm_timer timer;
	bool is_dialled, is_open;
	bool has_lines;	  /* asked for data connections */
	bool is_mute;	  /* until its timer fires: the daemon may look for another way to us */
	/* as its dialler calls the session; 0: it has none that could change its connection */
	uint64_t session;
	uint64_t heard;	  /* messages of that session */
	unsigned manners; /* it does wrong one time in so many */
	uint64_t next_id;
};

/* A staging run, of the daemon or of ours. */
struct stage_run {
	bool is_used;
	uint8_t run[FM_WIRE_STAGE_RUN_LEN];
	struct fm_stage_about about;
	unsigned self, daemon;		  /* which nodes of it */
	uint32_t join, order;		  /* ours: of reports, of orders */
	uint32_t heard_join, heard_order; /* the daemon's */
	bool is_joined;			  /* it reports to us: */
	uint32_t joined;		  /* that report */
	uint32_t carried;		  /* the one to which the lie `carry` was told */
	unsigned step, orders, since;	  /* of that; ticks */
	uint64_t put;			  /* the transfer that carries it */
};

enum deed_state { DEED_NONE, DEED_ASKED, DEED_SENDING, DEED_SENT };

/* A transfer of our own that goes well for a while: so the daemon gets where the next wrong message
 * matters. */
struct deed {
	struct talk *talk;
	enum deed_state state;
	bool is_tree;
	uint64_t id;
	uint32_t chunk;
	uint64_t count, sent, acked; /* chunks */
	uint64_t bytes;
	bool is_exact;	/* as long as it was said to be */
	uint32_t parts; /* of the CRC of the whole */
};

struct line_send {
	struct fm_send send;
	struct line *line;
	bool is_used;
};

/* A data connection. */
struct line {
	struct peer *peer;
	struct fm_conn *conn; /* NULL: the place is free */
	struct fm_timer timer;
	struct fm_region rx, tx;
	uint8_t *memory;
	bool is_broken, is_closing;
	bool is_want_sent;
	unsigned manners;
	bool never_acks, never_returns;
	struct fm_grant grant; /* the last that came; generation 0: none */
	uint64_t busy;		  /* slots of it in which a chunk of ours is: a bit each */
	struct line_send sends[SENDS_MAX];
	unsigned under_way;
};

struct counts {
	uint64_t messages, data_messages;
	uint64_t talks, lines, strangers;
	uint64_t resumed; /* sessions that went on over another connection */
	uint64_t files, trees; /* transfers that the daemon said were done */
	uint64_t runs;	       /* of staging, that it told of */
	uint64_t asked;	       /* requests, puts and gets that it made of us */
	uint64_t ended;	       /* control connections that it ended */
};

struct peer {
	struct odds odds;
	struct fm_loop *loop;
	struct fm_net *net;
	struct fm_domain *domain;
	struct fm_ctl_dial dial; /* to the daemon */
	const char *name;
	uint16_t version;	 /* of the protocol, that it says it speaks */
	const struct lie *lie;	 /* what it does, and nothing else; NULL: anything */
	const char *of;		 /* of runs whose source has this path; NULL: of all */
	const char *job;	 /* what it calls runs; NULL: as no other id comes before */
	bool is_told;		 /* that it is connected */
	unsigned ticks;		 /* how often it told it */
	uint64_t run_ns;	 /* from its first session on; with a lie from the first run */
	uint64_t messages_max, until_ns;
	bool is_over;
	uint64_t resumes; /* said */
	uint64_t ids[IDS_MAX];
	unsigned id_count;
	struct talk talks[TALKS_MAX];
	struct line lines[LINES_MAX];
	struct deed deeds[DEEDS_MAX];
	struct stage_run stages[STAGES_MAX];
	bool is_exact;		 /* what it sends is */
	uint64_t done;		 /* the last transfer of ours that was */
	bool has_landing;
	char landing[FM_LANDING_PATH_MAX]; /* where the daemon awaits an extent of us */
	struct fm_timer dial_timer, stranger_timer;
	int strangers[4];
	struct counts counts;
};

static inline uint64_t after(const struct peer *p, uint64_t ns)
{
	return fm_loop_now(p->loop) + ns;
}

/* ---- words.c: control messages that an encoder takes ---- */

void word_any(struct peer *p, struct fm_wire_msg *m);
/* Something that a peer may ask for, under a number of its own. */
void word_request(struct talk *t, struct fm_wire_msg *m);
/* A put that goes well; false: enough are under way. */
bool word_deed(struct talk *t, struct fm_wire_msg *m);
/* What a peer would answer; false: nothing. */
bool word_answer(struct talk *t, const struct fm_wire_msg *in, struct fm_wire_msg *m);
uint64_t any_id(struct peer *p);
void remember(struct peer *p, uint64_t id);

/* ---- stages.c: of staging runs ---- */

void stage_word(struct talk *t, struct fm_wire_stage *m);
void stage_hear(struct talk *t, const struct fm_wire_stage *in);

/* ---- lies.c: the same, by a script ---- */

/* NULL: there is no such lie. */
const struct lie *lie_find(const char *name);
/* Says it of all runs that were heard of. */
void lie_tell(struct talk *t);

/* ---- peer.c ---- */

void talk_say(struct talk *t, const struct fm_wire_msg *m);
bool peer_is_over(struct peer *p);

/* ---- lines.c: data connections ---- */

void line_dial(struct talk *t, const uint8_t token[FM_TOKEN_LEN]);
void line_new(struct peer *p, struct fm_conn *conn);

#endif
