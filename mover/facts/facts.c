/* SPDX-License-Identifier: MIT */
/* facts - see facts.h. The document is in facts_json.c. */
#include "mover/facts/facts.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 256

struct fm_facts *fm_facts_new(void)
{
	return calloc(1, sizeof(struct fm_facts));
}

size_t fm_facts_count(const struct fm_facts *facts, const struct fm_facts_section *section)
{
	size_t count;

	if (section->max == 0)
		return 1;
	memcpy(&count, (const char *)facts + section->count_offset, sizeof(count));
	return count;
}

static struct fm_fact *fact_at(struct fm_facts *facts, size_t offset)
{
	return (struct fm_fact *)(void *)((char *)facts + offset);
}

struct fm_fact *fm_facts_fact(struct fm_facts *facts, const struct fm_facts_section *section,
			      size_t i, const struct fm_facts_row *row)
{
	return fact_at(facts, section->offset + i * section->item_size + row->offset);
}

void fm_facts_free(struct fm_facts *facts)
{
	if (!facts)
		return;
	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++) {
		for (size_t i = 0; i < fm_facts_count(facts, s); i++)
			for (const struct fm_facts_row *row = s->rows; row->key; row++)
				free(fm_facts_fact(facts, s, i, row)->text);
		if (s->max > 0)
			free(fact_at(facts, s->read_offset)->text);
	}
	free(facts);
}

static const struct fm_facts_section *section_of(const struct fm_facts *facts, const void *items)
{
	const struct fm_facts_section *s = fm_facts_sections;

	while (s->key && (const char *)facts + s->offset != (const char *)items)
		s++;
	assert(s->key && s->max > 0);
	return s;
}

void *fm_facts_add(struct fm_facts *facts, const void *items, size_t *count)
{
	const struct fm_facts_section *s = section_of(facts, items);

	if (*count == s->max) {
		facts->left_out++;
		return NULL;
	}
	return (char *)facts + s->offset + (*count)++ * s->item_size;
}

/* ---- one fact ---- */

static void set(struct fm_fact *fact, bool is_known, uint64_t n, char *text)
{
	free(fact->text);
	*fact = (struct fm_fact){ .is_known = is_known, .n = n, .text = text };
}

void fm_fact_drop(struct fm_fact *fact)
{
	set(fact, false, 0, NULL);
}

void fm_fact_number(struct fm_fact *fact, uint64_t n)
{
	set(fact, true, n < FM_FACT_UNLIMITED ? n : FM_FACT_UNLIMITED, NULL);
}

/* Nothing that a shell or a terminal takes for more than a letter. */
static bool is_name(const char *text)
{
	for (const char *at = text; *at; at++)
		if (!isascii(*at) || (!isalnum((unsigned char)*at) && !strchr("_.:@-", *at)))
			return false;
	return *text && *text != '-';
}

static bool is_address(const char *text)
{
	struct in6_addr ip;

	return inet_pton(AF_INET, text, &ip) == 1 || inet_pton(AF_INET6, text, &ip) == 1;
}

static bool is_allowed(enum fm_fact_kind kind, const char *text)
{
	switch (kind) {
	case FM_FACT_NAME:
		return is_name(text);
	case FM_FACT_ADDRESS:
		return is_address(text);
	case FM_FACT_NUMBER:
	case FM_FACT_BOOL:
		return false;
	case FM_FACT_TEXT:
		break;
	}
	return true;
}

void fm_fact_text(struct fm_fact *fact, enum fm_fact_kind kind, const char *text)
{
	char *copy;

	if (strlen(text) >= FM_FACT_TEXT_MAX || !is_allowed(kind, text)) {
		fm_fact_unknown(fact, "what was read is no %s",
				kind == FM_FACT_ADDRESS ? "address" : "name that can be used");
		return;
	}
	copy = strdup(text);
	set(fact, copy != NULL, 0, copy);
}

void fm_fact_unknown(struct fm_fact *fact, const char *fmt, ...)
{
	char reason[REASON_MAX];
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(reason, sizeof(reason), fmt, list); /* cut if it is too long */
	va_end(list);
	set(fact, false, 0, strdup(reason)); /* NULL is a reason, too */
}

#define LEFT_OUT "left out, as --anonymous asked"

static bool has_personal(const struct fm_facts_section *s)
{
	for (const struct fm_facts_row *row = s->rows; row->key; row++)
		if (row->is_personal)
			return true;
	return false;
}

/* A reason may name what the fact itself would not: the path that could not be read. */
static void leave_out(struct fm_fact *fact, bool is_personal)
{
	if (is_personal || (!fact->is_known && fact->text))
		fm_fact_unknown(fact, LEFT_OUT);
}

void fm_facts_anonymize(struct fm_facts *facts)
{
	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++) {
		if (!has_personal(s))
			continue;
		if (s->max > 0)
			leave_out(fact_at(facts, s->read_offset), false);
		for (size_t i = 0; i < fm_facts_count(facts, s); i++)
			for (const struct fm_facts_row *row = s->rows; row->key; row++)
				leave_out(fm_facts_fact(facts, s, i, row), row->is_personal);
	}
}

const char *fm_text_of(const struct fm_fact *fact)
{
	return fact->is_known && fact->text ? fact->text : "";
}

const char *fm_shown(const struct fm_fact *fact)
{
	return *fm_text_of(fact) ? fact->text : "(not known)";
}

bool fm_fact_is(const struct fm_fact *fact, const char *text)
{
	return fact->is_known && fact->text && strcmp(fact->text, text) == 0;
}

bool fm_fact_is_true(const struct fm_fact *fact)
{
	return fact->is_known && fact->n != 0;
}

bool fm_fact_is_same(const struct fm_fact *a, const struct fm_fact *b)
{
	return a->is_known && b->is_known && a->n == b->n &&
	       strcmp(fm_text_of(a), fm_text_of(b)) == 0;
}
