package sftp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// What fails behind the back shows at the next call, and at all after it.
func TestClientWriteBehindErrors(t *testing.T) {
	inClientWorld(t, ClientConfig{}, func(p *clientPeer) {
		p.link.latency = 10 * time.Millisecond
		p.ext = p.ext.Without(wire.ExtLimits)
		p.hook = func(s *clientSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeWrite && q.Offset <= 200_000 && q.Offset+int64(len(q.Data)) > 200_000 {
				return wire.AppendStatus(nil, q.ID, wire.NoSpace, "full"), true
			}
			return nil, false
		}
	}, func(t *testing.T, p *clientPeer, c *Client) {
		data := clientPattern(1<<20, 1)
		p.put(t, "old", data[:150_000])
		for _, name := range []string{"new", "old"} {
			f, err := c.OpenFile(t.Context(), name, os.O_RDWR|os.O_CREATE, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := f.Write(data[:400_000]); n != 400_000 || err != nil {
				t.Errorf("the first Write = %d, %v", n, err)
			}
			if name == "new" {
				if err := f.Sync(); !errors.Is(err, store.ErrNoSpace) {
					t.Errorf("Sync: %v", err)
				}
			} else {
				time.Sleep(time.Second)
			}
			if n, err := f.Write(data[400_000:]); n != 0 || !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("the Write after it = %d, %v", n, err)
			}
			if _, err := f.WriteAt(data, 0); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("WriteAt: %v", err)
			}
			if _, err := f.Read(make([]byte, 1)); !errors.Is(err, store.ErrNoSpace) {
				t.Errorf("Read: %v", err)
			}
			te := (*TransferError)(nil)
			if err := f.Close(); !errors.Is(err, store.ErrNoSpace) || !errors.As(err, &te) || te.Local || te.Offset > 200_000 {
				t.Errorf("Close: %v", err)
			}
			// It is cut where the first hole is, and not below what it had.
			got := p.get(t, name)
			if len(got) > 200_000 || len(got) < 150_000 || !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("%s is left with %d bytes", name, len(got))
			}
		}
	})
}

// What was written, and not confirmed when the context ended, is an error of
// Close, and the file is cut.
func TestClientCloseAfterContext(t *testing.T) {
	inClientWorld(t, ClientConfig{}, func(p *clientPeer) {
		p.link = clientLink{latency: 10 * time.Millisecond, rate: 1 << 20}
	}, func(t *testing.T, p *clientPeer, c *Client) {
		ctx, cancel := clientCancel(t)
		f, err := c.Create(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		data := clientPattern(10<<20, 1)
		time.AfterFunc(2*time.Second, cancel)
		if n, err := f.Write(data); n == len(data) || !errors.Is(err, context.Canceled) {
			t.Errorf("Write = %d, %v", n, err)
		}
		if err := f.Close(); !errors.Is(err, context.Canceled) {
			t.Errorf("Close: %v", err)
		}
		if got := p.get(t, "f"); len(got) < 1<<20 || len(got) == len(data) || !bytes.Equal(got, data[:len(got)]) {
			t.Errorf("the server is left with %d bytes", len(got))
		}
	})
}

func TestClientFileMisuse(t *testing.T) {
	inClientWorld(t, ClientConfig{}, nil, func(t *testing.T, p *clientPeer, c *Client) {
		p.put(t, "f", []byte("0123456789"))
		r, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		w, err := c.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p10 := make([]byte, 10)
		tests := []struct {
			name string
			f    func() error
			want error
		}{
			{"write to one for reading", func() error { _, err := r.Write(p10); return err }, fs.ErrPermission},
			{"ReadFrom of it", func() error { _, err := r.ReadFrom(bytes.NewReader(p10)); return err }, fs.ErrPermission},
			{"FillFrom of it", func() error { _, err := r.FillFrom(t.Context(), bytes.NewReader(p10), 0, 10); return err }, fs.ErrPermission},
			{"Truncate of it", func() error { return r.Truncate(0) }, fs.ErrPermission},
			{"read one for writing", func() error { _, err := w.Read(p10); return err }, fs.ErrPermission},
			{"FetchTo of it", func() error { _, err := w.FetchTo(t.Context(), clientNowhere{}, 0); return err }, fs.ErrPermission},
			{"ReadAt before the beginning", func() error { _, err := r.ReadAt(p10, -1); return err }, fs.ErrInvalid},
			{"WriteAt before the beginning", func() error { _, err := w.WriteAt(p10, -1); return err }, fs.ErrInvalid},
			{"WriteAt behind all ends", func() error { _, err := w.WriteAt(p10, 1<<63-5); return err }, fs.ErrInvalid},
			{"Seek before the beginning", func() error { _, err := r.Seek(-1, io.SeekStart); return err }, fs.ErrInvalid},
			{"Seek to nowhere", func() error { _, err := r.Seek(0, 7); return err }, fs.ErrInvalid},
			{"no flags", func() error { _, err := c.OpenFile(t.Context(), "f", 3, 0); return err }, fs.ErrInvalid},
		}
		for _, tt := range tests {
			if err := tt.f(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		for _, f := range []*File{r, w} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Close again: %v", err)
			}
			if _, err := f.Stat(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Stat after Close: %v", err)
			}
		}
		if _, err := r.Read(p10); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := w.Write(p10); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
	})
}

// Close ends reads under way.
func TestClientCloseWhileReading(t *testing.T) {
	inClientWorld(t, ClientConfig{}, func(p *clientPeer) { p.link.latency = clientTrip / 2 }, func(t *testing.T, p *clientPeer, c *Client) {
		p.put(t, "f", clientPattern(50<<20, 1))
		for name, read := range map[string]func(f *File) error{
			"Read":    func(f *File) error { _, err := io.Copy(io.Discard, onlyReader{f}); return err },
			"ReadAt":  func(f *File) error { _, err := f.ReadAt(make([]byte, 50<<20), 0); return err },
			"WriteTo": func(f *File) error { _, err := f.WriteTo(io.Discard); return err },
			"FetchTo": func(f *File) error { _, err := f.FetchTo(t.Context(), clientNowhere{}, 0); return err },
		} {
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(3*clientTrip/2, func() { _ = f.Close() })
			if err := read(f); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("%s of a file that is closed: %v", name, err)
			}
			time.Sleep(100 * clientTrip)
		}
	})
}

type onlyReader struct{ io.Reader }

// A file that grows while it is read is read to its new end; one that shrinks
// ends where it ends.
func TestClientFileChangesSize(t *testing.T) {
	inClientWorld(t, ClientConfig{}, nil, func(t *testing.T, p *clientPeer, c *Client) {
		data := clientPattern(1<<20, 1)
		for _, size := range []int{0, 1000, 600_000} {
			p.put(t, "f", data[:500_000])
			h, err := p.tree.OpenFile(t.Context(), "f", store.Access{Write: true})
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Truncate(0); err != nil {
				t.Fatal(err)
			}
			if _, err := h.WriteAt(data[:size], 0); err != nil {
				t.Fatal(err)
			}
			_ = h.Close()
			var b clientBuffer
			if n, err := f.FetchTo(t.Context(), &b, 0); n != int64(size) || err != nil || !bytes.Equal(b.b, data[:size]) {
				t.Errorf("FetchTo of one with %d bytes by then = %d, %v", size, n, err)
			}
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, data[:size]) {
				t.Errorf("ReadAll of one with %d bytes by then = %d, %v", size, len(got), err)
			}
			_ = f.Close()
		}
	})
}
