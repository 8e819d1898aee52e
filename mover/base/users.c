/* SPDX-License-Identifier: MIT */
/* users - see users.h. */
#include "mover/base/users.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/within.h"

#define LEAST_LEN (1u << 12)
#define MOST_LEN  (1u << 24)	/* a group may have many members */

/* A buffer of four times the length. False: no memory, or it is large enough for anything. */
static bool more(char **buf, size_t *len)
{
	free(*buf);
	*len *= 4;
	*buf = *len <= MOST_LEN ? malloc(*len) : NULL;
	return *buf;
}

bool fm_users_find(const char *name, uid_t *uid, gid_t *gid)
{
	struct passwd entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getpwnam_r(name, &entry, buf, len, &found);
	if (ret == 0 && found) {
		*uid = found->pw_uid;
		*gid = found->pw_gid;
	}
	free(buf);
	return ret == 0 && found;
}

bool fm_users_find_group(const char *name, gid_t *gid)
{
	struct group entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getgrnam_r(name, &entry, buf, len, &found);
	if (ret == 0 && found)
		*gid = found->gr_gid;
	free(buf);
	return ret == 0 && found;
}

bool fm_users_name(uid_t uid, char *name, size_t name_len, gid_t *gid)
{
	struct passwd entry, *found = NULL;
	char *buf = NULL;
	size_t len = LEAST_LEN;
	int ret = ERANGE;

	while (ret == ERANGE && more(&buf, &len))
		ret = getpwuid_r(uid, &entry, buf, len, &found);
	if (ret == 0 && found) {
		(void)snprintf(name, name_len, "%s", found->pw_name);
		*gid = found->pw_gid;
	}
	free(buf);
	return ret == 0 && found;
}

/* ---- within a time ---- */

/* A question, on a thread that may never come back. */
struct question {
	atomic_int state;
	bool is_of_group;
	uid_t uid;		/* asked for, unless it is of a group */
	gid_t gid;
	bool is_found;
	char name[256];
};

enum { ANSWERED = 1, LEFT };

static void question_run(void *arg)
{
	struct question *q = arg;

	if (q->is_of_group)
		q->is_found = fm_users_find_group(q->name, &q->gid);
	else
		q->is_found = fm_users_name(q->uid, q->name, sizeof(q->name), &q->gid);
	if (atomic_exchange(&q->state, ANSWERED) == LEFT)
		free(q);
}

/* 0: *q is the caller's still. */
static int ask(struct question *q, uint64_t max_ns)
{
	int ret = fm_within(question_run, q, max_ns);

	if (ret == -ETIMEDOUT && atomic_exchange(&q->state, LEFT) != ANSWERED)
		return ret;
	if (ret != -ENOMEM)
		ret = q->is_found ? 0 : -ENOENT;
	if (ret < 0)
		free(q);
	return ret;
}

int fm_users_find_group_within(const char *name, uint64_t max_ns, gid_t *gid)
{
	struct question *q = calloc(1, sizeof(*q));
	int ret;

	if (!q)
		return -ENOMEM;
	q->is_of_group = true;
	(void)snprintf(q->name, sizeof(q->name), "%s", name);
	ret = ask(q, max_ns);
	if (ret < 0)
		return ret;
	*gid = q->gid;
	free(q);
	return 0;
}

int fm_users_find_socket_group(const char *option, const char *name, uint64_t max_ns, gid_t *gid,
			       struct fm_err *err)
{
	int ret = fm_users_find_group_within(name, max_ns, gid);

	if (ret == -ETIMEDOUT)
		return fm_err_set(err, ret,
				  "%s: the user database does not answer; what group \"%s\" is "
				  "is not known",
				  option, name);
	if (ret == -ENOENT)
		return fm_err_set(err, ret,
				  "%s: this machine has no group \"%s\"; as root: "
				  "groupadd --system %s",
				  option, name, name);
	return ret < 0 ? fm_err_set(err, ret, "%s: out of memory", option) : 0;
}

int fm_users_name_within(uid_t uid, uint64_t max_ns, char *name, size_t len)
{
	struct question *q = calloc(1, sizeof(*q));
	int ret;

	if (!q)
		return -ENOMEM;
	q->uid = uid;
	ret = ask(q, max_ns);
	if (ret < 0)
		return ret;
	(void)snprintf(name, len, "%s", q->name);
	free(q);
	return 0;
}
