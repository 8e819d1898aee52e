/* SPDX-License-Identifier: MIT */
/*
 * supervisor_priv - what the parts of the supervisor share. supervisor.c looks and chooses steps,
 * supervisor_calls.c carries them out, supervisor_keep.c sees when the target must be asked anew,
 * supervisor_where.c knows where volumes are, supervisor_peers.c what nodes say, supervisor_nodes.c
 * which they are, supervisor_alarm.c when two of them write, supervisor_begun.c what hangs in the
 * kernel, supervisor_held.c which devices are not free yet, supervisor_left.c what is not
 * configured any more, supervisor_state.c keeps files, supervisor_show.c tells.
 */
#ifndef FM_NVMETCP_SUPERVISOR_PRIV_H
#define FM_NVMETCP_SUPERVISOR_PRIV_H

#include "mover/base/env.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "nvmetcp/guard.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/owned.h"
#include "nvmetcp/peers.h"
#include "nvmetcp/process.h"
#include "nvmetcp/supervisor.h"

/* numbers of seals are lower: what the numbers of JSON hold everywhere */
#define FM_SUPERVISED_EPOCH_MAX (INT64_C(1) << 53)
/* in the upper half of them: by how much one answer raises what is known, at most */
#define FM_SUPERVISED_EPOCH_STEP 65536
#define FM_SUPERVISED_WHY_MAX 512
#define FM_SUPERVISED_OWNED_MAX 32
/* devices of one volume; more than one only without native multipath */
#define FM_SUPERVISED_HELD_MAX 8
/* of this fmove-nvmed, and of those before it */
#define FM_SUPERVISED_BEGUN_MAX (2 * FM_HELPERS_MAX)

/* How long a thing that failed is left alone. */
struct fm_hold {
	unsigned failures;		/* in a row */
	uint64_t until_ns;
};

struct fm_supervised_path {
	char host[80];			/* literal; "": not resolved yet */
	char port[8];
	struct fm_hold hold;
};

enum fm_supervised_call {
	FM_CALL_NONE,
	FM_CALL_CONNECT,
	FM_CALL_DISCONNECT,
	FM_CALL_PROBE,			/* these five are one mount */
	FM_CALL_XFS_STATE,
	FM_CALL_PEERS,			/* no helper's */
	FM_CALL_PREPARE,
	FM_CALL_MOUNT,
	FM_CALL_RESTORE,		/* after a mount that came to nothing */
	FM_CALL_UNMOUNT,
	FM_CALL_KEEP,			/* of what is mounted */
	FM_CALL_UNUSED,			/* of what is not mounted any more */
};

/* The addresses of a volume, which a helper asks for beside the steps. */
struct fm_supervised_where {
	struct fm_helper helper;
	bool is_busy;
	bool is_discovering;		/* else a name is looked up */
	bool is_outdated;		/* the addresses were configured anew meanwhile */
	unsigned at;			/* which of the configured addresses */
	struct fm_hold hold;
	char literal[80], port[8];	/* of the discovery controller that is asked ... */
	struct fm_process process;	/* ... by this helper process */
};

enum fm_supervised_state {
	FM_STATE_DOWN,
	FM_STATE_WAITING,
	FM_STATE_CONNECTING,
	FM_STATE_CONNECTED,
	FM_STATE_MOUNTING,
	FM_STATE_MOUNTED,
	FM_STATE_UNMOUNTING,
	FM_STATE_DISCONNECTING,
	FM_STATE_REFUSED,
	FM_STATE_DEGRADED,
};

/*
 * The facts, besides the configuration, that a refusal rests on. When they change, the volume is
 * looked at again.
 */
struct fm_supervised_facts {
	dev_t dev;
	uint64_t size_bytes;
	bool is_read_only;
	char wwid[160];
	uint64_t peers_version;
};

/* A file of state: an object with an entry for each volume, also for those that are not configured
 * at present. */
struct fm_state_file {
	const char *name;
	struct fm_json *entries; /* as they were written last, or read */
	/* the last write failed: the file may have what was to be written all the same */
	bool is_in_doubt;
};

/* A volume that is called something else now. Names may move along, or in a circle. */
struct fm_renamed {
	const char *from, *to;
};

/* What peers are told of a volume, besides its configuration. */
struct fm_supervised_word {
	uint64_t epoch;
	char wwid[160];
	/* else the volume is left out: no longer configured, nor mounted */
	bool is_said;
	bool is_mounted, is_read_write, is_sealed;
	/* For fmoved of this node alone: */
	/* what is at the mount point, and stays there for now; 0: nothing */
	dev_t device;
	uint64_t mounted_epoch;		/* ... of which seal that is; 0: of none */
	char written_by[FM_PEER_NAME_MAX + 1];	/* another node has it read-write; "": none */
};

/* At the writer. */
enum fm_seal {
	FM_SEAL_OPEN,
	FM_SEAL_WANTED,
	FM_SEAL_DONE,
};

/* A mount or an unmount that a helper process is at, or was at when fmove-nvmed was restarted. */
struct fm_begun {
	struct fm_process process;
	char name[FM_VOLUME_NAME_MAX + 1], subsystem[224], wwid[160];
	bool is_read_write;
	uint64_t epoch;			/* the highest number that was known then */
	bool is_inherited;		/* an earlier fmove-nvmed began it */
	bool is_over;			/* it has ended, before the look that is under way */
};

/* A device that a file system may have: see supervisor_held.c. */
struct fm_held {
	dev_t dev;
	char name[32], wwid[160];
	bool is_read_write;
	/* itself, or what is made of it is there, at the last look */
	bool is_mounted;
	/* ... and is what the volume is taken for, and all that is seen of it is read-only */
	bool is_seen_read_only;
};

/* A controller that a look found live. */
struct fm_supervised_live {
	uint64_t id;
	/* the target gives it anew with each connection, often the same again */
	int cntlid;
};

struct fm_supervised {
	struct fm_list link;
	struct fm_supervisor *sup;
	struct fm_volume *volume;	/* a copy of its own */
	bool is_retired;		/* no longer configured: taken down, then forgotten */
	enum fm_plan_want want;
	bool is_forced;
	bool is_fresh;			/* its wish or configuration is newer than the last look */

	struct fm_supervised_where where;
	struct fm_supervised_path path[FM_VOLUME_PATHS_MAX];
	unsigned path_count;

	struct fm_plan plan;		/* of the last look */
	unsigned plan_path;		/* index into path of plan.address */

	struct fm_helper helper;
	enum fm_supervised_call call, begins;	/* under way; about to be so */
	struct fm_owned_path connecting;	/* FM_CALL_CONNECT ... */
	struct fm_process connector;		/* ... by this helper process */
	bool is_lazy;			/* FM_CALL_UNMOUNT */
	bool is_gone;			/* FM_CALL_UNMOUNT: of a device that is no more */
	/* FM_CALL_UNMOUNT, FM_CALL_RESTORE: the device is to be writable afterwards */
	bool is_read_write_asked;
	/* a mount has failed: the device is left as it was, once it and its unit rest */
	bool is_restore_due;
	/* the same: the target is to keep it for this host no more */
	bool is_release_asked;
	bool is_release_tried;		/* since it was mounted, or something else was wished */
	/* what is dirty was written out before a lazy unmount, or could not be */
	bool is_sync_tried;
	/* FM_CALL_UNMOUNT: it is to be sealed, so it is unmounted only if all is written */
	bool is_seal_written;
	struct fm_inv_namespace ns;	/* what is being mounted, as it was identified last */
	struct fm_superblock sb;	/* and what is on it; type "" until it was read */
	uint64_t sb_sum;		/* fm_superblock_sum() of the bytes that it was read from */
	bool has_sb;
	struct fm_guard_answer how;	/* FM_CALL_PREPARE: what the guard said */

	struct fm_hold mount_hold, unmount_hold, disconnect_hold;
	/* until the kernel is told to look for its namespace (again) */
	struct fm_hold blind_hold;
	uint64_t lost_ns;		/* since when its device has no live path; 0: it has one */
	/* of its namespace, at the last look */
	struct fm_supervised_live live[FM_INV_PATHS_MAX];
	unsigned live_count;
	/* the target was away since it was asked: what it keeps for us is to be taken again */
	bool is_keep_due;
	bool is_reservation_asked;	/* FM_CALL_KEEP: that; else write protection */
	struct fm_hold keep_hold;
	unsigned hung_unmounts;		/* in a row: also those that were refused as busy */
	bool is_refused;		/* by the guard */
	bool is_waiting;		/* that is: it waits for words of peers */
	/* names of those; NULL: it is not known who they are, or nobody */
	struct fm_json *waits_for;
	bool is_mount_forced;		/* the next one that writes, by a person */
	/* names of nodes that answered then, or have since; NULL: none */
	struct fm_json *spoken;
	bool is_nothing_forced;		/* the last time that was said it was mounted already */
	bool is_unreservable;		/* the target was asked, and has reserved nothing */
	struct fm_supervised_facts refused_facts;
	char refusal[FM_SUPERVISED_WHY_MAX];
	bool is_iopolicy_refused;	/* this kernel does not know it */

	/* Of supervisor_peers.c: */
	struct fm_supervised_word word;
	/* Peers are told that it is about to be mounted, or may be by a helper that hangs, or is
	 * being unmounted, which writes to it. */
	bool is_announced;
	/* by one that hangs, or unmounts: so that it can be written to */
	bool is_left_read_write;
	/* FM_CALL_PEERS: the first of the supervisor's asks that will do */
	uint64_t ask_wanted;
	enum fm_seal seal;		/* sealed.json; the writer's */
	/* ... DONE: `sb_sum` of what was sealed, which every mount that writes changes; else of an
	 * earlier one, or it is not known */
	uint64_t sealed_sum;
	bool has_sealed_sum;
	/* ... OPEN: why it was not sealed, though that was wanted; "": it was not, or long ago */
	char unsealed_why[FM_SUPERVISED_WHY_MAX];
	/* ... WANTED: it was mounted read-write here since then, so nobody else wrote. Not kept:
	 * over a restart others may be at it. */
	bool is_written;
	/*
	 * ... WANTED: an unmount of what was written has begun, and nobody has heard yet whether
	 * all of it came to the device. Who restarts in the midst of that never hears.
	 */
	bool is_unheard;
	/* ... with `epoch`, which is the writer's own; else it takes one */
	bool has_number;
	/* the highest number of a seal or an unseal that this node made, or heard of its writer */
	uint64_t epoch;
	/* by peer: when its higher number was followed last, for how long no other one is, and
	 * since when it asks for that; NULL: none */
	struct fm_json *raised;
	/* names of nodes that have it, or are silent and had it; NULL: none */
	struct fm_json *readers;
	bool are_readers_lost;		/* any node that is silent may have it */
	uint64_t mounting_epoch;	/* FM_CALL_PREPARE, FM_CALL_MOUNT */

	bool is_said_mounted;		/* peers can read that it is */
	/*
	 * a reader: the number of the first question whose answer lets it mount a sealed volume; 0:
	 * none yet
	 */
	uint64_t hears_from;
	bool is_heard_now;		/* the writer has answered such a one */
	bool is_seen_written;		/* a reader: somebody has it to write, at the last look */

	/* Of supervisor_held.c: */
	struct fm_held held[FM_SUPERVISED_HELD_MAX];
	unsigned held_count;
	/* This device, and those with a higher number, did not fit into held; 0: all did. */
	dev_t cut_dev;
	char cut_wwid[160];		/* of that wwid; "": of any of the subsystem's */
	bool is_cut_read_write;
	/* what its devices were when it was first looked at is in held */
	bool is_found;
	bool is_unit_in_doubt;		/* systemd may be mounting it yet ... */
	bool is_unit_read_write;	/* ... to be written to */
	/* FM_CALL_UNUSED: which is tried; 0: only the unit is asked */
	dev_t unused_dev;
	struct fm_hold unused_hold;
	char in_use_why[FM_SUPERVISED_WHY_MAX];	/* of the last try */

	/* Of supervisor_left.c: */
	bool is_noted;			/* held.json has its word, or one that says more */
	/* what it had when fmove-nvmed ran last, until the first look finds that; "": nothing */
	char left_wwid[160];
	bool is_left_written;		/* ... to write to it */
	/* ... of these devices, which the kernel may have no more */
	struct fm_plan_device left[FM_SUPERVISED_HELD_MAX];
	unsigned left_count;

	/* Of supervisor_alarm.c: */
	/* a peer that has it read-write while this node has; "": none */
	char second_writer[FM_PEER_NAME_MAX + 1];
	unsigned second_writer_heard;	/* how often in a row */
	uint64_t alarm_again_ns;	/* when it is said again */

	/* Of supervisor_nodes.c: */
	/* the first of the supervisor's asks whose answers permit anything; 0: none yet */
	uint64_t answers_from;
	/* names of nodes that have answered such a one; NULL: none */
	struct fm_json *answered;

	/* What people are told. */
	/* mounted, and a controller that is not as configured has come; "": none */
	char unfit[FM_PLAN_WHY_MAX];
	enum fm_supervised_state state;
	char text[FM_SUPERVISED_WHY_MAX];
	uint64_t since_ms, since_ns;
	char error[FM_SUPERVISED_WHY_MAX];	/* the last one; "" after success */
	uint64_t error_ms;
	unsigned tries;			/* failures in a row */
	/* what succeeded, and how often a controller of it has connected again */
	uint64_t mounts, connects, reconnects;

	/* mounted.json */
	char last_wwid[160];
	uint64_t last_size_bytes;
	/* of what is mounted, or was last; 0: not sealed, or not known */
	uint64_t mounted_epoch;
	bool has_heard;			/* a reader: what its writer said last, at `epoch`: ... */
	bool is_heard_sealed;		/* ... sealed; else it may write */
	/* a reader: somebody has had it here to write, and its writer does not know yet */
	bool is_untold_written;
	/* whose device was writable and has been, or is to be, set read-only by us; "": none */
	char read_only_wwid[160];
	/* and the target does so for us, or is to: of the writer, what is sealed */
	bool is_write_protected;
	bool is_protect_confirmed;	/* it said so; without that it may all the same */
	/* the target keeps it for this host, or is to: of what is mounted read-write */
	bool is_reserved;
	/* nothing is written down of what is mounted, so it may: it is asked */
	bool is_reserved_unknown;
	bool is_keep_asked;		/* ... which it is asked anew at this moment ... */
	/* ... or was, for what is mounted, and nobody has heard what it said */
	bool is_doubtful;
	/* ... but another host had it meanwhile: it is not asked for again, and this mount ends */
	bool is_taken;
	/* ... of which the file system here writes nothing more; or nobody can say */
	bool is_shut_down, is_shutdown_failed;
	bool is_too_small;		/* smaller than when it was mounted, and mounted */
};

struct fm_supervisor {
	struct fm_loop *loop;
	const struct fm_supervisor_world *world;
	const struct fm_random *random;
	void (*changed)(void *ctx);
	void *ctx;
	char *node, *host_nqn, *host_id;
	struct fm_list volumes;		/* struct fm_supervised */
	struct fm_owned_list owned;
	char *owned_text;		/* as it is in the file; NULL: not known */
	struct fm_state_file wishes, mounted, sealed, nodes;
	char *heard_text;		/* what peers said, as it is in the file; NULL: not known */
	bool is_heard_in_doubt;		/* the last write of that failed */
	/* Of supervisor_begun.c: */
	struct fm_begun begun[FM_SUPERVISED_BEGUN_MAX];
	unsigned begun_count;
	/* what an earlier fmove-nvmed began: its file is not there, or makes no sense */
	bool is_begun_unknown;
	bool was_begun_unknown;		/* so at the start */
	/* ... but nothing of it is left, as of the look that is under way */
	bool is_begun_known_now;
	/* Of supervisor_left.c: */
	/* what was mounted here when fmove-nvmed ran last, until it is compared with the
	 * configuration */
	struct fm_json *left;
	char *held_text;		/* as it is in the file; NULL: not known */
	/* what is mounted here and of no volume, at the last look */
	struct fm_json *used_strangers;
	/* that, and what volumes held when they were others: told */
	struct fm_json *strangers;
	bool is_too_much_said;		/* with all that, peers are told more than they take */
	struct fm_inventory *inv;	/* of the last look; NULL before */
	struct fm_mounts mounts;
	bool has_world_error;
	unsigned discoveries;		/* helpers that ask discovery controllers */
	struct fm_helper sweeper;	/* removes a discovery controller that a helper has left */
	bool is_sweeping;
	struct fm_hold sweep_hold;
	struct fm_timer timer;		/* the next look */
	struct fm_task look;
	struct fm_peers peers;		/* as they answered last */
	/* a node that is this host to targets; "": none is known */
	char same_host[FM_PEER_NAME_MAX + 1];
	uint64_t peers_version;		/* one more whenever they say something else */
	bool has_listed;		/* fmoved has named its peers, since the start */
	uint64_t asks_begun, asks_done;
	bool is_asking, is_ask_wanted;
	struct fm_timer ask_timer;
	/* peers can be told each volume's `word`, and the configuration is the one of then */
	bool is_published;
	bool has_publish_error;
	bool is_stopped;
	bool is_closed;			/* all volumes are to be down */
	uint64_t closed_ns, force_ns;	/* since when, and from when on by force */
};

/* ---- supervisor.c ---- */

/* NULL: there is none. Of several the one that is configured now. */
struct fm_supervised *fm_supervisor_find(const struct fm_supervisor *sup, const char *name);

/* One that is configured no more: it is taken down, then forgotten. NULL: no memory. */
struct fm_supervised *fm_supervisor_add_retired(struct fm_supervisor *sup,
						const struct fm_volume *volume);

/* Sets or ends a person's force: the next mount does not wait for nodes that are silent. */
void fm_supervised_force_mount(struct fm_supervised *v, bool is_forced);

/* While force is in effect: notes which nodes answer. Force does not overrule them. */
void fm_supervised_note_speakers(struct fm_supervised *v);

/* Something else is wanted of it: nothing is held, and a look follows. */
void fm_supervised_refresh(struct fm_supervised *v);

/* Look as soon as the loop comes round. */
void fm_supervisor_look_soon(struct fm_supervisor *sup);

/* It failed: left alone for a while, longer each time, at most max_s; never shorter than min_s. */
void fm_hold_failed(struct fm_supervisor *sup, struct fm_hold *hold, unsigned min_s,
		    unsigned max_s);
/* It worked: and should it be wanted again at once, then not within a second. */
void fm_hold_worked(struct fm_supervisor *sup, struct fm_hold *hold);
bool fm_hold_is_on(const struct fm_supervisor *sup, const struct fm_hold *hold);

/* Its namespace as the last look saw it; NULL: there was none, or no look yet. */
const struct fm_inv_namespace *fm_supervised_ns(const struct fm_supervised *v);

/* What the volume is wanted to be: the wish, or down if all volumes are to be down. */
enum fm_plan_want fm_supervised_want(const struct fm_supervised *v);
/* While it is being mounted: whether its mount unit has the permission to do it, too. */
bool fm_supervised_is_for_unit(const struct fm_supervised *v);
/* Whether it is unmounted although it is in use. */
bool fm_supervised_is_forced(const struct fm_supervised *v);

/* Keeps the error for people, and says it in the log unless it is the same as before. */
void fm_supervised_error(struct fm_supervised *v, const char *text);
void fm_supervised_worked(struct fm_supervised *v);

/* A former volume of this name that is still there; of several, each waits for those before it
 * only. NULL: none. */
const struct fm_supervised *fm_supervised_blocker(const struct fm_supervised *v);

/* ---- supervisor_calls.c: each starts a call, or holds what could not be started ---- */

void fm_supervised_connect(struct fm_supervised *v, unsigned path);
void fm_supervised_disconnect(struct fm_supervised *v, const struct fm_inv_controller *c);
void fm_supervised_mount(struct fm_supervised *v, const struct fm_inv_namespace *ns);
void fm_supervised_unmount(struct fm_supervised *v, const struct fm_mount *mount);
void fm_supervised_release(struct fm_supervised *v, const struct fm_inv_namespace *ns);
void fm_supervised_keep(struct fm_supervised *v, const struct fm_inv_namespace *ns);
/* Nothing has its device: what a mount that failed has changed of that is undone, if it is due. */
void fm_supervised_restore(struct fm_supervised *v);

/* Starts a call about this device, 0: about none; request is taken over, NULL is no memory for it.
 * An error is kept for people. */
int fm_supervised_begin_on(struct fm_supervised *v, enum fm_supervised_call call, dev_t dev,
			   struct fm_json *request, uint64_t timeout_ns);

/* How the keys of all calls begin that are about a device of this volume. */
void fm_supervised_device_keys(const struct fm_supervised *v, char *key, size_t size);

/* FM_CALL_PEERS has ended. */
void fm_supervised_peers_asked(struct fm_supervised *v);

/* ---- supervisor_keep.c ---- */

/* In each look, with its plan: whether a controller is live that was not at the last one. */
void fm_supervised_note_live(struct fm_supervised *v);

/*
 * In each look, after the devices in use: once a mount is over and its device free, it does not
 * matter any more that another host had the reservation.
 */
void fm_supervised_end_taken(struct fm_supervised *v);

/* Whether the target is to be asked now to keep it, again. */
bool fm_supervised_is_keep_due(const struct fm_supervised *v);

/* Whether it does so, as far as is known. */
bool fm_supervised_is_kept(const struct fm_supervised *v);

/* ---- supervisor_peers.c ---- */

/* Whether it is to be mounted read-write here: this node is the writer, and it is not sealed. */
bool fm_supervised_is_writable(const struct fm_supervised *v);

/* Whether another node that is this host to targets has it mounted, or may have: what that one has
 * reserved this one would give back. */
bool fm_supervised_is_host_shared(const struct fm_supervised *v);

/* Which namespace it is, or was last; "": not known. */
const char *fm_supervised_wwid(const struct fm_supervised *v);

/* Whether that is the same namespace. */
bool fm_supervised_is_same(const struct fm_supervised *v, const char *wwid, const char *name,
			   const char *subsystem);
bool fm_supervised_is_meant(const struct fm_supervised *v, const struct fm_peer_volume *p);

/*
 * What each peer said of the volume last. The caller frees *out with free(); its texts are
 * borrowed. -ENOMEM.
 */
int fm_supervised_guard_peers(const struct fm_supervised *v, struct fm_guard_peer **out,
			      unsigned *count);

/* Begins to ask the peers again and again, unless it has. */
void fm_supervisor_ask(struct fm_supervisor *sup);

/* Says that it is about to be mounted, then asks: FM_CALL_PEERS. */
int fm_supervised_ask(struct fm_supervised *v);

/* In each look: a writer without a number takes one, and waits for the readers. */
void fm_supervised_settle_number(struct fm_supervised *v);
bool fm_supervised_has_number(const struct fm_supervised *v);

/* What peers can read now is new to them. Whether the writer's word must be heard anew. */
bool fm_supervised_said(struct fm_supervised *v);

/* In each look: what was announced is taken back once that look would see it if it were mounted,
 * and no helper is left to do it. */
void fm_supervised_settle_word(struct fm_supervised *v);

/* In each look, with its plan: sealed, and written to here all the same. */
void fm_supervised_watch_seal(struct fm_supervised *v);

/* What was sealed has been written to since, so that readers would have old blocks of it: it is
 * sealed anew, with another number. */
void fm_supervised_seal_anew(struct fm_supervised *v, const char *why);
/* Whether `sb_sum` is not that of what was sealed. */
bool fm_supervised_is_other_than_sealed(const struct fm_supervised *v);

/* Tells peers what is here, if it has changed. What cannot be told is said in the log. */
int fm_supervisor_publish(struct fm_supervisor *sup);

/* Why what is mounted read-only must be unmounted, because of a seal or of what peers are told;
 * NULL: it need not be. */
const char *fm_supervised_leave_why(const struct fm_supervised *v,
				    char why[static FM_PLAN_WHY_MAX]);

/* It was to be sealed, and is not fit for that: it is open again, and people are told why. */
void fm_supervised_end_seal(struct fm_supervised *v, const char *why);
/* ... since nobody hears any more what an earlier fmove-nvmed was told when it wrote that out. */
void fm_supervised_end_restarted_seal(struct fm_supervised *v);

/* Before an unmount that writes what is to be sealed, and when it was heard how that ended. What
 * cannot be written down is an error. */
int fm_supervised_note_unheard(struct fm_supervised *v, bool is_unheard, struct fm_err *err);

/* It was unmounted and is clean, and nobody here can write to it: if it is to be sealed, it is
 * now. */
int fm_supervised_sealed(struct fm_supervised *v, struct fm_err *err);

void fm_supervised_show_peers(const struct fm_supervised *v, struct fm_json *to);

/* ---- supervisor_nodes.c ---- */

/* Whether the volume waits for that node's word. */
bool fm_supervised_counts(const struct fm_supervised *v, const char *node);
/* Whether it has answered since its peers know what the configuration says now. */
bool fm_supervised_has_answered(const struct fm_supervised *v, const char *node);
/* Why nobody can say which nodes count; "": those that are known do. */
const char *fm_supervised_peers_why(const struct fm_supervised *v);

bool fm_supervised_is_forgotten(const struct fm_supervised *v, const char *node);
/* Since when, in Unix time, in any volume; 0: it is not. */
uint64_t fm_supervisor_forgotten_ms(const struct fm_supervisor *sup, const char *node);
/* Not by one that is configured no more. */
void fm_supervised_end_forgetting(struct fm_supervised *v);
void fm_supervisor_end_forgetting(struct fm_supervisor *sup, const char *volume);
/* Volumes are called something else: who is forgotten there is forgotten under that name. */
void fm_supervisor_rename_forgotten(struct fm_supervisor *sup, const struct fm_renamed *names,
				    unsigned count);
/* The same at a start, perhaps once more: where nothing has that name, all stays. */
void fm_supervisor_take_forgotten(struct fm_supervisor *sup, const char *from, const char *to);
/* At the start of a volume: what was forgotten is so no more if the writer is another one now. */
void fm_supervised_check_forgetting(struct fm_supervised *v);

/* After each answer of fmoved. Whether somebody has spoken for the first time. */
bool fm_supervisor_note_nodes(struct fm_supervisor *sup);
/*
 * Everything that this node says can be read by peers now, so answers to questions from here on may
 * permit. Returns whether the peers are to be asked now.
 */
bool fm_supervisor_answers_begin(struct fm_supervisor *sup);
/*
 * Something that a peer said is lost, and it may forbid the mount: each peer must answer once more.
 */
void fm_supervised_void_answers(struct fm_supervised *v);
/* Something else is configured: what was heard permits nothing more. */
void fm_supervised_drop_answers(struct fm_supervised *v);

/* ---- supervisor_begun.c ---- */

/* At the start: what the file says. */
void fm_supervisor_recall_begun(struct fm_supervisor *sup);
/* An id that could not be read may be this one's. */
bool fm_supervisor_is_of_another_boot(const struct fm_supervisor *sup, const char *boot);
/* Synced, before that process begins to mount or unmount it. What cannot be written down is an
 * error. */
int fm_supervised_note_begun(struct fm_supervised *v, const struct fm_process *process,
			     bool is_read_write, struct fm_err *err);
/* In each look: before mounts are read, which processes have ended; and after that what they were
 * at is seen. */
void fm_supervisor_watch_begun(struct fm_supervisor *sup);
void fm_supervisor_settle_begun(struct fm_supervisor *sup);
/* Whether what an earlier fmove-nvmed began may mount it yet, or write to it. */
bool fm_supervised_is_left_hanging(const struct fm_supervised *v, bool *is_read_write);
/*
 * Adds the begun mounts of volumes that are not configured here to what peers are told. False:
 * there was no memory for some of them.
 */
bool fm_supervisor_say_begun(const struct fm_supervisor *sup, struct fm_json *all);

/* ---- supervisor_held.c ---- */

/*
 * It is mounted, or about to be, until it is seen to be free. False: too many are already, and it
 * counts as in use until it was tried.
 */
bool fm_supervised_hold(struct fm_supervised *v, const struct fm_inv_namespace *ns,
			bool is_read_write);
/*
 * Whether it or a partition of it is mounted, or something is made of it, which may be mounted
 * anywhere; and perhaps to write.
 */
bool fm_supervisor_is_used(const struct fm_supervisor *sup, const struct fm_inv_namespace *ns,
			   bool *may_write);
/* Of the device or a partition of it. */
bool fm_supervisor_is_mount_of(const struct fm_mount *m, const struct fm_inv_namespace *ns);
/* The namespace that it is all of, as the last look saw it; NULL: the kernel has it no more. */
const struct fm_inv_namespace *fm_supervisor_device_of(const struct fm_supervisor *sup,
						       const struct fm_mount *m);
/* Whether at this look something has a device of it that can write: by whomever, wherever. */
bool fm_supervised_is_seen_written(const struct fm_supervised *v);
/* A mount was begun that systemd may go on with. */
void fm_supervised_doubt_unit(struct fm_supervised *v, bool is_read_write);
/* In each look, before its plan: what an earlier fmove-nvmed has left, if that is not held yet. */
void fm_supervised_hold_left(struct fm_supervised *v);
/* In each look, with its plan: at the first one its devices may be held from before; and at each
 * which are mounted. */
void fm_supervised_hold_found(struct fm_supervised *v);
void fm_supervised_watch_held(struct fm_supervised *v);
/* Whether peers are to be told that it is mounted, because of this. */
bool fm_supervised_is_held(const struct fm_supervised *v, bool *is_read_write);
/* Whether peers are told that it is written to, and all that is to be seen of it is read-only. */
bool fm_supervised_is_overstated(const struct fm_supervised *v);
/* Whether something may have a device of it although no mount is to be seen; and what was found, ""
 * if that is not known yet. */
bool fm_supervised_is_in_use(const struct fm_supervised *v);
const char *fm_supervised_in_use_why(const struct fm_supervised *v);
/* Begins to look whether it is free, if that is due. Whether it was. */
/*
 * After a look: a device that an unconfigured volume held may be the namespace of a configured
 * volume now. That volume then takes it over, tries whether it is free, and tells peers. Otherwise
 * it would never be free here once that volume has mounted it.
 */
void fm_supervised_hand_over(struct fm_supervised *v);
/* Says for users what has the device of a volume. text stays as it is if nothing is seen. */
void fm_supervised_show_use(const struct fm_supervised *v, char *text, size_t size);
bool fm_supervised_check_unused(struct fm_supervised *v);
void fm_supervised_unused_done(struct fm_supervised *v, int code, const char *text);

/* ---- supervisor_left.c ---- */

/* Before peers are told: which volumes they are told to be mounted. What cannot be written down is
 * an error. */
int fm_supervisor_note_held(struct fm_supervisor *sup, struct fm_err *err);
/* At the start: what an earlier fmove-nvmed has noted. */
void fm_supervisor_recall_left(struct fm_supervisor *sup);
/* Which volume was mounted by that name. Borrows, until the next call for what is left. */
bool fm_supervisor_find_left(const struct fm_supervisor *sup, const char *name,
			     struct fm_volume *volume, const char **wwid);
/* It is no volume: a namespace that was mounted by hand, and may not be free yet. */
bool fm_supervised_is_stranger(const struct fm_supervised *v);
/* Looks for mounted namespaces that belong to no volume. Returns whether they changed. */
bool fm_supervisor_watch_strangers(struct fm_supervisor *sup);
/* Adds those to what peers are told. False: there was no memory for some of them. */
bool fm_supervisor_say_strangers(struct fm_supervisor *sup, struct fm_json *all);
#define FM_SUPERVISOR_SAID_MAX (FM_PEERS_EACH_MAX - 1)	/* beside the host */
#define FM_SUPERVISOR_TOO_MUCH \
	"more than %d volumes and namespaces are to be told to peers, which take none of them " \
	"then, and wait for this node: unmount what is mounted here by hand"
/* With the first configuration: what of that it does not name is taken down. -ENOMEM: to be called
 * again. */
int fm_supervisor_take_left(struct fm_supervisor *sup, const struct fm_supervisor_config *config);
/* After that, when its volumes are there: they hold what they had. */
void fm_supervisor_give_left(struct fm_supervisor *sup);

/* ---- supervisor_alarm.c ---- */

/* After each answer of fmoved: whether a peer has it read-write, too. Whether that is another
 * answer than before. */
bool fm_supervised_watch_writers(struct fm_supervised *v);
/* A peer that has it read-write, or had when it was heard last; NULL: none. */
const struct fm_peer_volume *fm_supervised_other_writer(const struct fm_supervised *v);
bool fm_supervised_has_alarm(const struct fm_supervised *v);
/* The text of the alarm, with what to do; "": there is none. */
void fm_supervised_show_alarm(const struct fm_supervised *v, char *text, size_t size);

/* ---- supervisor_where.c ---- */

/* The paths that are known without asking. before (NULL: new): what is known stays if the addresses
 * are the same. */
void fm_supervised_where_set(struct fm_supervised *v, const struct fm_volume *before);

/* Asks if it is time to. Returns when the next time is, FM_NEVER if an answer is awaited or nothing
 * is to be asked. */
uint64_t fm_supervised_where_ask(struct fm_supervised *v);

/* Removes what discoveries have left, one at a time; a look follows. */
void fm_supervisor_sweep(struct fm_supervisor *sup);

/* ---- supervisor_state.c ---- */

int fm_supervisor_load(struct fm_supervisor *sup, struct fm_err *err);
/* These save files of state. An error goes to the log. */
void fm_supervisor_save_owned(struct fm_supervisor *sup);
int fm_supervisor_save_wish(struct fm_supervisor *sup, const struct fm_supervised *v,
			    struct fm_err *err);
int fm_supervisor_save_mounted(struct fm_supervisor *sup, const struct fm_supervised *v);
int fm_supervisor_save_seal(struct fm_supervisor *sup, const struct fm_supervised *v,
			    struct fm_err *err);
/* Another one writes: what stands there says nothing any more. */
void fm_supervised_forget_seal(struct fm_supervised *v);
/* What peers said last. */
void fm_supervisor_save_heard(struct fm_supervisor *sup);
/* Which nodes there are, if they are not written down yet. */
int fm_supervisor_save_nodes(struct fm_supervisor *sup);
/* The record that we set a device read-only, written down before it is done and gone when it is
 * writable again. */
void fm_supervised_note_read_only(struct fm_supervised *v, const char *wwid);
/* Volumes are called something else: what the files say of them is of those names. What the files
 * said of a volume that had such a name before is given away. */
void fm_supervisor_rename_state(struct fm_supervisor *sup, const struct fm_renamed *names,
				unsigned count);
/* A new object: those entries, under such names. NULL: no memory. */
struct fm_json *fm_supervisor_rename_all(const struct fm_json *entries,
					 const struct fm_renamed *names, unsigned count);
/* Writes the file if its last write failed. An error leaves that so. */
int fm_supervisor_settle_file(struct fm_supervisor *sup, struct fm_state_file *file,
			      struct fm_err *err);
/* Wish and last mount, from what the files say. */
void fm_supervised_recall(struct fm_supervised *v);
void fm_supervisor_forget_state(struct fm_supervisor *sup);

/* ---- supervisor_names.c ---- */

/* Another volume has got the name: puts the entry into all, beside those of names, where it waits
 * until its volume is configured again. What does not say of which volume it is, is dropped.
 * -ENOMEM. */
int fm_supervisor_give_away(struct fm_json *all, const char *name, const struct fm_json *entry);
/* The key under which that is. NULL: the file has nothing of the volume there. It holds as long as
 * the entry. */
const char *fm_supervisor_find_given(const struct fm_state_file *file,
				     const struct fm_volume *volume);
/* NULL: no volume of that name is configured. It is the configuration's. */
const struct fm_volume *fm_supervisor_find_named(const struct fm_supervisor_config *config,
						 const char *name);
/*
 * With each configuration, before its new volumes are added: what the files say of a volume that
 * has another name now is of that name, whether it was mounted or not, also after a boot. What an
 * fmove-nvmed of before wrote says from here on which volume it is of.
 */
void fm_supervisor_take_names(struct fm_supervisor *sup, const struct fm_supervisor_config *config);

/* Whether the entry says that it is of another volume. An fmove-nvmed of before said nothing. */
bool fm_supervisor_is_of_another(const struct fm_json *entry, const struct fm_volume *volume);

/* ---- volumes (supervisor_state.c) ---- */

/* A copy in one block, to be free()d; NULL: no memory. */
struct fm_volume *fm_volume_copy(const struct fm_volume *from);
/* Whether they mean the same namespace at the same place. */
bool fm_volume_is_same_thing(const struct fm_volume *a, const struct fm_volume *b);
/* Whether they mean the same subsystem and mount point. */
bool fm_volume_is_same_place(const struct fm_volume *a, const struct fm_volume *b);
/* Whether the configuration says by now, as people are told to say it, that it is the namespace of
 * that wwid, at the same place. */
bool fm_volume_is_named_by_now(const struct fm_volume *now, const struct fm_volume *was,
			       const char *wwid);
/* Whether it is the volume that had that wwid, as it was configured then: either of the two. */
bool fm_volume_is_it_now(const struct fm_volume *now, const struct fm_volume *was,
			 const char *wwid);
/* ... under whichever name. */
bool fm_supervisor_is_configured(const struct fm_supervisor_config *config,
				 const struct fm_volume *was, const char *wwid);
/* Whether the configuration says that it is another namespace than the one of that wwid. */
bool fm_volume_is_no_wwid(const struct fm_volume *volume, const char *wwid);
/* ... or than the one that was configured then, and had that wwid: wherever either is mounted. */
bool fm_volume_is_other_namespace(const struct fm_volume *now, const struct fm_volume *was,
				  const char *wwid);

/* ---- supervisor_show.c ---- */

const char *fm_supervised_state_name(enum fm_supervised_state state);
/* State and text, from the plan, the call under way and what is held. */
void fm_supervised_update(struct fm_supervised *v);
bool fm_supervised_is_as_wanted(const struct fm_supervised *v);

#endif
