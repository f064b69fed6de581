package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// putSmall uploads data in the same way as treecopy.
func putSmall(ctx context.Context, c *Client, name string, data []byte) error {
	u, err := c.Store("").Create(ctx, name, store.Create{Size: int64(len(data)), Perm: 0o640, NoSync: true})
	if err != nil {
		return err
	}
	defer u.Close()
	if len(data) > 0 {
		if _, err := u.(*upload).FillFrom(ctx, bytes.NewReader(data), 0, int64(len(data))); err != nil {
			return err
		}
	}
	if err := u.(interface{ SetAttr(store.Attr) error }).SetAttr(store.Attr{AccessTime: time.Unix(1, 0), ModTime: time.Unix(1e9, 0)}); err != nil {
		return err
	}
	return u.Commit()
}

// wantTree checks the names of all files, and that each has the mode, time and content that
// putSmall uploads.
func wantTree(t *testing.T, p *fakeServer, data []byte, names ...string) {
	t.Helper()
	list, err := p.tree.ReadDir(context.Background(), ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
		fi, err := p.tree.Stat(context.Background(), e.Name())
		if err != nil || fi.Mode() != 0o640 || fi.ModTime().Unix() != 1e9 {
			t.Errorf("%s: %v %v, %v", e.Name(), fi.Mode(), fi.ModTime(), err)
		}
		if !bytes.Equal(p.get(t, e.Name()), data) {
			t.Errorf("%s has other content", e.Name())
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("there are %q, want %q", got, names)
	}
	if n := p.openHandles(); n != 0 {
		t.Errorf("%d handles are open", n)
	}
}

// A small upload takes three round trips: to open a temporary file, to write it with its
// attributes and close it, and to rename it. A server that is not known to keep the order of
// requests gets the attributes when the data is written.
func TestSmallUploadRoundTrips(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, size := range []int{0, 100, 4 << 10, 40_000, maxUnconfirmed} {
		for _, ordered := range []bool{true, false} {
			want := 3 * trip
			if !ordered && size > 0 {
				want = 4 * trip
			}
			data := pattern(size, 1)
			withFakeServer(t, Config{}, func(p *fakeServer) {
				p.link.latency = trip / 2
				if !ordered {
					p.ext = p.ext.Without(wire.ExtLimits)
				}
			}, func(t *testing.T, p *fakeServer, c *Client) {
				began := time.Now()
				if err := putSmall(t.Context(), c, "f", data); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < want || took > want+trip/4 {
					t.Errorf("%d bytes, ordered %v: it took %v, want %v", size, ordered, took, want)
				}
				wantTree(t, p, data, "f")
			})
		}
	}
}

// The client relies on the order of requests only with servers that are known by their version
// and announce their limits: another server might execute the CLOSE of a small upload before its
// WRITE.
func TestServersInOrder(t *testing.T) {
	for version, known := range map[string]bool{
		"SSH-2.0-OpenSSH_9.2p1 Debian-2": true, "SSH-2.0-haul": true, "SSH-2.0-Go": false, "SSH-2.0-AsyncSSH_2.10.1": false,
	} {
		for _, limits := range []bool{true, false} {
			p := newFakeServer()
			if !limits {
				p.ext = p.ext.Without(wire.ExtLimits)
			}
			h := newSSHHost(t, p)
			h.config.ServerVersion = version
			c, err := Dial(t.Context(), h.listen(t), h.clientConfig("secret"), Config{})
			if err != nil {
				t.Fatal(err)
			}
			if want := known && limits; c.server.InOrder != want {
				t.Errorf("%s, limits %v: in order %v, want %v", version, limits, c.server.InOrder, want)
			}
			data := pattern(4096, 1)
			if err := putSmall(t.Context(), c, "f", data); err != nil {
				t.Errorf("%s, limits %v: %v", version, limits, err)
			}
			wantTree(t, p, data, "f")
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// The server receives the requests of a small upload in an order that keeps it complete, although
// large packets wait behind small ones.
func TestSmallUploadOrder(t *testing.T) {
	for _, size := range []int{100, maxUnconfirmed} {
		var mu sync.Mutex
		seen := map[string][]wire.Type{} // by handle
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.link.latency, p.link.rate = time.Millisecond, 10<<20
			p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == wire.TypeWrite || q.Type == wire.TypeFsetstat || q.Type == wire.TypeClose {
					mu.Lock()
					seen[string(q.Handle)] = append(seen[string(q.Handle)], q.Type)
					mu.Unlock()
				}
				return nil, false
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			data := pattern(size, 1)
			var work sync.WaitGroup
			for i := range 20 {
				work.Go(func() {
					if err := putSmall(t.Context(), c, fmt.Sprintf("f%02d", i), data); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			mu.Lock()
			defer mu.Unlock()
			for h, got := range seen {
				if !slices.Equal(got, []wire.Type{wire.TypeWrite, wire.TypeFsetstat, wire.TypeClose}) {
					t.Errorf("%d bytes: requests for handle %q: %v", size, h, got)
				}
			}
			if len(seen) != 20 {
				t.Errorf("%d handles, want 20", len(seen))
			}
		})
	}
}

// If one of the requests that are sent together is refused, the upload fails with that error,
// nothing is renamed, and nothing is left behind.
func TestSmallUploadRefused(t *testing.T) {
	for _, what := range []wire.Type{wire.TypeWrite, wire.TypeFsetstat, wire.TypeClose} {
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.link.latency = time.Millisecond
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != what {
					return nil, false
				}
				if what == wire.TypeClose {
					_ = s.close(string(q.Handle)) // a handle is closed even if CLOSE fails
				}
				return wire.AppendStatus(nil, q.ID, wire.PermissionDenied, "No!"), true
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			err := putSmall(t.Context(), c, "f", pattern(4096, 1))
			if !errors.Is(err, fs.ErrPermission) || !IsRemote(err) {
				t.Errorf("%v refused: %v", what, err)
			}
			if n := p.count("RENAME") + p.count(wire.ExtPosixRename.String()); n != 0 {
				t.Errorf("%v refused: it was renamed", what)
			}
			if n := p.count("CLOSE"); n != 1 {
				t.Errorf("%v refused: %d times CLOSE; a second may close another file", what, n)
			}
			wantTree(t, p, nil)
		})
	}
}

// If the connection is lost after any number of bytes, the upload continues on another one, as with
// large files.
func TestSmallUploadSessionLost(t *testing.T) {
	for _, what := range []wire.Type{wire.TypeWrite, wire.TypeFsetstat, wire.TypeClose} {
		var once sync.Once
		data := pattern(4096, 1)
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.link.latency, p.conns = time.Millisecond, 3
			p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == what {
					once.Do(p.endFirst)
				}
				return nil, false
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			if err := putSmall(t.Context(), c, "f", data); err != nil {
				t.Errorf("lost at %v: %v", what, err)
			}
			time.Sleep(time.Second)
			wantTree(t, p, data, "f")
		})
	}
}

// If the context of an upload ends, the upload leaves no file, and closes each handle exactly once.
func TestSmallUploadCanceled(t *testing.T) {
	const trip = 2 * time.Millisecond
	for at := time.Duration(0); at < 4*trip; at += trip / 4 {
		withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = trip / 2 }, func(t *testing.T, p *fakeServer, c *Client) {
			ctx, cancel := context.WithTimeout(t.Context(), at+time.Microsecond)
			defer cancel()
			err := putSmall(ctx, c, "f", pattern(4096, 1))
			if err == nil || !errors.Is(err, context.DeadlineExceeded) {
				if at < 3*trip {
					t.Errorf("ended after %v: %v", at, err)
				}
			}
			time.Sleep(time.Minute)
			if n := p.openHandles(); n != 0 {
				t.Errorf("ended after %v: %d handles are open", at, n)
			}
			if opened, closed := p.count("OPEN"), p.count("CLOSE"); closed != opened {
				t.Errorf("ended after %v: %d times OPEN, and %d times CLOSE", at, opened, closed)
			}
			list, e := p.tree.ReadDir(context.Background(), ".")
			for _, entry := range list {
				if tempname.Is(entry.Name()) {
					t.Errorf("ended after %v: %s is left, %v", at, entry.Name(), e)
				}
			}
		})
	}
}

// Uploads that wait for Commit hold no more memory than Config.Memory. Data beyond that is written
// at once.
func TestSmallUploadMemory(t *testing.T) {
	const memory, size = 256 << 10, 32 << 10
	withFakeServer(t, Config{Memory: memory}, func(p *fakeServer) { p.link.latency = time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(size, 1)
		var uploads []store.Upload
		for i := range 40 {
			u, err := c.Store("").Create(t.Context(), fmt.Sprintf("f%02d", i), store.Create{Size: size, NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := u.(*upload).FillFrom(t.Context(), bytes.NewReader(data), 0, size); err != nil {
				t.Fatal(err)
			}
			uploads = append(uploads, u)
			held := c.mux.State().Held
			if held > memory+size {
				t.Fatalf("%d bytes are held, and %d may be", held, memory)
			}
		}
		for i, u := range uploads {
			if err := u.Commit(); err != nil {
				t.Error(err)
			}
			if name := fmt.Sprintf("f%02d", i); !bytes.Equal(p.get(t, name), data) {
				t.Errorf("%s has other content", name)
			}
		}
	})
}

// A source that has become shorter causes a local error. If it has grown, the bytes that were
// read are written.
func TestSmallUploadOfOtherSize(t *testing.T) {
	data := pattern(5000, 1)
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		u, err := c.Store("").Create(t.Context(), "short", store.Create{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		n, err := u.(*upload).FillFrom(t.Context(), bytes.NewReader(data[:10]), 0, 20)
		var moved *TransferError
		if n != 10 || !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &moved) || !moved.Local {
			t.Errorf("FillFrom of a file that ends too early = %d, %v", n, err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if u, err = c.Store("").Create(t.Context(), "grown", store.Create{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := u.(*upload).FillFrom(t.Context(), bytes.NewReader(data), 0, 4096); err != nil {
			t.Error(err)
		}
		if _, err := u.WriteAt(data[4096:], 4096); err != nil {
			t.Error(err)
		}
		if err := u.Commit(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "grown"), data) {
			t.Error("what was written behind the size is lost")
		}
	})
}
