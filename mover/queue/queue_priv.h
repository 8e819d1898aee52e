/* SPDX-License-Identifier: MIT */
/*
 * queue_priv - what the parts of the queue share: queue.c, queue_run.c (from its place to its end),
 * queue_measure.c (how much an update brings), queue_attended.c, queue_dir.c (on disk),
 * queue_deadline.c (--timeout over a restart).
 */
#ifndef FM_QUEUE_PRIV_H
#define FM_QUEUE_PRIV_H

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "mover/base/share.h"
#include "mover/base/worker.h"
#include "mover/queue/queue.h"

struct fm_store_ref;

/* of one job on disk: what fits a request, each byte escaped as six */
#define FM_QUEUE_FILE_BYTES_MAX (320u << 10)

/* how long an end is told to nobody, and a job accepted for nobody, because its file does not come
 * to be written */
#define FM_QUEUE_SAVE_NS (20 * FM_NS_PER_S)

/*
 * What a try asks of the file system of our end may take for ever. So long it keeps the place of
 * its job; so long a job that is told to end waits for the thread that does it.
 */
#define FM_QUEUE_OPEN_NS (10 * FM_NS_PER_S)
/* ... and so long one that is not accepted yet; clients wait for 60 s for a word */
#define FM_QUEUE_PROBE_NS (30 * FM_NS_PER_S)
#define FM_QUEUE_LEAVE_NS FM_NS_PER_S

#define FM_QUEUE_BOOT_LEN 32		/* digits of the number of a boot of the kernel */

/* The deadline of a job as it is written down: queue_deadline.c. */
struct fm_queue_deadline {
	uint64_t at_ns;			/* of the loop's clock; 0: none */
	char boot[FM_QUEUE_BOOT_LEN + 1];	/* whose clock that is; "": not known */
	uint64_t left_ns;		/* when it was written */
	int64_t at_ms;			/* since 1970, as the wall clock was then */
};

/* What is not to run out. */
struct fm_queue_shares {
	struct fm_share jobs;		/* that have not ended */
	struct fm_share bytes;
	struct fm_share fds;		/* jobs that hold a descriptor */
	/* jobs that have a caller's directory, or move one of a store */
	struct fm_share trees;
	struct fm_share attended;	/* jobs that hold a client's connection */
	struct fm_share running;	/* places */
	struct fm_share prompt;		/* jobs that run without one */
	struct fm_share lingering;	/* files of jobs that are over */
};

/* What one user has here. */
struct fm_queue_user {
	struct fm_list at;		/* queue->users */
	uid_t uid;
	unsigned jobs;			/* all of his that are here */
	unsigned kept;			/* of these those that have ended */
};

/* The priorities by whose turn it is. */
extern const enum fm_queue_priority fm_queue_ranks[FM_QUEUE_PRIORITY_COUNT];

struct fm_queue {
	struct fm_queue_config c;
	struct fm_list jobs;		/* by seq */
	struct fm_list pending[FM_QUEUE_PRIORITY_COUNT];	/* QUEUED, by seq */
	struct fm_list prompts;		/* QUEUED, but only until the next pass */
	struct fm_list users;
	unsigned kept;
	struct fm_queue_counts counts;	/* without those of now */
	struct fm_queue_shares shares;
	uint64_t next_seq;
	uint64_t ranked_ns;		/* when `before` of the pending ones was counted */
	struct fm_task kick;
	char boot[FM_QUEUE_BOOT_LEN + 1];
	int dir;			/* -1: no detached jobs, no_dir says why */
	int lock;
	struct fm_err no_dir;
	bool is_stopping;
	bool is_worker_gone;		/* it has ended all; what comes is done on the loop */
	struct fm_log_limit lines;	/* of what cannot be written down */
};

/* A transfer that is over, but the file of which a holder still closes: that may take for ever, and
 * the engine has it until then. */
struct fm_queue_lingering {
	struct fm_queue *queue;
	struct fm_share_held place;
};

/* One go at it, from opening our end to the engine's done(). */
struct fm_queue_try {
	struct fm_work work;
	void (*done)(struct fm_work *work);	/* what follows it */
	bool is_at_work;		/* it is with a worker, or waits for one */
	bool is_closing;		/* what it does there cannot be left out */
	/* its job has ended without it: its thread may stand for ever, and has the job's options */
	bool is_left;
	struct fm_queue_job *job;
	struct fm_queue_lingering *lingering;	/* for its file, should a holder have that */
	struct fm_store_ref *store;
	struct fm_holder *holder;	/* of fd and journal; NULL: they are ours */
	/* they are the job's: open_run() takes others of the same */
	bool is_dup;
	int fd;
	int journal;
	struct fm_file *file;		/* until it is the engine's */
	struct fm_attr attr;
	bool is_seen;			/* open_run() came to look at what fd is, ... */
	bool is_whole;			/* ... it is a file from its start, ... */
	bool is_prompt;			/* ... it goes at its other end's pace, ... */
	bool is_refused;		/* ... or cannot be taken, by any try */
	int ret;
	struct fm_err err;
	struct fm_job_result result;	/* while it is compared, see queue_run.c */
	struct fm_attr far;
};

struct fm_queue_job {
	struct fm_list at;
	struct fm_list pending_at;
	struct fm_list watches;
	struct fm_queue_watch *submitter;	/* NULL: accepted and told, or gone */
	struct fm_queue *queue;
	struct fm_queue_user *user;
	char id[FM_QUEUE_ID_LEN + 1];
	uint64_t seq;
	enum fm_queue_state state;
	bool is_accepted;
	bool is_told;			/* so */
	bool is_prompt;			/* starts at once, takes no place */
	bool is_unseen;			/* it began, and nobody has looked at its file yet */
	/*
	 * o.fd was a file at its start when it was looked at: its position is not asked again,
	 * which a try, and whoever else has the description, may move
	 */
	bool is_whole;
	bool has_place;			/* held.place, of either kind */
	struct {			/* of queue->shares, for its user */
		struct fm_share_held job, bytes, fd, tree, attended, place;
	} held;
	bool is_abandoned;		/* its caller went away: paused, for a while */
	/* attended: all of it is there, its caller gives it its name */
	bool is_naming;
	bool has_gone_far;		/* an earlier try may have given the target its name */
	bool is_sent;			/* a try went to the engine; written down before ... */
	bool is_noting;			/* ... which is being done, and the try waits for it */
	bool is_found;			/* attended: o.fd is the file that has the target's name */
	struct fm_queue_opts o;		/* its strings are in text */
	char *text;
	size_t bytes;			/* of the whole in memory */
	unsigned tries;
	unsigned before;
	int64_t created_ms;
	int64_t ended_ms;		/* of an abandoned one: since when */
	uint64_t kept_until_ns;		/* of what ended, and of an abandoned one that is paused */
	uint64_t deadline_ns;		/* 0: none */
	struct fm_queue_deadline noted;	/* the same, as it was written down last */
	uint64_t started_ns;		/* the try that runs, or ran last */
	struct fm_retry retry;
	uint64_t again_ns;		/* WAITING ... */
	uint64_t soonest_ns;		/* ... and not before, though the peer be back */
	uint64_t late_ns;		/* of what is at work: it is done without then */
	uint64_t save_late_ns;		/* FM_QUEUE_SAVE_NS are over; 0: nobody waits for that */
	struct fm_timer timer;		/* the first of those that have one to wait for */
	struct fm_queue_try *try;	/* of the probe too; NULL: none */
	struct fm_job *job;		/* the engine's */
	struct fm_queue_lingering *lingering;	/* of its file, while the engine has that */
	bool is_asked;			/* how much room there is */
	bool is_measuring;		/* what runs is a dry run, to learn how much will come */
	bool is_measured;		/* it said so, of an update of a store's directory: ... */
	uint64_t will_come;		/* ... so many bytes */
	int end_code;			/* it was told to end; 0: not */
	bool is_end_kept;
	int code;			/* of the last failure ... */
	char *why;			/* ... and its text; NULL: none */
	struct fm_job_result *result;	/* DONE, detached; is_naming */
	struct fm_task tell;
	struct fm_work save;		/* to the directory, or away from it */
	char *save_text;
	/* what is being saved is its end, or that it was told to end: it must not begin again */
	bool is_end_saved;
	/* it has ended, and that is not on disk yet: nobody is told so long, and it shows as one
	 * that runs */
	bool is_end_unsaved;
	/* who cancelled it, and waits until that is on disk */
	struct fm_list cancels;
	int save_ret;
	int remove_ret;			/* of its file */
	struct fm_err save_err;
	bool is_saving;
	bool is_dirty;			/* to be saved once more */
	bool is_forgotten;		/* its file goes, then it */
};

/* queue.c */
/* NULL: no memory */
struct fm_queue_job *fm_queue_job_new(struct fm_queue *q, const struct fm_queue_opts *opts);
void fm_queue_job_free(struct fm_queue_job *j);
/* It shows to nobody any more; whoever lets go of it last frees it: its file, its thread, its
 * task. */
void fm_queue_job_drop(struct fm_queue_job *j);
/* It shows to nobody any more, nor counts among those that are known. */
void fm_queue_set_forgotten(struct fm_queue_job *j);
void fm_queue_close_fds(struct fm_queue_opts *o);
/* seq is set: into its place among the others */
void fm_queue_job_add(struct fm_queue_job *j);
bool fm_queue_has_ended(const struct fm_queue_job *j);
void fm_queue_set_why(struct fm_queue_job *j, int code, const char *text);
/* What state it is in for those who look. */
enum fm_queue_state fm_queue_shown(const struct fm_queue_job *j);
int64_t fm_queue_now_ms(void);

/* ended_ms is set, now or by what a file says: how long it is kept. That is of the loop's clock, so
 * setting the other one loses no job, nor keeps one for ever. */
void fm_queue_keep(struct fm_queue_job *j);

/* queue_deadline.c */
void fm_queue_boot_read(char boot[static FM_QUEUE_BOOT_LEN + 1]);
void fm_queue_deadline_note(struct fm_queue_job *j);
/* How long a request of the job may take: `most`, or what is left to the job if that is less. */
uint64_t fm_queue_deadline_within(const struct fm_queue_job *j, uint64_t most_ns);
/* From what was noted. */
void fm_queue_deadline_restore(struct fm_queue_job *j);

/* queue.c */
const char *fm_queue_paused_text(const struct fm_queue_job *j);	/* why it is, and what to do */
/* On the worker, that of holder if there is one; without one at once when the worker is gone. A
 * queue that stops gives it work as before: what hangs must not keep the loop, which has the time
 * that a stop may take. */
void fm_queue_work(struct fm_queue *q, struct fm_holder *holder, struct fm_work *work);
void fm_queue_prune(struct fm_queue *q, struct fm_queue_user *user);
void fm_queue_count_end(struct fm_queue_job *j);
struct fm_share_id fm_queue_who(const struct fm_queue_job *j);
/* It has what its options have: a descriptor, a caller's directory, a client's connection. */
void fm_queue_hold(struct fm_queue_job *j);

/* Whether both move the same between the same ends. */
bool fm_queue_is_like(const struct fm_queue_opts *a, const struct fm_queue_opts *b);
/* It cannot go on: a thread still has what it was when it ended. -EBUSY. */
int fm_queue_still_there(const struct fm_queue_job *j, struct fm_err *err);
/* It counts among those that have not ended once more. */
void fm_queue_revive(struct fm_queue_job *j);
/* A job of his, or -ENOENT with a text. */
int fm_queue_find_for(struct fm_queue *q, const char *id, uid_t who, struct fm_queue_job **out,
		      struct fm_err *err);
/* A directory of the caller's, ready to be used. */
bool fm_queue_is_callers_tree(const struct fm_queue_opts *o);
void fm_queue_watch_as_submitter(struct fm_queue_job *j, struct fm_queue_watch *watch);

/* queue_attended.c */
int fm_queue_attended_check(const struct fm_queue_opts *o, struct fm_err *err);
/* The job that o is to go on with; NULL: none. -ENOENT, -EALREADY, -EINVAL. */
int fm_queue_attended_find(struct fm_queue *q, const struct fm_queue_opts *o,
			   struct fm_queue_job **out, struct fm_err *err);
/* It goes on as o says, whose descriptors or file it has then. -ENOMEM: nothing has changed. */
int fm_queue_attended_again(struct fm_queue_job *j, const struct fm_queue_opts *o);
/* Whether a try that ended with code says that the client is gone, before its connection does; it
 * is abandoned then. */
bool fm_queue_has_lost_client(struct fm_queue_job *j, int code);
/* from its caller, when all of it is there */
bool fm_queue_needs_name(const struct fm_queue_job *j);
/* so it is */
void fm_queue_let_name(struct fm_queue_job *j, const struct fm_job_result *result);

/* queue_run.c */
/* a new one: look at its end, then accept it */
void fm_queue_probe(struct fm_queue_job *j);
void fm_queue_accepted(struct fm_queue_job *j);		/* it is on disk, if that is wanted */
void fm_queue_enqueue(struct fm_queue_job *j);		/* QUEUED from here on */
void fm_queue_kick(struct fm_queue *q);
void fm_queue_kick_run(struct fm_task *task);
void fm_queue_timer_fire(struct fm_timer *timer);
/* The queue stops: a job that waits for a place with its file open has it closed. */
void fm_queue_close_opened(struct fm_queue_job *j);
/* That it is sent is written down, or cannot be. */
void fm_queue_noted(struct fm_queue_job *j);
void fm_queue_end(struct fm_queue_job *j, enum fm_queue_state state,
		  const struct fm_job_result *result);
/* the same without a result */
void fm_queue_fail(struct fm_queue_job *j, int code, const char *text);
void fm_queue_fail_as(struct fm_queue_job *j, const struct fm_err *err);
void fm_queue_end_with(struct fm_queue_job *j, int code, bool is_kept, const char *reason);
void fm_queue_tell_run(struct fm_task *task);
/* All of a job that has ended is on disk, or cannot be: who watches it is told. */
void fm_queue_end_saved(struct fm_queue_job *j);
/* Those who cancelled it hear what became of that; err NULL: it is on disk. */
void fm_queue_cancels_said(struct fm_queue_job *j, const struct fm_err *err);

/* queue_measure.c */
/* Our end of a put is open. true: the far end is asked how much room it has, and
 * fm_queue_room_said() follows. */
bool fm_queue_asks_room(struct fm_queue_job *j);
void fm_queue_room_said(struct fm_queue_job *j);
/* What ran has ended so. true: our end is to be opened once more. */
bool fm_queue_measures(struct fm_queue_job *j, const struct fm_job_result *result);

/* queue_dir.c */
void fm_queue_dir_open(struct fm_queue *q);		/* and reads what is there */
void fm_queue_dir_close(struct fm_queue *q);
/* a detached one: accepted, or failed, when it is written */
void fm_queue_save(struct fm_queue_job *j);
/* Whether it was told to end, for good: so its file says, from the next time on. */
bool fm_queue_is_ending(const struct fm_queue_job *j);
/* Its end is not written down in FM_QUEUE_SAVE_NS: it is told all the same, and that, too. One that
 * was to be accepted ends. */
void fm_queue_save_late(struct fm_queue_job *j);
void fm_queue_forget(struct fm_queue_job *j);		/* ended: away with it, its file too */

/* queue_json.c */
/* One job as the text of its file; -EMSGSIZE. Terminated. */
int fm_queue_encode(const struct fm_queue_job *j, char *buf, size_t cap);
/* A job that is in no list yet. -EINVAL, -ENOMEM. */
int fm_queue_decode(struct fm_queue *q, const char *id, const char *text, size_t len,
		    struct fm_queue_job **out, struct fm_err *err);

#endif
