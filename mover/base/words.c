/* SPDX-License-Identifier: MIT */
/* words - see words.h. */
#include "mover/base/words.h"

#include <stddef.h>
#include <string.h>

const char *const fm_words_transport[] = { "auto", "rdma", "tcp", NULL };
const char *const fm_words_durability[] = { "default", "disk", "memory", NULL };
const char *const fm_words_priority[] = { "normal", "low", "high", NULL };
const char *const fm_words_check[] = { "listing", "none", "content", NULL };
const char *const fm_words_freshness[] = { "listing", "none", "content", "seal", NULL };
const char *const fm_words_readback[] = { "none", "readback", NULL };
const char *const fm_words_state[] = {
	"queued", "running", "waiting", "paused", "done", "failed", "cancelled", NULL,
};
const char *const fm_words_kind[] = { "tcp", "rdma", NULL };
const char *const fm_words_encryption[] = { "plain", "tls", "ktls", NULL };

int fm_word_parse(const char *const words[], const char *text)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -1;
}
