/* SPDX-License-Identifier: MIT */
/*
 * nvme_sim - two to four real supervisors (nvmetcp/supervisor.h) over simulated kernels, disks,
 * networks and clocks, from one seed.
 *
 * One world at a time, `sim`. A step is one thing that happens: a pass of a daemon's loop, the
 * kernel's part of a helper's call, the end of such a call, a peer's answer that is made or
 * arrives, a misfortune. After each step what must hold is looked at (check.c). Time jumps from
 * step to step; of what is due at the same moment the seed chooses. One thread.
 */
#ifndef FM_TESTS_NVME_SIM_H
#define FM_TESTS_NVME_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/loop.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/process.h"
#include "nvmetcp/supervisor.h"

#define S FM_NS_PER_S
#define MS FM_NS_PER_MS
#define NODES_MAX 4
#define VOLUMES_MAX 2
#define CALLS_MAX 24
#define FILES_MAX 12

/* What may go wrong, or be asked for, in a seed. */
enum trouble {
	TROUBLE_RESTART,		/* the daemon is killed and starts again */
	/* the same in the midst of a step, at one of its next writes of state */
	TROUBLE_CRASH,
	TROUBLE_POWER,			/* a node's power is cut */
	TROUBLE_CONFIG,			/* one node's configuration names another writer */
	TROUBLE_CUT,			/* two nodes do not reach each other */
	TROUBLE_LOSS,			/* questions and answers are lost, or late */
	/* fmoved of a node does not answer its fmove-nvmed, nor peers */
	TROUBLE_DEAF,
	TROUBLE_LATE,			/* fmoved has no connections in its first seconds */
	TROUBLE_LOSE,			/* files of state vanish while the daemon does not run */
	TROUBLE_DAMAGE,			/* or are no JSON */
	TROUBLE_SAVE,			/* state cannot be written */
	/* helpers hang, and may do their work after their deadline */
	TROUBLE_HANG,
	TROUBLE_FAIL,			/* helpers fail */
	TROUBLE_SEAL,			/* a person seals and unseals */
	TROUBLE_WISH,			/* up, down, connected */
	TROUBLE_UNMOUNT,		/* a person unmounts, lazily or not */
	TROUBLE_FORCE,			/* a person says up --force, unseal --force, down --force */
	TROUBLE_FORGET,			/* a person forgets nodes that are off */
	TROUBLE_CLOCK,			/* Unix time jumps */
	TROUBLE_STALL,			/* a daemon does not get to run for a while */
	/* what a node has mounted cannot be read, for want of memory */
	TROUBLE_BLIND,
	/* a volume is taken out of one node's configuration, or comes back */
	TROUBLE_REMOVE,
	TROUBLES,
};

/* What a shared disk holds. */
struct disk {
	uint64_t content;		/* another one whenever somebody may have written */
	bool is_dirty;			/* mounted read-write, or not unmounted cleanly */
	bool is_lost;			/* what was written last, and its unmount told nobody */
	bool is_xfs;			/* else ext4 with multiple mount protection, which works */
	/* of a reservation: a host's number and one more; 0: nobody */
	unsigned holder;
	/* how often a host made itself known or unknown since the target has forgotten them */
	unsigned generation;
};

struct mounted {
	bool is_there, is_read_only;
	unsigned dev;
	uint64_t content;		/* of the disk when its cache was last empty */
	bool is_by_hand;		/* a person mounted it, whatever anybody says ... */
	bool is_elsewhere;		/* ... at another point than the volume's */
	bool is_told;			/* ... and its node has seen that, and says so ... */
	bool is_noted;			/* ... and has written it down, so that it is sealed anew */
	/* mounted to write, and another host has reserved it since it was prepared: the target
	 * refuses its writes ... */
	bool is_beaten;
	bool is_taken;			/* ... and its node has heard of that */
	/* ... or nobody can tell it: the target has forgotten that as well, or it was not written
	 * down */
	bool is_untold;
	/* mounted to read, and another node was let write beside it by force, or a person wrote
	 * unseen: it has old blocks */
	bool is_overruled;
	/* a bit for each node whose host id its node knew when it began to mount it */
	unsigned known_hosts;
};

struct device {
	unsigned dev;			/* minor; 0: not connected */
	uint64_t id;			/* of the controller */
	int cntlid;			/* another one whenever it has connected again */
	bool is_read_only;
	bool is_prepared;
	uint64_t content;		/* of the disk when it was prepared */
	struct mounted mount;
	/* out of the table of mounts, and it still has the device: to write its last bytes, or
	 * files are open */
	struct mounted left;
	uint64_t left_ns;		/* until then; FM_NEVER: until its unmount ends */
};

struct call {
	struct fm_helper *helper;	/* NULL: past its deadline, or its daemon is gone */
	struct fm_json *request;	/* NULL: this place is free */
	char key[400];
	struct fm_process process;
	unsigned volume;
	unsigned known_hosts;		/* when it began */
	bool is_orphan;			/* of a daemon that is gone */
	bool is_stuck;			/* in the kernel, SIGKILL or not */
	bool has_acted;
	/* act_ns FM_NEVER: it hangs until it is killed */
	uint64_t act_ns, answer_ns, deadline_ns;
	int code;
	struct fm_err err;
	struct fm_json *answer;
};

struct file {
	const char *name;		/* NULL: free */
	char *text;			/* NULL: none */
	char *durable;			/* what a power cut leaves */
	char *late;			/* for mutants.c: what was said to be written, and is not */
};

/* A question to one peer. */
struct question {
	/* when it is read there; FM_NEVER: it has been, or never is */
	uint64_t at_ns;
	bool is_answer_lost;
	struct fm_json *heard; /* NULL: nothing */
};

struct node {
	unsigned number;
	char name[8], nqn[80], id[40], boot[32];
	unsigned writer[VOLUMES_MAX];	/* by its configuration: a node's number */
	bool is_out[VOLUMES_MAX];	/* and it has no such volume at present ... */
	bool was_out[VOLUMES_MAX];	/* ... or had none when it told its peers last */
	bool has_power;
	uint64_t start_ns;		/* of the daemon, while it does not run */
	uint64_t booted_ns;
	int64_t wall_ms;		/* Unix time, less the world's */
	uint64_t stalled_ns;		/* its daemon does not run until then */
	uint64_t blind_ns;		/* what is mounted cannot be read until then */
	uint64_t deaf_ns, late_ns;	/* fmoved does not answer, has no connections, until then */
	bool is_save_broken;
	unsigned saves_left;		/* until it crashes; 0: it does not */
	/* killed in the midst of a step: nothing it does has an effect any more ... */
	bool is_dying;
	bool is_losing_power;		/* ... and its power goes then */

	struct fm_loop *loop;
	struct fm_clock clock;
	struct fm_supervisor_world world;
	struct fm_supervisor *sup;	/* NULL: the daemon does not run */
	struct device device[VOLUMES_MAX];
	struct call call[CALLS_MAX];
	struct file file[FILES_MAX];
	struct fm_json *published; /* the array; NULL: no file */
	bool is_asking;
	uint64_t answer_ns;
	struct question question[NODES_MAX];
	bool was_forgotten;		/* by a person, at some node */
	/* for mutants.c: force was said of the first volume while it was mounted */
	bool is_nothing_forced;
	bool is_held_lost;		/* held.json was lost or damaged */
	/* That one has it by hand, by its last answer. */
	bool has_heard_hand[NODES_MAX][VOLUMES_MAX];
	/* for mutants.c: what peers said, and the daemon was not told */
	bool is_heard_lost;
};

struct sim {
	uint64_t seed, random, now_ns, steps, hash;
	unsigned node_count, volume_count;
	struct node node[NODES_MAX];
	struct disk disk[VOLUMES_MAX];
	enum fm_volume_mode mode[VOLUMES_MAX];
	bool is_user[VOLUMES_MAX][NODES_MAX];	/* nodes whose configuration has it */
	bool has_nodes[VOLUMES_MAX];	/* which names them */
	bool has_hands;			/* people mount by hand in this seed */
	/* the target offers them, and forgets them when it restarts */
	bool has_reservations;
	bool is_cloned;			/* all nodes have one host id */
	bool was_by_hand[VOLUMES_MAX];	/* somebody did: that it is clean is not promised ... */
	bool is_hand_lost[VOLUMES_MAX];	/* ... nor that who reads it has that: a file was lost */
	/* a person took what may be lost upon himself: no two nodes are kept apart any more */
	bool is_forced[VOLUMES_MAX];
	bool has[TROUBLES];
	const struct plot *plot;	/* of scenario.c; NULL: none */
	bool is_cut[NODES_MAX][NODES_MAX];
	unsigned loss_percent, hang_percent, fail_percent;
	uint64_t next_id;
	bool is_calm;
	uint64_t writes;		/* of state, by all nodes */
	const char *crashed_at;		/* the file that sim_crash came at; NULL: it did not come */
	char violation[2048];		/* "": none */
};

extern struct sim sim;
extern bool sim_is_tracing;

/* How a node ends at a write of state. */
enum crash_how {
	CRASH_BEFORE,			/* its daemon is killed, and nothing is written */
	/* its power is cut, and it boots: of what is not synced a part is written */
	CRASH_TORN,
	CRASH_AFTER,			/* its daemon is killed, and all is written */
	CRASH_HOWS,
};

/* A crash beside those that the seed decides: nothing else of the seed is another one for it. */
struct crash {
	uint64_t write;			/* of all nodes' writes, from 1; 0: no crash */
	enum crash_how how;
};

extern struct crash sim_crash;

/* ---- scenario.c ---- */

/* Runs one seed; sim.violation says what it found. */
void sim_run(uint64_t seed);
uint64_t sim_chance(void);
uint64_t sim_below(uint64_t bound);
bool sim_is_one_in(unsigned percent);
void sim_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The first one counts. */
void sim_violate(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void sim_power_on(struct node *n);
/* A person seals or unseals, at that node. */
void sim_seal(struct node *n, unsigned volume, bool is_sealed);

/* ---- node.c: a daemon and its files ---- */

void node_init(struct node *n, unsigned number);
void node_start(struct node *n);
/* Its helpers die with it, but for those that the kernel holds. */
void node_kill(struct node *n);
void node_cut_power(struct node *n);
/* Before the daemon is called from outside of its loop: its clock. After it: whether it is to die
 * now. */
void node_enter(struct node *n);
void node_leave(struct node *n);
void node_configure(struct node *n);
void node_lose_files(struct node *n, bool is_damaged);
/* One of them, of a daemon that is gone. name: a constant of the supervisor. */
void node_lose_file(struct node *n, const char *name, bool is_damaged);
/* Whether a person has told it to forget that one, as its files say. */
bool node_has_forgotten(struct node *n, const struct node *other);
/* Everything of the last seed. */
void node_clear(struct node *n);

/* ---- kernel.c: devices, mounts, helpers ---- */

extern const char *const sim_volumes[VOLUMES_MAX];
extern const char *const sim_wwids[VOLUMES_MAX];
void kernel_fill_world(struct fm_supervisor_world *world);
void kernel_fill_volume(struct fm_volume *v, unsigned volume);
uint64_t kernel_next(const struct node *n, const struct call *c);
void kernel_step(struct node *n, struct call *c);
/* Whether its daemon waits for such a call. */
bool kernel_is_at(const struct node *n, unsigned volume, const char *call);
/* Such a call hangs in the kernel from here on, if it is not done yet. */
void kernel_hang(struct node *n, unsigned volume, const char *call);
/* Of the daemon, which is going. */
void kernel_kill_helpers(struct node *n);
void kernel_cut_power(struct node *n);
/* By whichever process, or it was and is not over. */
bool kernel_is_unmounting(const struct node *n, unsigned volume);
void kernel_unmount(struct node *n, unsigned volume);
/* What is out of the table of mounts has the device no more. */
void kernel_leave(struct node *n, unsigned volume);
/* To be written to: nothing of ours is asked. */
void kernel_mount_by_hand(struct node *n, unsigned volume);
void kernel_release(struct call *c);
/* All are connected again, and no reservation is left. */
void kernel_restart_target(unsigned volume);
/* Whether another host has reserved it: the target refuses what this node writes. */
bool kernel_is_taken(const struct node *n, unsigned volume);

/* ---- exchange.c: what nodes hear of each other ---- */

void exchange_fill_world(struct fm_supervisor_world *world);
void exchange_drop(struct node *n);
void exchange_read(struct node *n, unsigned peer);
void exchange_answer(struct node *n);

/* ---- check.c ---- */

void check_step(void);
/* Mounted read-only at this moment. */
void check_clean(const struct node *n, unsigned volume);
/* A call begins: none that leads to a mount, if this node has heard that it is mounted by hand. */
void check_heard(const struct node *n, unsigned volume, const char *call);
/* About to be mounted: what peers can read must say so. */
void check_said(const struct node *n, unsigned volume, bool is_read_write);
bool check_is_calm(bool is_last);
/* What people have mounted by hand is told, and is an alarm beside another writer. */
void check_hands(void);
/* No node goes on with a mount beside which another host had it reserved, if it could know. */
void check_stale(void);
/* A person does what a refusal asks for. */
void check_help(void);

/* ---- mutants.c: the code with a mistake in it ---- */

enum mutant {
	MUTANT_NONE,
	MUTANT_SILENCE_LIFTS,
	MUTANT_READERS_UNSEEN,
	MUTANT_DEAF_GUARD,
	MUTANT_UNSEALED_READERS,
	MUTANT_SAY_NOTHING_BEFORE,
	MUTANT_HUNG_FORGOTTEN,
	MUTANT_ORPHAN_FORGOTTEN,
	MUTANT_STRAY_FORGOTTEN,
	MUTANT_NEVER_LIFTS,
	MUTANT_SILENCE_PERMITS,
	MUTANT_KEEP_PERMISSION,
	MUTANT_SAME_NUMBER,
	MUTANT_UNHEARD_READERS,
	MUTANT_LOST_PERMITS,
	MUTANT_OWN_SEAL_UNASKED,
	MUTANT_SEAL_UNASKED,
	MUTANT_UNMOUNT_IS_OVER,
	MUTANT_LEFT_FORGOTTEN,
	MUTANT_REMOVED_FORGOTTEN,
	MUTANT_FORCE_STORED,
	MUTANT_HANDS_UNSEEN,
	MUTANT_ALARM_UNSEEN,
	MUTANT_TAKEN_AGAIN,
	MUTANT_SAME_HOST,
	MUTANT_MISSED,
	MUTANT_LOST_UNTOLD,
	MUTANT_SEAL_UNWATCHED,
	MUTANT_SAVED_LATE,
	MUTANTS,
};

extern enum mutant sim_mutant;
bool mutant_choose(const char *name);
void mutant_show_all(void);
void mutant_forget(void);
/* A bit for each node that is known at that one to have its host id. */
unsigned sim_known_hosts(const struct node *n);
/* This node, the writer, has unsealed it. */
void mutant_unsealed(struct fm_supervisor *sup, const char *volume);

#endif
