package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

type clientContext = context.Context

var errEndOfList = io.EOF

func TestOperations(t *testing.T) {
	var owner [2]uint32 // the owner that was set last; the store itself has no owners
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = time.Millisecond
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeSetstat || !q.Attrs.Has(wire.AttrOwner) {
				return nil, false
			}
			owner = [2]uint32{q.Attrs.UID, q.Attrs.GID}
			return wire.AppendStatus(nil, q.ID, wire.OK, ""), true
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		check := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		wantMode := func(name string, want fs.FileMode) {
			t.Helper()
			if fi, err := c.Lstat(ctx, name); err != nil || fi.Mode() != want {
				t.Errorf("%s: %v, %v, want mode %v", name, fi, err, want)
			}
		}
		check("MkdirAll", c.MkdirAll(ctx, "a/b/c", 0o750))
		wantMode("a/b/c", fs.ModeDir|0o750)
		check("MkdirAll again", c.MkdirAll(ctx, "a/b/c", 0o700))
		p.put(t, "a/f", []byte("0123456789"))
		check("Rename", c.Rename(ctx, "a/f", "a/g"))
		p.put(t, "a/f", []byte("other"))
		check("Rename over", c.Rename(ctx, "a/f", "a/g"))
		if got := p.get(t, "a/g"); string(got) != "other" {
			t.Errorf("after Rename there is %q", got)
		}
		check("Move", c.Move(ctx, "a/g", "h"))
		check("Link", c.Link(ctx, "h", "a/i"))
		check("Symlink", c.Symlink(ctx, "../h", "a/link"))
		wantMode("a/link", fs.ModeSymlink|0o777)
		if target, err := c.Readlink(ctx, "a/link"); target != "../h" || err != nil {
			t.Errorf("Readlink = %q, %v", target, err)
		}
		if fi, err := c.Stat(ctx, "a/link"); err != nil || fi.Size() != 5 || fi.Name() != "link" {
			t.Errorf("Stat through a link = %v, %v", fi, err)
		}
		if real, err := c.RealPath(ctx, "a/link"); real != "/h" || err != nil {
			t.Errorf("RealPath = %q, %v", real, err)
		}
		check("Chmod", c.Chmod(ctx, "h", 0o640))
		wantMode("h", 0o640)
		when := time.Unix(1_234_567_890, 0)
		check("SetAttr of the times", c.SetAttr(ctx, "h", store.Attr{AccessTime: when, ModTime: when.Add(time.Hour)}, true))
		check("SetAttr of one time", c.SetAttr(ctx, "h", store.Attr{ModTime: when.Add(2 * time.Hour)}, true))
		fi, err := c.Stat(ctx, "h")
		if d, ok := store.DetailsOf(fi); err != nil || !fi.ModTime().Equal(when.Add(2*time.Hour)) || !ok || !d.AccessTime.Equal(when) {
			t.Errorf("after SetAttr of the times: %v, %v", fi, err)
		}
		uid, gid := uint32(12), uint32(34)
		check("SetAttr of the owners", c.SetAttr(ctx, "h", store.Attr{UID: &uid, GID: &gid}, true))
		if owner != [2]uint32{12, 34} {
			t.Errorf("SetAttr to %v", owner)
		}
		uid = 56
		check("SetAttr of one owner", c.SetAttr(ctx, "h", store.Attr{UID: &uid}, true))
		if owner != [2]uint32{56, 0} { // the group did not change
			t.Errorf("SetAttr to %v", owner)
		}
		size := int64(3)
		check("SetAttr of the size", c.SetAttr(ctx, "h", store.Attr{Size: &size}, true))
		if got := p.get(t, "h"); string(got) != "oth" {
			t.Errorf("after SetAttr of the size there is %q", got)
		}
		check("SetAttr of nothing", c.SetAttr(ctx, "h", store.Attr{}, true))
		check("SetAttr of a link", c.SetAttr(ctx, "a/link", store.Attr{ModTime: when, AccessTime: when}, false))
		check("Remove of a link", c.Remove(ctx, "a/link"))
		check("Remove of a directory", c.Remove(ctx, "a/b/c"))
		check("RemoveFile", c.RemoveFile(ctx, "a/i"))
		check("RemoveDir", c.RemoveDir(ctx, "a/b"))
		list, err := c.ReadDir(ctx, "a")
		if err != nil || len(list) != 0 {
			t.Errorf("ReadDir = %v, %v", list, err)
		}
	})
}

func TestExtensions(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		p.tree = fullTree{p.tree}
		data := pattern(700_000, 1)
		p.put(t, "f", data)
		if s, err := c.Space(ctx, "f"); err != nil || s.Available != 5<<20 || s.Total != 100<<20 || s.MaxName != 255 {
			t.Errorf("Space = %+v, %v", s, err)
		}
		if n, err := c.CopyFile(ctx, "f", "g"); n != 700_000 || err != nil {
			t.Errorf("CopyFile = %d, %v", n, err)
		}
		if got := p.get(t, "g"); !slices.Equal(got, data) {
			t.Error("the copy has other bytes")
		}
		if p.count("READ")+p.count("WRITE") != 0 {
			t.Error("data of a copy came here")
		}
		if n, err := c.CopyFile(ctx, "f", "f"); n != 700_000 || err != nil || !slices.Equal(p.get(t, "f"), data) {
			t.Errorf("CopyFile to itself = %d, %v", n, err)
		}
		if _, err := c.CopyFile(ctx, "none", "h"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("CopyFile of nothing: %v", err)
		}
		if p, err := c.ExpandPath(ctx, "~/x"); p != "/home/me/x" || err != nil {
			t.Errorf("ExpandPath = %q, %v", p, err)
		}
		if h, err := c.HomeDir(ctx, "you"); h != "/home/you" || err != nil {
			t.Errorf("HomeDir = %q, %v", h, err)
		}
		if h, err := c.HomeDir(ctx, ""); h != "/" || err != nil {
			t.Errorf("HomeDir of oneself = %q, %v", h, err)
		}
		ids := make([]uint32, 600)
		for i := range ids {
			ids[i] = uint32(i + 500)
		}
		users, groups, err := c.OwnerNames(ctx, ids, ids[:3])
		if err != nil || len(users) != 600 || len(groups) != 3 || users[0] != "n500ns" || users[599] != "" || groups[2] != "n502ns" {
			t.Errorf("OwnerNames = %d, %q, %v", len(users), groups, err)
		}
		if a, sum, err := c.Hash(ctx, "f", 0, 0, "sha256", "md5"); a != "sha256" || string(sum) != "hash of f" || err != nil {
			t.Errorf("Hash = %q, %q, %v", a, sum, err)
		}
		f, err := c.Create(ctx, "h")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Errorf("Sync: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The client does not use extensions that a server does not offer.
func TestWithoutExtensions(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.ext = 0 }, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		p.put(t, "f", nil)
		p.put(t, "g", nil)
		f, err := c.Create(ctx, "h")
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"Space":      second(c.Space(ctx, "f")),
			"CopyFile":   second(c.CopyFile(ctx, "f", "x")),
			"ExpandPath": second(c.ExpandPath(ctx, "~")),
			"HomeDir":    second(c.HomeDir(ctx, "you")),
			"Link":       c.Link(ctx, "f", "x"),
			"Sync":       f.Sync(),
			"SetAttr":    c.SetAttr(ctx, "f", store.Attr{ModTime: time.Now(), AccessTime: time.Now()}, false),
		} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, _, err := c.Hash(ctx, "f", 0, 0, "md5"); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Hash: %v", err)
		}
		if _, _, err := c.OwnerNames(ctx, []uint32{1}, nil); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("OwnerNames: %v", err)
		}
		if err := c.Rename(ctx, "f", "g"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Rename over a file: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if n := p.count(wire.ExtLimits.String()); n != 1 {
			t.Errorf("limits asked for %d times", n)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Calls that may be repeated survive the loss of their session.
func TestCallsSurviveASession(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = 10 * time.Millisecond
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if s.n == 1 && q.Type != wire.TypeInit && q.Extension != wire.ExtLimits && q.Type != wire.TypeOpen {
				s.kill()
				return nil, true
			}
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", []byte("x"))
		f, err := c.Open(t.Context(), "g")
		if !errors.Is(err, fs.ErrNotExist) && err != nil {
			t.Errorf("Open: %v", err)
		}
		_ = f
		if _, err := c.Stat(t.Context(), "f"); err != nil {
			t.Errorf("Stat: %v", err)
		}
		if err := c.Remove(t.Context(), "f"); err != nil {
			t.Errorf("Remove: %v", err)
		}
	})
	// A request that must not be repeated is sent only once.
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeRemove || q.Type == wire.TypeMkdir {
				s.kill()
				return nil, true
			}
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		if err := c.RemoveFile(t.Context(), "f"); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("RemoveFile: %v", err)
		}
		if err := c.Mkdir(t.Context(), "d", 0o755); !errors.Is(err, ErrConnectionLost) {
			t.Errorf("Mkdir: %v", err)
		}
		if n := p.count("REMOVE"); n != 1 {
			t.Errorf("REMOVE was sent %d times", n)
		}
	})
}

// Many small files cost no more than their share of round trips, because round trips overlap.
func TestManySmallFiles(t *testing.T) {
	const files, size, atOnce = 2000, 4 << 10, 128
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 10 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(size, 1)
		work := make(chan int)
		errs := make(chan error, atOnce)
		each := func(f func(i int) error) float64 {
			return trips(p, func() {
				for range atOnce {
					go func() {
						var first error
						for i := range work {
							if err := f(i); err != nil && first == nil {
								first = err
							}
						}
						errs <- first
					}()
				}
				for i := range files {
					work <- i
				}
				close(work)
				for range atOnce {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				work = make(chan int)
			})
		}
		put := each(func(i int) error { return uploadAll(t.Context(), c, fmt.Sprint("f", i), data) })
		got := each(func(i int) error { return fetchAndCompare(t.Context(), c, fmt.Sprint("f", i), data) })
		// Each of the 128 goroutines moves about 16 files: in 4 round trips each to put, and 2 to
		// get.
		if put > 16*4+20 || got > 16*2+20 {
			t.Errorf("%d files took %.0f round trips to put and %.0f to get", files, put, got)
		}
	})
}

// If a server reports more free than total space, the used space is 0, not negative.
func TestInvalidSpace(t *testing.T) {
	s := storewire.SpaceOf(wire.StatVFS{FragmentSize: 4096, Blocks: 10, FreeBlocks: 1 << 62, AvailableBlocks: 1 << 63})
	if s.Total != 40960 || s.Free != s.Total || s.Available != s.Total {
		t.Errorf("%+v", s)
	}
}
