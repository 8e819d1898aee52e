/* SPDX-License-Identifier: MIT */
/* next_step - see next_step.h. */
#include "client/cli/next_step.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "mover/base/err.h"

/* In a store of a node, and on this machine. */
static const struct step {
	int code;
	const char *in_store, *here;
} steps[] = {
	{-ENOENT, "; fmove ls shows what is in the store",
	 "; a part of that path is not there (namei -l shows up to where)"},
	{-EACCES, "; the modes there forbid it (namei -l on that node); root may",
	 "; the modes forbid it (namei -l); root may (sudo)"},
	{-EPERM, "; who owns it there may (ls -ld on that node)",
	 "; who owns it may, or root (sudo)"},
	{-ENOTDIR, "; fmove stat shows what it is", "; ls -ld shows what it is"},
	{-EISDIR, "; directories move with -r", "; it is a directory: name a file"},
	{-ENOTEMPTY, "; fmove ls shows what is in it", "; ls -A shows what is in it"},
	{-ENOSPC, "; fmove df shows the room of stores", "; df -h shows the room"},
	{-EDQUOT, "; fmove df shows the room of stores", "; quota -s shows how much you may have"},
	{-EROFS, "; its file system is mounted read-only on that node (findmnt)",
	 "; its file system is mounted read-only (findmnt)"},
	{-EIO, "; the disk of that node failed (dmesg there)", "; the disk failed (dmesg)"},
	{-EMFILE, "; more descriptors for fmoved there (LimitNOFILE=), or fewer at once",
	 "; ulimit -n says how many files may be open at once"},
	{-ENOMEM, "; fmove status on that node shows its memory", "; free -h shows the memory"},
};

/* The words are the last, whoever wrote them: a store's begin small, the C library's large. */
static bool ends_with(const char *text, const char *words)
{
	size_t len = strlen(text), end = strlen(words);

	return len >= end && strcasecmp(text + len - end, words) == 0;
}

static bool is_of_store(const char *text)
{
	return strstr(text, ": store ") != NULL;
}

const char *fm_next_step(int code, const char *text)
{
	if (code == -EHOSTDOWN && (ends_with(text, " is stopping") || ends_with(text, " stops")))
		return "; again when it runs (systemctl status fmoved there)";
	if (!ends_with(text, fm_err_name(code)))
		return "";
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].code == code)
			return is_of_store(text) ? steps[i].in_store : steps[i].here;
	return "";
}

const char *fm_next_step_told(int code, const char *text)
{
	bool is_of_process = code == -EMFILE || code == -EACCES || code == -EPERM;

	return is_of_process && !is_of_store(text) ? "" : fm_next_step(code, text);
}
