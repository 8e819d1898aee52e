/* SPDX-License-Identifier: MIT */
/*
 * channel - an end of a tree that lives in another process: a local caller's directory, which only
 * the caller may read and write.
 *
 * The caller makes a memory file and some sockets (SOCK_SEQPACKET pairs), keeps one end of each and
 * passes the memory file and the other ends to the daemon with its request. There,
 * fm_tree_remote_new() makes a struct fm_tree of them whose functions are calls to the caller; in
 * the caller, threads (fm_channel_new()) carry them out with the real tree.
 *
 * One call:  the daemon takes a free socket, sends an *ask*, waits for the *answer* (channel_msg.h
 * has both, byte by byte). Socket i owns the bytes [i, i + 1) * FM_CHANNEL_PACK_MAX of the memory
 * file: a pack is written there by whoever sends it, before the ask (APPLY) or the answer (FILL),
 * and copied out by the other one. Descriptors of large files travel beside the message. The daemon
 * begins every call, so a socket carries one message at a time, and the end of a socket is the end
 * of the tree.
 *
 *   BEGIN         what the far end said                     both
 *   FILL          a pack, and large files that were found   source
 *   APPLY         a pack; which of its offers are needed    sink
 *   CREATE_LARGE, WROTE_LARGE, SEAL_LARGE                   sink
 *   LOG, PREPARE, PUBLISH                                   sink
 *
 * What struct fm_tree_ops calls quick never waits for the caller: what the far end has made and
 * what it needs (acked(), need()) is remembered and goes with the next FILL, of which there always
 * is one: the engine asks again after either. Large files come before they are asked for: each FILL
 * says how many the daemon would take, its answer brings them, next_large() hands out what came. A
 * source whose large files do not all have room answers -EAGAIN with FM_CHANNEL_MORE, also at its
 * end. Every answer brings the numbers of count().
 *
 * keep() and discard() are no calls: when a transfer fails, the sockets are closed, and the caller,
 * which hears the reason as the end of its request, decides about its own disk.
 *
 * Nothing that the caller says is believed by the daemon. The memory file is read and written with
 * pread() and pwrite(), never mapped, so whatever the caller does to it is an error code at worst,
 * and a pack is not looked at before it was copied. A caller that is slow is waited for: stop()
 * ends that. One that stands still (SIGSTOP) while it is asked for anything but PUBLISH is given up
 * after FM_CHANNEL_PULSES_MISSED looks at the number by which it shows that it lives
 * (channel_pulse.h), so within 10 s: -ETIMEDOUT, for good. A caller that is gone: -EPIPE.
 */
#ifndef FM_TREE_CHANNEL_H
#define FM_TREE_CHANNEL_H

#include <poll.h>
#include <stdbool.h>

struct fm_channel;
struct fm_err;
struct fm_holder;
struct fm_tree;

#define FM_CHANNEL_VERSION 3
#define FM_CHANNEL_SOCKETS_MIN 2
/* with the memory file, what one message of the local API can carry */
#define FM_CHANNEL_SOCKETS_MAX 7
#define FM_CHANNEL_PACK_MAX (1u << 20)		/* bytes of a pack, either way */
/* in the memory file, however many sockets */
#define FM_CHANNEL_PULSE_AT (FM_CHANNEL_SOCKETS_MAX * FM_CHANNEL_PACK_MAX)
#define FM_CHANNEL_PULSE_MS 1000u
#define FM_CHANNEL_PULSES_MISSED 8u
#define FM_CHANNEL_LARGES_MAX 4			/* of one answer */
/* large files that wait in the daemon: no more are asked for then */
#define FM_CHANNEL_LARGES_HELD_MAX 8
#define FM_CHANNEL_ACKS_MAX 256			/* of one ask */
#define FM_CHANNEL_NEEDS_MAX 16			/* of one ask */

/* ---- the daemon's end ---- */

struct fm_tree_remote_opts {
	bool is_source;
	/* the memory file, then the sockets; all taken over, also on error */
	const int *fds;
	/* of them, 1 + FM_CHANNEL_SOCKETS_MIN .. 1 + FM_CHANNEL_SOCKETS_MAX */
	unsigned count;
	/* between two looks at the pulse; NULL: poll(2) */
	int (*poll)(struct pollfd *fds, nfds_t count, int timeout_ms);
	/* whose they are: all calls but the quick ones are for its threads; NULL: ours */
	struct fm_holder *holder;
};

/* May wait for a file system. -EINVAL: the descriptors are not what they should be. Asks the caller
 * nothing yet. */
int fm_tree_remote_new(const struct fm_tree_remote_opts *opts, struct fm_tree **out,
		       struct fm_err *err);

/* ---- the caller's end ---- */

/*
 * Make sockets, memory and threads that serve tree, which stays the caller's and must outlive the
 * channel. The threads take no signals.
 */
int fm_channel_new(struct fm_tree *tree, struct fm_channel **out, struct fm_err *err);

/* The same with so many sockets, FM_CHANNEL_SOCKETS_MIN .. FM_CHANNEL_SOCKETS_MAX: several channels
 * are to go with one message. */
int fm_channel_new_of(struct fm_tree *tree, unsigned sockets, struct fm_channel **out,
		      struct fm_err *err);

/* The descriptors to pass to the daemon, *count of them. They stay the channel's. */
const int *fm_channel_to_pass(const struct fm_channel *c, unsigned *count);

/* They were passed: close our copies, so that the end of the daemon is seen. */
void fm_channel_passed(struct fm_channel *c);

/* How the tree ended. The caller must keep or discard a sink that was begun and not published. */
struct fm_channel_end {
	bool is_begun;
	bool is_published;
	/*
	 * This is a child that was forked meanwhile: tree and transfer are its parent's. The child
	 * must not use the tree any more, nor close it.
	 */
	bool is_forked;
};

/*
 * End all calls (the tree is stopped) and free the channel. NULL is allowed. In a child nothing is
 * ended: our descriptors were closed there when it was forked.
 */
struct fm_channel_end fm_channel_free(struct fm_channel *c);

#endif
