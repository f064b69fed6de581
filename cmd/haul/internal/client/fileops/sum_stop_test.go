package fileops

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// A run that ends within a local directory reads no file of later arguments.
func TestSumStops(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at := remote.Location{Protocol: remote.Local, Path: dir}
	s := &summer{SumConfig: SumConfig{Recursive: true}}
	n := 0
	s.find(t.Context(), nil, []remote.Location{at, at})(func(sumJob) bool { n++; return false })
	if n != 1 {
		t.Errorf("%d files after the end", n-1)
	}
}

// A local directory is walked in sorted order, within the same bounds as one on a server. An
// unlistable directory is a local failure.
func TestSumLocalBounds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b/f", "a", "c/g"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &summer{SumConfig: SumConfig{Recursive: true}}
	found := func(w *walk, depth int) (names []string, errs []error) {
		place, list, errs := s.named(t.Context(), nil, remote.Location{Protocol: remote.Local, Path: dir})
		s.yieldAll(t.Context(), w, place, list, errs, depth, func(j sumJob) bool {
			if j.err != nil {
				errs = append(errs, j.err)
			} else {
				names = append(names, strings.TrimPrefix(j.name, dir+"/"))
			}
			return true
		})
		return names, errs
	}
	if names, errs := found(new(walk), -1); !slices.Equal(names, []string{"a", "b/f", "c/g"}) || errs != nil {
		t.Errorf("%q, %v", names, errs)
	}
	for want, c := range map[string]struct {
		w     walk
		depth int
	}{"no more are listed": {walk{dirs: maxListDirs - 2}, -1}, "deeper than": {walk{}, maxListDepth - 1}} {
		names, errs := found(&c.w, c.depth)
		if len(errs) == 0 || !strings.Contains(errs[0].Error(), want) || !errors.Is(errs[0], failure.Local) || errors.Is(errs[0], failure.Remote) || slices.Contains(names, "c/g") {
			t.Errorf("%q, %v; want: %s", names, errs, want)
		}
	}
	if _, _, errs := s.named(t.Context(), nil, remote.Location{Protocol: remote.Local, Path: filepath.Join(dir, "none")}); len(errs) != 1 || !errors.Is(errs[0], failure.Local) {
		t.Errorf("a missing file: %v", errs)
	}
}
