package treecopy_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// inBubble runs f with a client of a server that serves a tree, with a given latency.
func inBubble(t *testing.T, tree store.Tree, latency time.Duration, f func(t *testing.T, c *sftpclient.Client)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, tree, false)
		c := h.dial(t, latency, 0, 0)
		f(t, c)
		_ = c.Close()
		h.end()
	})
}

// Many small files share their round trips: at a round trip of 20 ms at least 4,000 files a second
// are downloaded, and 3,000 uploaded. A client that copies one file after another, as sftp -r does,
// takes four round trips for each: to open it, to read it, to find its end, and to close it.
func TestRoundTrips(t *testing.T) {
	const (
		trip  = 20 * time.Millisecond
		files = 3000
		dirs  = 30
	)
	fill := func(t *testing.T) store.Tree {
		m := store.Mem(256 << 20)
		for i := range files {
			put(t, m, fmt.Sprintf("d/%d/%d", i%dirs, i), pattern(4096, uint64(i)))
		}
		return m
	}
	oneByOne := 4 * files * trip
	for _, upload := range []bool{false, true} {
		t.Run(fmt.Sprint("upload ", upload), func(t *testing.T) {
			local, served := fill(t), store.Mem(256<<20)
			if !upload {
				local, served = served, local
			}
			inBubble(t, served, trip/2, func(t *testing.T, c *sftpclient.Client) {
				from, to := c.Store("/"), local
				if upload {
					from, to = to, from
				}
				began := time.Now()
				o := treecopy.Options{Recursive: true, PreserveMode: true, PreserveTimes: true}
				r, _, err := copyAll(t.Context(), from, to, ".", o, "d")
				took := time.Since(began)
				if err != nil || r.Copied != files {
					t.Errorf("%+v, %v", r, err)
				}
				t.Logf("%d files took %v, %.2f round trips each, and one by one %v", files, took, float64(took)/float64(trip)/files, oneByOne)
				least := 4000.0
				if upload {
					least = 3000
				}
				if rate := files / took.Seconds(); rate < least {
					t.Errorf("%.0f files a second, want %.0f", rate, least)
				}
			})
			wantSame(t, contents(t, served, true), contents(t, local, true))
		})
	}
}

// A directory with very many entries, and very many directories, take few round trips and little
// memory.
func TestListingRoundTrips(t *testing.T) {
	const trip = 20 * time.Millisecond
	m := store.Mem(256 << 20)
	for i := range 1000 {
		put(t, m, fmt.Sprintf("d/%d/%d/f", i/100, i), nil)
	}
	inBubble(t, m, trip/2, func(t *testing.T, c *sftpclient.Client) {
		began := time.Now()
		r, _, err := copyAll(t.Context(), c.Store("/"), store.Mem(0), ".", treecopy.Options{Recursive: true, DryRun: true}, "d")
		took := time.Since(began)
		if err != nil || r.Found.Files != 1000 || r.Made != 1011 {
			t.Errorf("%+v, %v", r, err)
		}
		t.Logf("1011 directories took %v", took)
		if took > 1011*2*trip/8 {
			t.Errorf("1011 directories took %v", took)
		}
	})
	files := race.Fewer(100_000, 10)
	crowd := crowded{m, files}
	inBubble(t, crowd, trip/2, func(t *testing.T, c *sftpclient.Client) {
		r, _, err := copyAll(t.Context(), c.Store("/"), store.Mem(0), ".", treecopy.Options{Recursive: true, DryRun: true}, "crowd")
		if err != nil || r.Found.Files != int64(files) || r.Copied != int64(files) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A crowded tree has a directory with many files.
type crowded struct {
	store.Tree
	n int
}

func (c crowded) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == "crowd" {
		name = "d"
	}
	return c.Tree.Stat(ctx, name)
}

func (c crowded) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	if name != "crowd" {
		return c.Tree.OpenDir(ctx, name)
	}
	fi, err := c.Tree.Stat(ctx, "d/0/0/f")
	if err != nil {
		return nil, err
	}
	list := make([]fs.FileInfo, c.n)
	for i := range list {
		list[i] = lie{fi, fmt.Sprint("file ", i), 0o644}
	}
	return &lies{list: list, end: func() {}}, nil
}

// The limit applies to all files together, small ones and large ones, in both directions.
func TestLimit(t *testing.T) {
	const limit = 1 << 20
	m := store.Mem(256 << 20)
	for i := range 50 {
		put(t, m, fmt.Sprintf("d/small %d", i), pattern(100_000, uint64(i)))
	}
	for i := range 3 {
		put(t, m, fmt.Sprintf("d/large %d", i), pattern(3<<20, uint64(i)))
	}
	total := int64(50*100_000 + 3*3<<20)
	want := time.Duration(total) * time.Second / limit
	inBubble(t, m, 5*time.Millisecond, func(t *testing.T, c *sftpclient.Client) {
		for i, to := range []store.Tree{store.Mem(256 << 20), c.Store("/")} {
			began := time.Now()
			target := "copy"
			r, _, err := copyAll(t.Context(), c.Store("/"), to, target, treecopy.Options{Recursive: true, Limit: limit}, "d")
			if err != nil || r.Bytes != total {
				t.Errorf("%+v, %v", r, err)
			}
			if took := time.Since(began); took < want-time.Second || took > want+2*time.Second {
				t.Errorf("%d: it took %v, want %v", i, took, want)
			}
		}
	})
}
