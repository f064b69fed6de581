package sftpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A file that is prefetched with the handshake has the same content and attributes as without
// prefetching.
func TestPrefetch(t *testing.T) {
	for i, size := range []int{0, 0, 1, 1, 5000, 5000, wire.SureData - 1, wire.SureData - 1, wire.SureData, wire.SureData, wire.SureData + 1, 300_000} {
		first := []string{"read", "fetch"}[i%2]
		t.Run(fmt.Sprint(first, " ", size), func(t *testing.T) {
			data := pattern(size, 3)
			withFakeServer(t, Config{First: "f"}, func(p *fakeServer) { p.put(t, "f", data) }, func(t *testing.T, p *fakeServer, c *Client) {
				if fi, err := c.Stat(t.Context(), "f"); err != nil || fi.Size() != int64(size) {
					t.Errorf("Stat = %v, %v", fi, err)
				}
				// The prefetched file is used once, by the first of these reads.
				read := func() {
					f, err := c.Open(t.Context(), "f")
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					if b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30)); err != nil || !bytes.Equal(b, data) {
						t.Errorf("read %d bytes by ReadAt, %v", len(b), err)
					}
				}
				fetch := func() {
					if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
						t.Error(err)
					}
				}
				if first == "read" {
					read()
					fetch()
				} else {
					fetch()
					read()
				}
				if n := p.count("OPEN"); n != 2 {
					t.Errorf("%d times opened, want 2", n)
				}
			})
		})
	}
}

// If the whole content of a file arrived with the handshake, the client does not request it again,
// not even for sequential reads.
func TestPrefetchReadOnce(t *testing.T) {
	data := pattern(5000, 3)
	for name, write := range map[string]func(*File, io.Writer) (int64, error){
		"WriteTo": func(f *File, w io.Writer) (int64, error) { return f.WriteTo(w) },
		"Read": func(f *File, w io.Writer) (int64, error) {
			return io.CopyN(w, struct{ io.Reader }{f}, int64(len(data)))
		},
		"ReadAt": func(f *File, w io.Writer) (int64, error) { return io.Copy(w, io.NewSectionReader(f, 0, 1<<30)) },
		"a part, all": func(f *File, w io.Writer) (n int64, err error) {
			n, err = io.CopyN(w, f, 10)
			rest, err2 := f.WriteTo(w)
			return n + rest, errors.Join(err, err2)
		},
	} {
		for _, config := range []Config{{First: "f"}, {First: "f", NoReadAhead: true}} {
			t.Run(fmt.Sprint(name, " ", config.NoReadAhead), func(t *testing.T) {
				prepare := func(p *fakeServer) {
					p.plain = true
					p.put(t, "f", data)
				}
				withFakeServer(t, config, prepare, func(t *testing.T, p *fakeServer, c *Client) {
					f, err := c.Open(t.Context(), "f")
					if err != nil {
						t.Fatal(err)
					}
					defer f.Close()
					before := p.count("READ")
					var got bytes.Buffer
					if n, err := write(f, &got); err != nil || n != int64(len(data)) || !bytes.Equal(got.Bytes(), data) {
						t.Errorf("%d bytes, %v", n, err)
					}
					if n := p.count("READ") - before; n > 0 {
						t.Errorf("%d further READs", n)
					}
				})
			})
		}
	}
}

func TestPrefetchMissing(t *testing.T) {
	for _, test := range []struct {
		name, first string
		want        error
	}{
		{"missing", "missing", fs.ErrNotExist},
		{"directory", "d", store.ErrNotRegular},
		{"not a name", "a\x00b", fs.ErrInvalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			prepare := func(p *fakeServer) {
				if err := p.tree.Mkdir(t.Context(), "d", 0); err != nil {
					t.Error(err)
				}
			}
			withFakeServer(t, Config{First: test.first}, prepare, func(t *testing.T, _ *fakeServer, c *Client) {
				for range 2 {
					if _, err := c.Open(t.Context(), test.first); !errors.Is(err, test.want) {
						t.Errorf("Open: %v, want %v", err, test.want)
					}
				}
			})
		})
	}
}

// A later Open, or an Open of another file, returns the content that the file has then.
func TestPrefetchExpires(t *testing.T) {
	data, other := pattern(100, 1), pattern(200, 2)
	withFakeServer(t, Config{First: "f"}, func(p *fakeServer) { p.put(t, "f", data) }, func(t *testing.T, p *fakeServer, c *Client) {
		time.Sleep(5 * time.Second)
		p.put(t, "f", other)
		if fi, err := c.Stat(t.Context(), "f"); err != nil || fi.Size() != 200 {
			t.Errorf("Stat = %v, %v", fi, err)
		}
		if err := fetchAndCompare(t.Context(), c, "f", other); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := p.openHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}

// OpenSSH's server returns the handle that the client guesses.
func TestOpenSSHServerPrefetch(t *testing.T) {
	for _, size := range []int{0, 1000, wire.SureData, 1 << 20} {
		_, dir := openSSHClient(t, Config{})
		data := pattern(size, 1)
		writeFile(t, dir, "f", data)
		c := openSSHClientIn(t, Config{First: "f"}, dir)
		if s := c.mux.State(); !s.Guesses || (s.Prefetched == nil) != (size >= wire.SureData) {
			t.Errorf("%d bytes: the handle was another one, or the data of a large file was waited for: %+v", size, s)
		}
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Error(err)
		}
	}
}

// If a server's answers are wrong, the client tries again with a sequential handshake, and does not
// use the earlier answers.
func TestPrefetchHostile(t *testing.T) {
	data := pattern(1000, 1)
	for name, wrong := range map[string]func(q wire.Request) []byte{
		"twice": func(q wire.Request) []byte {
			b := wire.AppendAttrs(nil, q.ID, wire.Attrs{})
			return wire.AppendAttrs(b, q.ID, wire.Attrs{})
		},
		"unknown id": func(q wire.Request) []byte { return wire.AppendAttrs(nil, 1<<30, wire.Attrs{}) },
		"id of 64":   func(q wire.Request) []byte { return wire.AppendAttrs(nil, q.ID+64, wire.Attrs{}) },
		"too long":   func(q wire.Request) []byte { return wire.AppendData(nil, 4, make([]byte, wire.SureData+1)) },
		"garbage":    func(q wire.Request) []byte { return rawPacket(99, q.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := false
			hook := func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeStat || spoilt {
					return nil, false
				}
				spoilt = true
				return wrong(q), true
			}
			withFakeServer(t, Config{First: "f"}, func(p *fakeServer) { p.put(t, "f", data); p.hook = hook }, func(t *testing.T, _ *fakeServer, c *Client) {
				if !spoilt || c.mux.State().Prefetched != nil {
					t.Errorf("spoilt %v, and believed %q", spoilt, c.mux.State().Prefetched)
				}
				if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
