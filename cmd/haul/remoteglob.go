package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// maxMatches is how many names one pattern may stand for.
const maxMatches = 1 << 20

// hasPattern reports whether a name may be a pattern.
func hasPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// paths returns the names that a location stands for on the server: its own, or
// those that it matches, as a shell would match them: *, ? and [...], in each
// element, and names that begin with a dot only if the pattern does. A name that
// exists as it was typed is no pattern.
func (c *remote) paths(ctx context.Context, l location) ([]string, error) {
	name, err := c.path(ctx, l)
	if err != nil || !hasPattern(name) {
		return []string{name}, err
	}
	if _, err := c.Lstat(ctx, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return []string{name}, nil // what is wrong with it shows when it is used
	}
	if _, err := path.Match(name, ""); err != nil {
		return nil, usagef("location %q: bad pattern: a [ without ], or a \\ at its end", l.text)
	}
	found := []string{""}
	if strings.HasPrefix(name, "/") {
		found[0] = "/"
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || len(found) == 0 {
			continue
		}
		var next []string
		for _, dir := range found {
			if !hasPattern(element) {
				next = append(next, path.Join(dir, element))
				continue
			}
			names, err := c.match(ctx, dir, element)
			if err != nil {
				return nil, err
			}
			if next = append(next, names...); len(next) > maxMatches {
				return nil, remoteError{fmt.Errorf("%v: more than %d names match", l, maxMatches)}
			}
		}
		found = next
	}
	if last := path.Base(name); !hasPattern(last) { // which was only added, and may not be there
		found = c.existing(ctx, found)
	}
	if len(found) == 0 {
		return nil, remoteError{fmt.Errorf("%v: no name matches: %w", l, fs.ErrNotExist)}
	}
	return found, nil
}

// match returns what in a directory matches one element of a pattern. What is no
// directory, or cannot be read, has nothing that does.
func (c *remote) match(ctx context.Context, dir, element string) ([]string, error) {
	where := dir
	if where == "" {
		where = "."
	}
	entries, err := c.ReadDir(ctx, where)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil, nil
	case err != nil && isRefusal(err): // what servers say of a file
		return nil, nil
	case err != nil:
		return nil, asRemote(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(element, ".") {
			continue
		}
		if ok, _ := path.Match(element, e.Name()); ok {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// existing returns those names that there are.
func (c *remote) existing(ctx context.Context, names []string) []string {
	return each(names, func(name string) (string, bool) {
		_, err := c.Lstat(ctx, name)
		return name, err == nil
	})
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
