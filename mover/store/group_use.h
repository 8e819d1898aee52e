/* SPDX-License-Identifier: MIT */
/*
 * group_use - who works in a publication group now: the members that come hold it, and who commits
 * or ends it has it alone.
 *
 * In memory of this daemon, for all its stores: its transfers end with it, and so do their holds.
 * Several stores may have the directory, one behind the other after a change of the configuration.
 * Any thread.
 */
#ifndef FM_STORE_GROUP_USE_H
#define FM_STORE_GROUP_USE_H

#include <stddef.h>
#include <sys/types.h>

struct fm_err;
struct fm_group_names;

/* The directory of the group, whatever its name. */
struct fm_group_key {
	dev_t dev;
	ino_t ino;
};

struct fm_group_use;

/*
 * A member comes, under that path, whose first group_len bytes are the group's. -EBUSY: the group
 * is being committed or ended.
 */
int fm_group_hold(const struct fm_group_key *key, const char *path, size_t group_len,
		  struct fm_group_use **out, struct fm_err *err);

/* The path under which a member comes; *group_len: so many bytes of it are the group's. */
const char *fm_group_use_path(const struct fm_group_use *use, size_t *group_len);

/*
 * Have the group alone. Who has it alone is waited for, since a commit goes on when its caller was
 * killed, and that caller asks again; and so are members that come, since their transfers may be
 * just ending: up to wait_ms for both. -EBUSY, and err says who has it, or names the members.
 * Afterwards the group may be another one than before: it is to be read again.
 */
int fm_group_close(const struct fm_group_key *key, unsigned wait_ms, struct fm_group_use **out,
		   struct fm_err *err);

/* The members that come, by their paths less the first `skip` bytes. */
void fm_group_coming(const struct fm_group_key *key, size_t skip, struct fm_group_names *out);

/* One more name, which stands in the text if there is room and it has no line break. */
void fm_group_names_add(struct fm_group_names *names, const char *name);

/* NULL is allowed. */
void fm_group_let_go(struct fm_group_use *use);

#endif
