package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// A gauge holds a number, such as that of open files, and the largest value that it has had.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) add(n int64) {
	now := g.now.Add(n)
	for m := g.most.Load(); now > m && !g.most.CompareAndSwap(m, now); m = g.most.Load() {
	}
}

// parallelFiles are small files and two large ones.
func parallelFiles() map[string]string {
	files := map[string]string{"large1": strings.Repeat("x", 400_000), "large2": strings.Repeat("y", 400_000)}
	for i := range 40 {
		files[fmt.Sprintf("%d/%d", i%5, i)] = fmt.Sprint(i)
	}
	return files
}

// A busyTree counts the open files. Opening a file takes a moment, so that the count shows if a
// client opens too many files at the same time.
type busyTree struct {
	store.Tree
	open *gauge
}

type busyHandle struct {
	store.Handle
	open *gauge
}

func (b busyTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := b.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	b.open.add(1)
	time.Sleep(2 * time.Millisecond)
	return busyHandle{h, b.open}, nil
}

func (h busyHandle) Close() error {
	h.open.add(-1)
	return h.Handle.Close()
}

// --parallel bounds the open files on an SFTP server, in both directions. For each open file, there
// may be another file whose CLOSE is in progress.
func TestParallelSFTP(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, n := range []int{1, 3} {
		open := new(gauge)
		l := startLabWith(t, labOptions{tree: func(tree store.Tree) store.Tree { return busyTree{tree, open} }}, parallelFiles())
		to := t.TempDir()
		l.must("get", "-r", "--parallel", fmt.Sprint(n), "lab:.", to)
		wantTree(t, to, parallelFiles())
		l.must("put", "-r", "--parallel", fmt.Sprint(n), to+"/.", "lab:new/")
		wantTree(t, filepath.Join(l.dir, "new"), parallelFiles())
		if most := open.most.Load(); most > int64(2*n) || n > 1 && most < 2 {
			t.Errorf("--parallel %d: %d files were open at a time", n, most)
		}
	}
}

// --parallel bounds the connections to a web server. Without it there are eight.
func TestParallelHTTP(t *testing.T) {
	t.Parallel() // it waits most of the time
	for n, args := range map[int][]string{1: {"--parallel", "1"}, 3: {"--parallel", "3"}, 8: nil} {
		asked := new(gauge)
		w := newWeb(t, parallelFiles())
		w.setHook(func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(2 * time.Millisecond)
			return false
		})
		w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			asked.add(1)
			defer asked.add(-1)
			w.ServeHTTP(rw, r)
		}))
		conns := new(atomic.Int64)
		w.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		w.Start()
		t.Cleanup(w.Server.Close)
		to := t.TempDir()
		w.must(append([]string{"get", "-r", w.URL + "/.", to}, args...)...)
		wantTree(t, to, parallelFiles())
		// All responses were read to the end, so no connection was replaced.
		if got := conns.Load(); got > int64(n) {
			t.Errorf("%q: %d connections", args, got)
		}
		if got := asked.most.Load(); got > int64(n) || n > 1 && got < 2 {
			t.Errorf("%q: %d requests at a time", args, got)
		}
	}
}
