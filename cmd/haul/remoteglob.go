package main

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/haul-project/haul/store/glob"
)

// paths returns the names that a location stands for on the server: its own, or
// those that it matches as a pattern.
func (c *remote) paths(ctx context.Context, l location) ([]string, error) {
	name, err := c.path(ctx, l)
	if err != nil || !glob.HasMeta(name) {
		return []string{name}, err
	}
	dir, pattern, err := c.place(ctx, l)
	if err != nil {
		return nil, err
	}
	found, err := expand(ctx, c.Store(dir), pattern, l)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = dir + m.Name
	}
	return names, nil
}

// expand returns what a location's name in its tree matches.
func expand(ctx context.Context, tree glob.Tree, name string, l location) ([]glob.Match, error) {
	found, err := glob.Expand(ctx, tree, name)
	switch {
	case errors.Is(err, path.ErrBadPattern):
		return nil, usagef("location %q: %w", l.text, err)
	case err != nil:
		return nil, remoteError{fmt.Errorf("%v: %w", l, err)}
	}
	return found, nil
}

// asksAtOnce is how many questions are put to a server at a time, where each
// answer is one of many.
const asksAtOnce = 64

// each calls f for each item, some at the same time, and returns the results for
// which f said so, in the order of the items.
func each[T, R any](items []T, f func(T) (R, bool)) []R {
	type result struct {
		value R
		ok    bool
	}
	all := make([]R, 0, len(items))
	for len(items) > 0 {
		part := items[:min(len(items), asksAtOnce)]
		items = items[len(part):]
		results := make([]result, len(part))
		done := make(chan struct{})
		for i, item := range part {
			go func() {
				results[i].value, results[i].ok = f(item)
				done <- struct{}{}
			}()
		}
		for range part {
			<-done
		}
		for _, r := range results {
			if r.ok {
				all = append(all, r.value)
			}
		}
	}
	return all
}
