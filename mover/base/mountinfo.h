/* SPDX-License-Identifier: MIT */
/*
 * mountinfo - the kernel's table of mounts, one mount a line (proc_pid_mountinfo(5)):
 *
 *   36 35 98:0 /sub /mnt/a\040b rw,noatime master:1 shared:2 - ext4 /dev/sda1 rw,errors=continue
 *   id parent device root point options, any number of words, "-", type source options
 *
 * One blank between two words, and one may be empty: a source can be "". Blanks, tabs, newlines,
 * backslashes and '#' in one are three octal digits behind a backslash. Any thread.
 *
 * Why not libmount: it leaves out a line that it cannot read unless it is told otherwise, and it
 * does not say which mount covers a path. It would bring four libraries into processes that have
 * few. This takes one format, has a limit, and is fuzzed (tests/fuzz/fuzz_mounts.c).
 */
#ifndef FM_BASE_MOUNTINFO_H
#define FM_BASE_MOUNTINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FM_MOUNTINFO "/proc/self/mountinfo"
#define FM_MOUNTINFO_BYTES_MAX (16u << 20)

/* As it is written there, in the text that it is of. */
struct fm_mountinfo_word {
	const char *at;
	size_t len;
};

struct fm_mountinfo {
	const char *line, *end;		/* without its newline */
	unsigned id, parent;		/* of the mount, and of the one that it is mounted on */
	dev_t device;
	struct fm_mountinfo_word root;	/* of the file system, "/" unless it is a bind mount */
	struct fm_mountinfo_word point;	/* absolute */
};

/* What follows the point. */
struct fm_mountinfo_more {
	struct fm_mountinfo_word options, type, source;
	struct fm_mountinfo_word fs_options;	/* the rest: 9p does not escape its blanks */
};

/*
 * Of such a file, as it was at one moment: it is read again as long as something was mounted or
 * unmounted meanwhile. The caller frees *text, also after an error. -EAGAIN: that does not end;
 * *text is what was read last then, in which a mount that moved may be missing. -E2BIG beyond the
 * limit, -ENOMEM, -errno.
 */
int fm_mountinfo_read(const char *path, char **text, size_t *len);

/* What that is made of, with another way to ask whether a mount came or went while it was read. */
int fm_mountinfo_read_fd(int fd, bool (*has_changed_since)(int fd), char **text, size_t *len);

/* One line, without its newline. False: it is of another form. */
bool fm_mountinfo_parse(const char *line, size_t len, struct fm_mountinfo *out);

/* The next line of that form in a text; others are left out. *at is moved behind it. False: there
 * is none. */
bool fm_mountinfo_next(const char **at, const char *end, struct fm_mountinfo *out);

/* False: the rest of the line is of another form. */
bool fm_mountinfo_more(const struct fm_mountinfo *of, struct fm_mountinfo_more *out);

/* The next word of what is between *at and end; *at is NULL behind the last one. */
bool fm_mountinfo_word(const char **at, const char *end, struct fm_mountinfo_word *out);

/* The next byte of a word that does not end at *at, without its escape; *at is moved behind it. */
char fm_mountinfo_byte(const char **at, const char *end);

/* A word as a string, without escapes. False: it takes more than size bytes. */
bool fm_mountinfo_string(struct fm_mountinfo_word word, char *out, size_t size);

#endif
