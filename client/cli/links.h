/* SPDX-License-Identifier: MIT */
/* links - a warning of symbolic links that lead out of what was moved. */
#ifndef FM_CLIENT_LINKS_H
#define FM_CLIENT_LINKS_H

#include <stdbool.h>
#include <stdint.h>

/* source: a path here, or a remote name. Says what to do instead; of a snapshot in a hub cache of
 * Hugging Face another thing than of others. Of a get only the node that has the source
 * can send what they lead to. */
void fm_links_say(const char *source, uint64_t count, bool is_get);

#endif
