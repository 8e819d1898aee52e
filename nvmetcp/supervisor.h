/* SPDX-License-Identifier: MIT */
/*
 * supervisor - keeps volumes as they are wanted: looks at what there is, has the plan made, takes
 * one step for each volume and looks again.
 *
 * It decides little itself: plan.h says what is missing, guard.h whether a volume may be mounted,
 * the kernel reconnects. Its own are patience (how soon what failed is tried again), ownership
 * (owned.h) and what people are told. It never makes a call that can block on a device: it sees the
 * machine through struct fm_supervisor_world, whose calls only read or set what is in the kernel's
 * memory, or are done by a helper process. Loop thread only.
 */
#ifndef FM_NVMETCP_SUPERVISOR_H
#define FM_NVMETCP_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/json.h"
#include "nvmetcp/plan.h"
#include "nvmetcp/volume.h"

struct fm_err;
struct fm_helper;
struct fm_inv_controller;
struct fm_inventory;
struct fm_loop;
struct fm_mounts;
struct fm_peers;
struct fm_process;
struct fm_random;
struct fm_supervisor;

/* Files of state, each written whole. */
#define FM_SUPERVISOR_OWNED "owned.json"	/* of this boot; a power cut may take it */
/* mounts and unmounts that helper processes are at, of this boot */
#define FM_SUPERVISOR_BEGUN "begun.json"
/* what peers are told to be mounted here, of this boot */
#define FM_SUPERVISOR_HELD "held.json"
#define FM_SUPERVISOR_WISHES "wishes.json"
/* of volumes that this node writes: sealed or not, and the epoch */
#define FM_SUPERVISOR_SEALED "sealed.json"
/* what peers said last, which forbids until they say otherwise */
#define FM_SUPERVISOR_HEARD "peers.json"
/* who was ever a peer, and who of them is forgotten */
#define FM_SUPERVISOR_NODES "nodes.json"
#define FM_SUPERVISOR_MOUNTED "mounted.json"	/* what each volume was when it was mounted last */
/* of each; peers.json, with all that peers can say, has fewer */
#define FM_SUPERVISOR_STATE_BYTES_MAX (16u << 20)

/* All that it knows of the machine. */
struct fm_supervisor_world {
	int (*read_inventory)(void *ctx, struct fm_inventory **out, struct fm_err *err);
	int (*read_mounts)(void *ctx, struct fm_mounts *out, struct fm_err *err);
	/* As fm_inventory_settings(). */
	void (*read_settings)(void *ctx, const char *controller, struct fm_inv_settings *out);
	/* As fm_helper_start(). */
	int (*start)(void *ctx, struct fm_helper *helper, const char *key, struct fm_json *request,
		     uint64_t timeout_ns, struct fm_err *err);
	/* As fm_helper_give_up(). */
	void (*give_up)(void *ctx, struct fm_helper *helper);
	/* As fm_helper_is_any(). */
	bool (*has_helper)(void *ctx, const char *key);
	/* As fm_process_may_live(). */
	bool (*may_live)(void *ctx, const struct fm_process *process);
	/* Whether there may be a helper process of an fmove-nvmed before this one. */
	bool (*may_stray)(void *ctx);
	/* -EINVAL: this kernel does not know that policy. */
	int (*set_iopolicy)(void *ctx, const char *subsystem, const char *policy,
			    struct fm_err *err);
	/* As fm_connection_rescan(). */
	void (*rescan)(void *ctx, const char *controller);
	/* *text is malloc()ed. -ENOENT: there is none. */
	int (*load)(void *ctx, const char *name, char **text, struct fm_err *err);
	int (*save)(void *ctx, const char *name, const char *text, bool is_durable,
		    struct fm_err *err);
	/* What peers may know of the volumes here: a JSON text, for fmoved. */
	int (*publish)(void *ctx, const char *text, struct fm_err *err);
	/* fm_supervisor_peers() follows once for each, in seconds, never from inside; there is
	 * never more than one. */
	void (*ask_peers)(void *ctx);
	uint64_t (*wall_ms)(void *ctx);		/* Unix time, for people only */
	const char *boot;			/* the kernel's id of this boot */
	void *ctx;
};

struct fm_supervisor_opts {
	struct fm_loop *loop;
	const struct fm_supervisor_world *world;	/* outlives it */
	const struct fm_random *random;
	void (*changed)(void *ctx);	/* after each look, never from inside a call; may be NULL */
	void *ctx;
};

/* What the configuration says. Copied. */
struct fm_supervisor_config {
	const char *node;
	const char *host_nqn, *host_id;		/* a pair */
	const struct fm_volume *volumes;
	unsigned count;
};

/* Reads the files of state; one that makes no sense is said in the log and taken for empty. */
int fm_supervisor_new(const struct fm_supervisor_opts *opts, struct fm_supervisor **out,
		      struct fm_err *err);

/*
 * Takes the place of what was configured before. A volume that is no longer named, or has become
 * another one (subsystem, namespace, mount point), is taken down first. It is the same one where it
 * says by now which namespace it has, or has a name that none had; that not while something of it
 * is under way. -ENOMEM: no volume is changed.
 */
int fm_supervisor_set(struct fm_supervisor *sup, const struct fm_supervisor_config *config,
		      struct fm_err *err);

/* Something may have changed: look soon. */
void fm_supervisor_wake(struct fm_supervisor *sup);

/*
 * This controller ("nvme3") has connected, for the first time or again; NULL: some may have.
 * Between two looks it may have lost its target, which may have lost what it kept for us.
 */
void fm_supervisor_connected(struct fm_supervisor *sup, const char *controller);

/*
 * Sets what a volume is wanted to be; this survives a restart. is_forced with FM_WANT_DOWN: it is
 * unmounted even if it is in use; so is what is taken down since it is no longer configured like
 * that. is_forced with FM_WANT_UP: silent nodes and what they said before do not count for the next
 * mount; this is not written down. -ENOENT: there is no such volume, or it is no longer configured
 * and is to be anything but down. If the wish cannot be written down that is an error, but the wish
 * is in force.
 */
int fm_supervisor_wish(struct fm_supervisor *sup, const char *volume, enum fm_plan_want want,
		       bool is_forced, struct fm_err *err);

/*
 * Down with all volumes, whatever is wished, until fm_supervisor_open(): for the end of the
 * machine, so it is not remembered. What is in use is unmounted by force when force_ns are over.
 * What has no live path for five seconds is given up: nothing more can be written there, and a call
 * that hangs on it ends when its controller is removed.
 */
void fm_supervisor_close(struct fm_supervisor *sup, uint64_t force_ns);
void fm_supervisor_open(struct fm_supervisor *sup);
bool fm_supervisor_is_closed(const struct fm_supervisor *sup);

/* Whether it is closed and all is down, as of the last look. *why: what one that is not waits for,
 * borrowed until the next look. */
bool fm_supervisor_is_all_down(const struct fm_supervisor *sup, const char **why);

enum fm_supervisor_progress {
	FM_PROGRESS_UNDER_WAY,
	FM_PROGRESS_REACHED,		/* it is as wished */
	FM_PROGRESS_REFUSED,		/* it will not be before somebody changes something */
};

/* As of the last look; a wish is under way until there was one. *why: one line, borrowed until the
 * next look. -ENOENT. */
int fm_supervisor_progress(const struct fm_supervisor *sup, const char *volume,
			   enum fm_supervisor_progress *progress, const char **why);

/* The answer to ask_peers(); peers are taken over. */
void fm_supervisor_peers(struct fm_supervisor *sup, struct fm_peers *peers);

/*
 * At the writer of a "shared-read" volume: it is written out, unmounted and mounted read-only, the
 * epoch is one more, and the readers mount it; where not all could be written, or it is not clean,
 * it is open again (fm_supervisor_unsealed_why()). Or it is unsealed, the readers unmount it, and
 * then it is mounted read-write. Written down before it returns. What is so already changes
 * nothing. is_forced: unseal although a reader that was there does not answer. -ENOENT; -EINVAL: it
 * is no volume to be sealed, or is not up; -EACCES: another node is the writer; -EBUSY: such a
 * reader; or it cannot be written down.
 */
int fm_supervisor_seal(struct fm_supervisor *sup, const char *volume, bool is_sealed,
		       bool is_forced, struct fm_err *err);

/*
 * A person says that a node is off for good. It does not count any more for any configured volume,
 * until it speaks; for one volume also until its writer changes or it is unsealed or sealed anew.
 * Survives a restart. -ENOENT: it was never a peer. -EBUSY: it answers. -EAGAIN: what this node
 * says is not published yet. Or it cannot be written down.
 */
int fm_supervisor_forget(struct fm_supervisor *sup, const char *node, struct fm_err *err);

/* Whether it is sealed or to be sealed, by this node. */
bool fm_supervisor_is_sealed(const struct fm_supervisor *sup, const char *volume);

/* Why it was not sealed, the last time that it was to be; "": it was, or it was unsealed. Valid
 * until the loop goes on. */
const char *fm_supervisor_unsealed_why(const struct fm_supervisor *sup, const char *volume);

/* Whether that is the wish in force; of what is no longer configured, down is. */
bool fm_supervisor_wants(const struct fm_supervisor *sup, const char *volume,
			 enum fm_plan_want want);

/*
 * Whether force, which was said last, found it mounted already, as of the last look: it is for no
 * later mount.
 */
bool fm_supervisor_is_nothing_forced(const struct fm_supervisor *sup, const char *volume);

bool fm_supervisor_is_mounted(const struct fm_supervisor *sup, const char *volume);

/*
 * Mounted to stay so, or allowed and under way: systemd may be asked at this moment, and wait for
 * whoever asks this. False as long as a look is awaited, by fm_supervisor_look_anew() for instance.
 */
bool fm_supervisor_is_mount_allowed(const struct fm_supervisor *sup, const char *volume);
void fm_supervisor_look_anew(struct fm_supervisor *sup, const char *volume);

/* A VOLUME of fmove-nvmed-api(7), or all of them as an array (volume NULL). NULL: no memory, or
 * there is no such volume. */
struct fm_json *fm_supervisor_show(const struct fm_supervisor *sup, const char *volume);

/* The name of this node; borrowed until another configuration is set. */
const char *fm_supervisor_node(const struct fm_supervisor *sup);

/* A volume of the configuration in numbers, as of the last look. Texts are borrowed. */
struct fm_supervisor_volume {
	const char *name;
	const char *state;		/* as fm_supervisor_show() has it */
	bool is_as_wanted, is_mounted, is_read_write;
	bool has_alarm;			/* another node has it read-write, too */
	unsigned paths_live, paths_wanted;
	unsigned failures;		/* of what is tried at present, in a row */
	uint64_t size_bytes;		/* 0: not known */
	uint64_t changed_ms;		/* Unix time since when it is in that state */
	/* since the supervisor was started, or the volume configured */
	uint64_t mounts, connects, reconnects;
};

struct fm_supervisor_visitor {
	void (*see_volume)(void *ctx, const struct fm_supervisor_volume *v);
	/* of the volume seen last: its controllers, whoever made them */
	void (*see_controller)(void *ctx, const struct fm_inv_controller *c);
};

/* Without those that have left the configuration, so no name comes twice. */
void fm_supervisor_visit(const struct fm_supervisor *sup,
			 const struct fm_supervisor_visitor *visitor, void *ctx);

/*
 * This helper process is about to ask that discovery controller, by a literal address: called by
 * its `begins`; and it has ended, with this answer ({"left"}: its controller is still there) or
 * without (NULL: killed at its deadline, for instance). What it leaves connected then is removed.
 * -ENOMEM, and nothing has begun.
 */
int fm_supervisor_discovery_begins(struct fm_supervisor *sup, const char *address, const char *port,
				   const struct fm_process *process, struct fm_err *err);
void fm_supervisor_discovery_ended(struct fm_supervisor *sup, const struct fm_process *process,
				   const struct fm_json *answer);

struct fm_supervisor_count {
	unsigned volumes, as_wanted, refused;
	unsigned alarms;		/* that two nodes have read-write */
};

struct fm_supervisor_count fm_supervisor_count(const struct fm_supervisor *sup);

/* Starts nothing more, and leaves everything as it is. The helpers' owner ends those under way,
 * then fm_supervisor_free(). */
void fm_supervisor_stop(struct fm_supervisor *sup);

/* Stopped, and no call under way. NULL is allowed. */
void fm_supervisor_free(struct fm_supervisor *sup);

#endif
