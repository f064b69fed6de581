//go:build unix

package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// A stopping tree stops at an operation chosen by the test, until it is released.
type stopping struct {
	store.Tree
	mu      sync.Mutex
	left    int           // guarded by mu: number of operations before the stop; negative means no stop
	reached chan struct{} // closed when the tree stops
	release chan struct{}
}

// stopAfter makes the tree stop at the operation after n others.
func (s *stopping) stopAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.reached, s.release = n, make(chan struct{}), make(chan struct{})
}

func (s *stopping) step() {
	s.mu.Lock()
	s.left--
	left, reached, release := s.left, s.reached, s.release
	s.mu.Unlock()
	if left == -1 {
		close(reached)
		<-release
	}
}

func (s *stopping) Remove(ctx context.Context, name string) error {
	s.step()
	return s.Tree.Remove(ctx, name)
}

func (s *stopping) RemoveDir(ctx context.Context, name string) error {
	s.step()
	return s.Tree.RemoveDir(ctx, name)
}

func (s *stopping) Rename(ctx context.Context, from, to string, replace bool) error {
	s.step()
	return s.Tree.Rename(ctx, from, to, replace)
}

func (s *stopping) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	s.step()
	return s.Tree.Mkdir(ctx, name, perm)
}

func (s *stopping) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	s.step()
	h, err := s.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return stoppingHandle{h, s}, nil
}

func (s *stopping) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	s.step()
	return s.Tree.OpenDir(ctx, name)
}

type stoppingHandle struct {
	store.Handle
	s *stopping
}

func (h stoppingHandle) ReadAt(p []byte, off int64) (int, error) {
	h.s.step()
	return h.Handle.ReadAt(p, off)
}

func (h stoppingHandle) WriteAt(p []byte, off int64) (int, error) {
	h.s.step()
	return h.Handle.WriteAt(p, off)
}

// If a sync is killed at any of its operations on the server, each name has its complete old or its
// complete new content. The next run completes the sync, and removes what the killed one left
// behind.
func TestSyncKilled(t *testing.T) {
	t.Parallel()
	t.Run("put", func(t *testing.T) { testSyncKilled(t, true) })
	t.Run("get", func(t *testing.T) { testSyncKilled(t, false) })
}

func testSyncKilled(t *testing.T, put bool) {
	t.Parallel()
	big := strings.Repeat("moved", 50_000)
	source, dest := "a=new d/b=new file=new large="+big+big+" made/c=new renamed="+big, "a=older d/b=older gone/x=1 gone/y/z=2 file/was=3 was="+big
	whole := map[string]bool{}
	for f := range strings.FieldsSeq(source + " " + dest) {
		whole[f] = true
	}
	s := &stopping{left: -1}
	l := startLabWith(t, labOptions{tree: func(tree store.Tree) store.Tree { s.Tree = tree; return s }}, nil)
	here := t.TempDir()
	from, fromDir := here, here
	if !put {
		from, fromDir = "lab:from", filepath.Join(l.dir, "from")
	}
	writeTree(t, fromDir, source)
	done, kills := false, 0
	for n := 0; !done; n += 3 {
		to := fmt.Sprintf("lab:to%d", n)
		dir := filepath.Join(l.dir, to[len("lab:"):])
		if !put {
			to = filepath.Join(here, fmt.Sprint(n))
			dir = to
		}
		writeTree(t, dir, dest)
		s.stopAfter(n)
		c := runChild(t, childOptions{}, l.args("sync", "--delete", from, to)...)
		select {
		case <-s.reached:
			kills++
			_ = c.cmd.Process.Kill()
			c.wantExit(-1)
			close(s.release)
		case <-endOf(c.stderr):
			c.wantExit(0)
			done = true
		case <-time.After(labPatience):
			t.Fatal("neither reached nor done")
		}
		s.stopAfter(-1)
		eventually(t, "the server notices", func() bool { return l.server.Counters().Conns == 0 })
		for _, f := range named(t, dir) {
			if !strings.HasSuffix(f, "/") && !whole[f] {
				t.Errorf("killed after %d operations: %.100s", n, f)
			}
		}
		l.must("sync", "--delete", from, to)
		if got := treeOf(t, dir); got != source {
			t.Errorf("killed after %d operations, and the next run makes %.300s", n, got)
		}
	}
	if kills < 5 {
		t.Errorf("killed %d times only", kills)
	}
}

// A nameless tree refuses its first rename once it is released.
type nameless struct {
	store.Tree
	once    sync.Once
	reached chan struct{} // closed at the first rename
	release chan struct{}
}

func (s *nameless) Rename(ctx context.Context, from, to string, replace bool) error {
	first := false
	s.once.Do(func() {
		first = true
		close(s.reached)
		<-s.release
	})
	if first {
		return fs.ErrPermission
	}
	return s.Tree.Rename(ctx, from, to, replace)
}

// A put that is killed before its file has a name leaves a temporary file. The next put removes it,
// even if a thousand runs were killed before.
func TestPutKilled(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	for i := range 1000 {
		writeFile(t, filepath.Join(state, "haul", "runs", fmt.Sprint(i)), "")
	}
	s := &nameless{reached: make(chan struct{}), release: make(chan struct{})}
	l := startLabWith(t, labOptions{tree: func(tree store.Tree) store.Tree { s.Tree = tree; return s }}, nil)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "content")
	c := runChild(t, childOptions{}, l.args("put", file, "lab:file")...)
	select {
	case <-s.reached:
	case <-time.After(labPatience):
		t.Fatal("it renames nothing")
	}
	_ = c.cmd.Process.Kill()
	c.wantExit(-1)
	close(s.release)
	eventually(t, "the server notices", func() bool { return l.server.Counters().Conns == 0 })
	if left := treeOf(t, l.dir); !strings.HasPrefix(left, ".haul-") {
		t.Errorf("the killed run has left %q: what does this test show?", left)
	}
	l.must("put", file, "lab:file")
	if got := treeOf(t, l.dir); got != "file=content" {
		t.Errorf("after the next run there are %q", got)
	}
}

// named returns the files below a directory like treeOf, but without temporary files.
func named(t *testing.T, dir string) []string {
	return slices.DeleteFunc(strings.Fields(treeOf(t, dir)), func(f string) bool { return strings.Contains(f, ".haul-") })
}

// endOf returns a channel that is closed when a process has ended.
func endOf(s *transcript) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			s.mu.Lock()
			over, grown := s.over, s.grown
			s.mu.Unlock()
			if over {
				return
			}
			<-grown
		}
	}()
	return ended
}
