/* SPDX-License-Identifier: MIT */
/*
 * hub_name - what a repository of a Hugging Face hub is called, and what stands in a hub cache.
 *
 * People say [KIND/]ORG/NAME[@REVISION]; a hub cache has a directory KIND--ORG--NAME for it. A
 * revision is a branch or a tag, or a commit: 40 hexadecimal digits. Pure; what it reads is
 * hostile.
 */
#ifndef FM_HUB_NAME_H
#define FM_HUB_NAME_H

#include <stdbool.h>
#include <stddef.h>

struct fm_err;

#define FM_HUB_ID_MAX 96	/* bytes of ORG/NAME */
#define FM_HUB_DIR_MAX (sizeof("datasets--") + FM_HUB_ID_MAX)	/* "/" became "--" */
#define FM_HUB_REVISION_MAX 255
#define FM_HUB_COMMIT_LEN 40

struct fm_hub_name {
	char dir[FM_HUB_DIR_MAX + 1];		/* models--ORG--NAME */
	char revision[FM_HUB_REVISION_MAX + 1];
};

/* [models/|datasets/|spaces/][ORG/]NAME[@REVISION]; "main" is the default. -EINVAL. */
int fm_hub_name_parse(const char *text, struct fm_hub_name *out, struct fm_err *err);

/* KIND--ORG--NAME@REVISION, as a store of hub layout is asked for it. -EINVAL: it is none. */
int fm_hub_path_parse(const char *path, struct fm_hub_name *out);

/* A branch, a tag or a commit: as a path it stays below the directory that it is joined to. */
bool fm_hub_is_revision(const char *text);

/* 40 lower-case hexadecimal digits, and nothing else. */
bool fm_hub_is_commit(const char *text);

/*
 * Whether a revision can be that commit. A commit is itself and no other one, whatever somebody
 * says of it; a branch or a tag can be any.
 */
bool fm_hub_can_be(const char *revision, const char *commit);

/* What a file of refs holds: a commit, with blanks around it. -EBADMSG. */
int fm_hub_ref_parse(const char *bytes, size_t len, char commit[FM_HUB_COMMIT_LEN + 1]);

/*
 * Where a link that stands in the directory `dir` leads, both below the cache's root. -EXDEV: out
 * of it, or it is absolute. -ENAMETOOLONG: out has not max bytes.
 */
int fm_hub_link(const char *dir, const char *target, char *out, size_t max);

#endif
