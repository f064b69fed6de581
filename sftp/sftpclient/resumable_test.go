package sftpclient

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// keepLittle makes resumable uploads write many records.
const keepLittle = 300_000

// keeper begins a resumable upload.
func keeper(t *testing.T, c *Client, name string, size int64) *resumableUpload {
	t.Helper()
	c.recordEvery = keepLittle
	u, err := c.Store("").Create(t.Context(), name, store.Create{Size: size, Resume: "me", Source: "this"})
	if err != nil {
		t.Fatal(err)
	}
	return u.(*resumableUpload)
}

// hiddenNames returns the names of temporary files and records, which users do not see.
func (p *fakeServer) hiddenNames(t *testing.T) (names []string) {
	list, err := p.tree.ReadDir(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if isUpload(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// No matter when a client stops, the bytes that a resumed upload keeps are the first bytes of the
// data, even if answers arrived late and out of order.
func TestResumableUploads(t *testing.T) {
	data := pattern(5<<20, 1)
	most := int64(0)
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, seed))
			p := newFakeServer()
			p.link = netLink{latency: 3 * time.Millisecond, rate: 5 << 20}
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == wire.TypeWrite && q.Offset/100_000%7 == int64(seed%7) {
					time.Sleep(time.Duration(q.Offset%13) * time.Millisecond) // this session falls behind
				}
				return nil, false
			}
			var before int64
			for !func() (done bool) {
				c := p.client(t, Config{RequestBytes: 32 << 10, Memory: 256 << 10})
				k := keeper(t, c, "f", int64(len(data)))
				if k.Resumed() < before {
					t.Errorf("seed %d: %d bytes are left, and were %d", seed, k.Resumed(), before)
				}
				before = k.Resumed()
				most = max(most, before)
				got := p.get(t, strings.TrimPrefix(k.temp, "./"))
				if int64(len(got)) < before || !bytes.Equal(got[:before], data[:before]) {
					t.Errorf("seed %d: what is left is %d bytes, and not the start of %d", seed, len(got), before)
				}
				if rnd.IntN(4) > 0 {
					timer := time.AfterFunc(time.Duration(rnd.IntN(900))*time.Millisecond, func() { _ = c.Close() })
					defer timer.Stop()
				}
				_, err := k.FillFrom(t.Context(), bytes.NewReader(data), before, int64(len(data))-before)
				if err == nil {
					err = k.Commit()
				}
				_ = k.Close()
				_ = c.Close()
				p.wait.Wait()
				return err == nil
			}() {
			}
			if !bytes.Equal(p.get(t, "f"), data) {
				t.Errorf("seed %d: the file has other bytes", seed)
			}
			if left := p.hiddenNames(t); len(left) > 0 {
				t.Errorf("seed %d: %q is left", seed, left)
			}
		})
	}
	if most < int64(len(data))/2 {
		t.Errorf("no more than %d bytes were ever left of %d", most, len(data))
	}
}

// Close keeps all data that was written in order and that the server has confirmed. Discard keeps
// nothing.
func TestResumesUploads(t *testing.T) {
	data := pattern(1<<20, 1)
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		size := int64(len(data))
		write := func(k *resumableUpload, off, end int) {
			t.Helper()
			if n, err := k.WriteAt(data[off:end], int64(off)); n != end-off || err != nil {
				t.Errorf("WriteAt = %d, %v", n, err)
			}
		}
		end := func(k *resumableUpload) {
			t.Helper()
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
		resumed := func(k *resumableUpload, want int64) {
			t.Helper()
			if k.Resumed() != want {
				t.Errorf("%d bytes are there, want %d", k.Resumed(), want)
			}
		}
		k := keeper(t, c, "f", size)
		write(k, 0, 400_000)
		write(k, 400_000, 500_000)
		write(k, 700_000, 800_000) // after a gap
		end(k)
		if len(p.hiddenNames(t)) != 2 {
			t.Errorf("hidden are %q", p.hiddenNames(t))
		}
		k = keeper(t, c, "f", size)
		resumed(k, 500_000)
		write(k, 100_000, 200_000) // again
		end(k)
		k = keeper(t, c, "f", size)
		resumed(k, 500_000)
		write(k, 500_000, 600_000)
		if err := k.Truncate(250_000); err != nil {
			t.Error(err)
		}
		end(k)
		k = keeper(t, c, "f", size)
		resumed(k, 250_000)
		if f, err := (&remoteTree{c: c}).openUpload(t.Context(), k); err != nil {
			t.Error(err)
		} else {
			got := make([]byte, 250_000)
			if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, data[:250_000]) {
				t.Errorf("what is there is not what was written: %v", err)
			}
			_ = f.Close()
		}
		end(k)
		// With another size, or another source, it is a different upload.
		k = keeper(t, c, "f", size+1)
		resumed(k, 0)
		end(k)
		if left := p.hiddenNames(t); len(left) > 0 {
			t.Errorf("of one that was not begun, %q is left", left)
		}
		k = keeper(t, c, "f", size)
		write(k, 0, 500_000)
		end(k)
		u, err := c.Store("").Create(t.Context(), "f", store.Create{Size: size, Resume: "me", Source: "that"})
		if err != nil {
			t.Fatal(err)
		}
		resumed(u.(*resumableUpload), 0)
		end(u.(*resumableUpload))

		k = keeper(t, c, "f", size)
		write(k, 0, 500_000)
		if err := k.Discard(); err != nil {
			t.Error(err)
		}
		end(k)
		k = keeper(t, c, "f", size)
		resumed(k, 0)
		write(k, 0, len(data))
		mode, then := fs.FileMode(0o640), time.Unix(1_000_000_000, 0)
		if err := k.SetAttr(store.Attr{Mode: &mode, ModTime: then}); err != nil {
			t.Error(err)
		}
		if err := k.SetAttr(store.Attr{Size: &size}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("SetAttr of a size: %v", err)
		}
		if err := k.Commit(); err != nil {
			t.Error(err)
		}
		if err := k.Commit(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Commit again: %v", err)
		}
		fi, err := c.Stat(t.Context(), "f")
		if err != nil || fi.Mode() != mode || !fi.ModTime().Equal(then) || !bytes.Equal(p.get(t, "f"), data) {
			t.Errorf("%v, %v", fi, err)
		}
		if left := p.hiddenNames(t); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
}

// Bytes after a gap cannot be resumed. Neither can a file that has lost bytes after its record was
// written, for example because the server crashed.
func TestResumedUploadsAreWhole(t *testing.T) {
	data := pattern(900_000, 1)
	size := int64(len(data))
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		fill := func(k *resumableUpload, off, n int64) {
			t.Helper()
			if got, err := k.FillFrom(t.Context(), bytes.NewReader(data), off, n); got != n || err != nil {
				t.Errorf("FillFrom %d = %d, %v", off, got, err)
			}
		}
		again := func(k *resumableUpload, want int64) *resumableUpload {
			t.Helper()
			if err := k.Close(); err != nil {
				t.Error(err)
			}
			if k = keeper(t, c, "f", size); k.Resumed() != want {
				t.Errorf("%d bytes are there, want %d", k.Resumed(), want)
			}
			return k
		}
		k := keeper(t, c, "f", size)
		fill(k, 0, 100_000)
		fill(k, 500_000, 400_000)
		k = again(k, 100_000)
		fill(k, 100_000, 400_000)
		k = again(k, 500_000)
		temp := k.temp
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if err := c.SetAttr(t.Context(), temp, store.Attr{Size: new(int64(499_999))}, true); err != nil {
			t.Error(err)
		}
		k = again(k, 0)
		fill(k, 0, size)
		if err := k.Commit(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "f"), data) {
			t.Error("the file has other bytes")
		}
		if left := p.hiddenNames(t); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
}

// If another user replaced the temporary file with another file, the client does not write to that
// file.
func TestResumableUploadsArePrivate(t *testing.T) {
	data := pattern(500_000, 1)
	plant := map[string]func(*testing.T, *Client, *fakeServer, string){
		"a link": func(t *testing.T, c *Client, _ *fakeServer, temp string) {
			if err := c.Symlink(t.Context(), "victim", temp); err != nil {
				t.Error(err)
			}
		},
		"a file for all": func(t *testing.T, c *Client, p *fakeServer, temp string) {
			p.put(t, temp, pattern(400_000, 2))
		},
	}
	for name, f := range plant {
		for _, record := range []bool{false, true} {
			withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
				p.put(t, "victim", []byte("good"))
				k := keeper(t, c, "f", int64(len(data)))
				if _, err := k.WriteAt(data[:400_000], 0); err != nil {
					t.Error(err)
				}
				if err := k.Close(); err != nil {
					t.Error(err)
				}
				for _, planted := range []string{k.temp, k.record.name} {
					if planted == k.record.name && !record {
						continue
					}
					if err := c.RemoveFile(t.Context(), planted); err != nil {
						t.Error(err)
					}
					f(t, c, p, planted)
				}
				k = keeper(t, c, "f", int64(len(data)))
				if k.Resumed() != 0 {
					t.Errorf("%s: it resumes that", name)
				}
				if _, err := k.WriteAt(data, 0); err != nil {
					t.Error(err)
				}
				if err := k.Commit(); err != nil {
					t.Error(err)
				}
				if string(p.get(t, "victim")) != "good" || !bytes.Equal(p.get(t, "f"), data) {
					t.Errorf("%s: what it leads to was written", name)
				}
				// Without a record, the planted file belongs to no upload.
				if left := p.hiddenNames(t); len(left) > 0 && !record {
					t.Errorf("%s: %q is left", name, left)
				}
			})
		}
	}
}

// An upload through a symbolic link can be resumed. Its temporary file is in the directory of the
// link's target.
func TestResumableUploadThroughLink(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "real", []byte("old"))
		if err := c.Symlink(t.Context(), "real", "link"); err != nil {
			t.Fatal(err)
		}
		k := keeper(t, c, "link", 3)
		if _, err := k.WriteAt([]byte("new"), 0); err != nil {
			t.Error(err)
		}
		if err := k.Commit(); err != nil {
			t.Error(err)
		}
		if string(p.get(t, "real")) != "new" {
			t.Errorf("it has %q", p.get(t, "real"))
		}
		for name, want := range map[string]error{"": fs.ErrInvalid, "none/f": fs.ErrNotExist} {
			if _, err := createResumable(t.Context(), c, name, store.Create{Resume: "me"}); !errors.Is(err, want) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := createResumable(t.Context(), c, "real", store.Create{Resume: "me", Exclusive: true}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("exclusive: %v", err)
		}
	})
}

// A file from a listing is opened without a Stat, and any other file with one.
func TestOpensListed(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(10_000, 1)
		p.put(t, "f", data)
		st := c.Store("").(*remoteTree)
		list, err := st.ReadDir(t.Context(), ".")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		fi, err := list[0].Info()
		if err != nil {
			t.Fatal(err)
		}
		read := func(f store.File, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var b memoryFile
			if n, err := f.(*File).FetchTo(t.Context(), &b, 0); int(n) != len(data) || err != nil || !bytes.Equal(b.b, data) {
				t.Errorf("FetchTo = %d, %v", n, err)
			}
		}
		stats := p.count("STAT")
		read(st.openListed(t.Context(), "f", fi))
		if n := p.count("STAT") - stats; n != 0 {
			t.Errorf("%d STATs for a file of a listing", n)
		}
		// The file may have grown since the listing.
		data = append(data, data...)
		p.put(t, "f", data)
		read(st.openListed(t.Context(), "f", fi))
		mem := store.FromBytes("f", data)
		other, err := mem.Stat()
		if err != nil {
			t.Fatal(err)
		}
		read(st.openListed(t.Context(), "f", other))
		if n := p.count("STAT") - stats; n == 0 {
			t.Error("no STAT for a file of somebody else's listing")
		}
		if _, err := st.openListed(t.Context(), "../f", fi); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("a name that leads out: %v", err)
		}
	})
}

type memoryFile struct{ b []byte }

func (m *memoryFile) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[off:], p), nil
}

// If a listing contains invalid names, the other entries are returned first.
func TestListsAroundUnsafeNames(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		asked := 0
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type != wire.TypeReaddir {
				return nil, false
			}
			if asked++; asked >= 3 {
				return wire.AppendStatus(nil, q.ID, wire.EOF, ""), true
			}
			b := wire.AppendNames(nil, q.ID)
			for _, n := range []string{"a", "../b", "", "c"} {
				b = wire.AppendEntry(b, 0, n, nil, wire.Attrs{})
			}
			return b, true
		}
	}, func(t *testing.T, _ *fakeServer, c *Client) {
		d, err := c.OpenDir(t.Context(), ".")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var names []string
		into := make([]fs.FileInfo, 10)
		for err == nil {
			var n int
			n, err = d.Next(into)
			for _, fi := range into[:n] {
				names = append(names, fi.Name())
			}
		}
		if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), `"../b"`) || strings.Join(names, " ") != "a c a c" {
			t.Errorf("%q, %v", names, err)
		}
	})
}
