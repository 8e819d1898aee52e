/* SPDX-License-Identifier: MIT */
/*
 * list - a doubly linked list whose links live in its members. No allocation, no lock.
 *
 * A member is on at most one list per link. An unlinked link points to itself, so fm_list_del() may
 * be called twice.
 */
#ifndef FM_BASE_LIST_H
#define FM_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct fm_list {
	struct fm_list *next;
	struct fm_list *prev;
};

#define fm_container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void fm_list_init(struct fm_list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool fm_list_is_empty(const struct fm_list *l)
{
	return l->next == l;
}

static inline void fm_list_del(struct fm_list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	fm_list_init(l);
}

/* Before head: at the end of the list that head begins. */
static inline void fm_list_append(struct fm_list *head, struct fm_list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void fm_list_prepend(struct fm_list *head, struct fm_list *l)
{
	fm_list_append(head->next, l);
}

/* The first link, taken off the list, or NULL. */
static inline struct fm_list *fm_list_pop(struct fm_list *head)
{
	struct fm_list *l = head->next;

	if (l == head)
		return NULL;
	fm_list_del(l);
	return l;
}

/* The loop body may unlink `at`. */
#define fm_list_each(at, next_, head)                                                              \
	for (struct fm_list *at = (head)->next, *next_ = at->next; at != (head);                   \
	     at = next_, next_ = at->next)

#endif
