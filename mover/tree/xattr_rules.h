/* SPDX-License-Identifier: MIT */
/*
 * xattr_rules - which extended attributes travel with a tree.
 *
 * A short list (fm_pack_is_good_xattr()): what users themselves may set on what is theirs.
 * "trusted.*" and "security.*" are not among them: there file systems keep what decides about
 * rights, and a copy of it would come back over what was decided since. Of the list, what the file
 * of libattr tells copying programs to skip (xattr.conf(5)) stays behind too, at either end.
 *
 * The file is read once, by the first who asks. Any thread.
 */
#ifndef FM_TREE_XATTR_RULES_H
#define FM_TREE_XATTR_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define FM_XATTR_CONF "/etc/xattr.conf"

/* name: len bytes, which need no NUL behind them. */
bool fm_xattr_may_travel(const char *name, size_t len);

/* Read that file from now on, for tests: while nobody asks. One that is not there, or cannot be
 * read, says nothing. */
void fm_xattr_rules_read(const char *path);

#endif
