/* SPDX-License-Identifier: MIT */
/* suggest - the word that was probably meant, or what another tool's word is here. See cmd.h. */
#include "client/cli/cmd.h"

#include <stdio.h>
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

const char *fm_other_word(const char *word)
{
	static const struct {
		const char *words;	/* a blank before and behind each */
		const char *says;
	} others[] = {
		{" cp copy scp rsync sync mirror ", "fmove put sends, fmove get receives"},
		{" send push upload ", "fmove put sends"},
		{" receive pull fetch download ", "fmove get receives"},
		{" cat ", "fmove get NODE:STORE/PATH - writes to standard output"},
		{" du ", "fmove rm -rn says how much is there, and removes nothing"},
		{" dir list find ", "fmove ls lists"},
		{" delete del unlink rmdir ", "fmove rm removes"},
		{" rename ", "fmove mv renames"},
		{" link symlink ", "fmove ln -s makes a link"},
		{" ps top queue ", "fmove jobs lists your transfers, fmove status all"},
		{" kill stop abort ", "fmove cancel ends a job"},
		{" peers nodes ", "fmove ls lists the nodes"},
		{" stores ", "fmove ls NODE: lists the stores of a node"},
	};
	char wanted[WORD_MAX + 3];

	if (strlen(word) > WORD_MAX || strchr(word, ' '))
		return NULL;
	/* fits */
	(void)snprintf(wanted, sizeof(wanted), " %s ", word);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strstr(others[i].words, wanted))
			return others[i].says;
	return NULL;
}
