/* SPDX-License-Identifier: MIT */
/* suggest - the word that was probably meant. See cmd.h. */
#include "client/cli/cmd.h"

#include <string.h>

#define WORD_MAX 32

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned least = a < b ? a : b;

	return least < c ? least : c;
}

/*
 * Letters to insert, delete or change to make one of the other (Levenshtein), one row of the table
 * at a time.
 */
static unsigned distance(const char *a, const char *b)
{
	size_t len_a = strlen(a), len_b = strlen(b);
	unsigned row[WORD_MAX + 1];

	if (len_a > WORD_MAX || len_b > WORD_MAX)
		return WORD_MAX;
	for (unsigned j = 0; j <= len_b; j++)
		row[j] = j;
	for (unsigned i = 1; i <= len_a; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= len_b; j++) {
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[len_b];
}

const char *fm_nearest(const char *word, const char *const *names)
{
	const char *best = NULL;
	unsigned least = 3;	/* more mistakes than two are another word */

	for (; *names; names++) {
		unsigned d = distance(word, *names);

		/* A short word with everything changed is not near either. */
		if (d < least && d < strlen(*names)) {
			least = d;
			best = *names;
		}
	}
	return best;
}
